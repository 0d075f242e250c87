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
  bool cached = true; // step by step where the artifact can; else every token recomputes its window
};

/// Throws UserError unless temperature >= 0, topK >= 0 and 0 < topP <= 1.
void checkSampling(const SamplingOptions &options);

/// Throws UserError where a byte of the prompt is no token id.
void checkPrompt(std::string_view prompt, int64_t vocabulary);

/// The id to take for `logits` when the random number is `uniform` in [0, 1). Among equals, lower
/// ids come first. Throws JobError where a logit is not finite.
int64_t pickToken(std::span<const float> logits, const SamplingOptions &options, double uniform);

/// Where the window that the model reads starts in a text of `size` tokens, given where it started
/// before: there, as long as it fits the context. Else it is refilled with the newest tokens, at
/// most half of the context, from a multiple of `period`.
int64_t windowStart(int64_t size, int64_t start, int64_t context, int64_t period);

/// What comes next in a growing text.
class Predictor {
public:
  /// With `cached` and an artifact that has a step, each call costs what its new tokens do; else
  /// that of a full forward pass over the window. Both read the same windows.
  Predictor(Executor &executor, bool cached);

  /// Logits after `text`, of at least one byte; it starts with the text of the call before. They
  /// stay until the next call.
  std::span<const float> predict(std::span<const uint8_t> text);

private:
  std::span<const float> recompute(std::span<const uint8_t> window);
  void refill(std::span<const uint8_t> tokens);

  Executor &executor;
  bool cached;
  int64_t start = 0; // of the window
  int64_t seen = -1; // tokens of it that states have seen; -1: states are not of this text
};

/// Continues `prompt` (at least one byte) by `count` bytes, giving each to `emit` until it returns
/// false. The model reads the windows of `windowStart`. Of a larger vocabulary only ids below 256
/// are taken.
void generate(Executor &executor, std::string_view prompt, int64_t count,
              const SamplingOptions &options, const std::function<bool(uint8_t)> &emit);

} // namespace sluice::runtime
