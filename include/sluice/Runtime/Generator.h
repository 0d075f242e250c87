// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writing text: a model's predictions, sampled on the host.
#pragma once

#include "sluice/Runtime/Executor.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::runtime {

struct SamplingOptions {
  double temperature = 1; // 0: always the likeliest
  int64_t topK = 0;       // only the k likeliest; 0: all
  double topP = 1;        // only the likeliest that together reach this probability
  uint64_t seed = 0;
};

/// Throws UserError unless temperature >= 0, topK >= 0 and 0 < topP <= 1.
void checkSampling(const SamplingOptions &options);

/// Throws UserError where a byte of the prompt is no token id.
void checkPrompt(std::string_view prompt, int64_t vocabulary);

/// The id to take for `logits` when the random number is `uniform` in [0, 1). Among equals, lower
/// ids come first. Throws JobError where a logit is not finite.
int64_t pickToken(std::span<const float> logits, const SamplingOptions &options, double uniform);

/// Continues `prompt` (at least one byte) by `count` bytes, giving each to `emit` until it returns
/// false. Every token recomputes the whole window, which is the last context tokens of the text:
/// cost grows with neither the prompt nor the text, but is that of a full forward pass. Of a larger
/// vocabulary only ids below 256 are taken.
void generate(Executor &executor, std::string_view prompt, int64_t count,
              const SamplingOptions &options, const std::function<bool(uint8_t)> &emit);

} // namespace sluice::runtime
