// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From logits to the next byte, and texts that end a text: on the host, in float64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// The filters apply in this order, each to the probabilities that the one before left.
struct SamplingOptions {
  double repetitionPenalty = 1; // of bytes in the text: divides logits above 0, multiplies others
  double temperature = 1;       // divides logits; 0: always the likeliest
  int64_t topK = 0;             // only the k likeliest; 0: all
  double topP = 1;              // only the likeliest that together reach this probability
  double minP = 0;              // only those at least this likely, the likeliest counted as 1
  double typical =
      1; // only those nearest to the mean of -log p that together reach this probability
  uint64_t seed = 0;
  bool cached = true; // step by step where the artifact can; else every token recomputes its window
};

/// Throws UserError unless temperature >= 0, topK >= 0, 0 < topP <= 1, 0 <= minP <= 1,
/// 0 < typical <= 1 and repetitionPenalty > 0, all finite.
void checkSampling(const SamplingOptions &options);

/// Throws UserError where a byte of the prompt is no token id; `name` begins the message.
void checkPrompt(std::string_view prompt, int64_t vocabulary,
                 const std::string &name = "the prompt");

/// The id to take for `logits` after `text`, when the random number is `uniform` in [0, 1). Among
/// equals, lower ids come first. Throws JobError where a logit is not finite.
int64_t pickToken(std::span<const float> logits, const SamplingOptions &options, double uniform,
                  std::span<const uint8_t> text = {});

/// -log of the probability of `id`, in nats. Throws JobError where a logit is not finite.
double surpriseOf(std::span<const float> logits, size_t id);

/// The random number, in [0, 1), of token `token` of sample `sample` of a prompt: of nothing else.
double uniformOf(uint64_t seed, int64_t sample, int64_t token);

/// Watches a text for stop texts, byte by byte. Bytes that may begin one are held back.
class StopFilter {
public:
  /// `stops` are not empty texts.
  explicit StopFilter(const std::vector<std::string> &stops) : stops(&stops) {}

  /// What can be printed now that `byte` has come. Nothing after a stop text was found.
  std::string push(uint8_t byte);
  /// What was held back: the text ends without a stop text.
  std::string flush();
  bool found() const { return stopped; }

private:
  const std::vector<std::string> *stops;
  std::string held;
  bool stopped = false;
};

} // namespace sluice::runtime
