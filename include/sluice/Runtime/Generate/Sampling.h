// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Samples the next token from logits, and finds stop texts: on the host, in float64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// Options of sampling. The filters apply in this order, each to the probabilities that the
/// previous one left.
struct SamplingOptions {
  double repetitionPenalty =
      1;                  // for tokens in the text: divides positive logits, multiplies others
  double temperature = 1; // divides logits; 0: always the most probable token
  int64_t topK = 0;       // keeps the k most probable tokens; 0: all
  double topP = 1;        // keeps the most probable tokens that together reach this probability
  double minP = 0;        // keeps tokens with at least this probability, relative to the maximum
  double typical =
      1; // keeps the tokens with -log p closest to the mean that together reach this probability
  uint64_t seed = 0;
  bool cached = true; // runs decode steps if the artifact has them; otherwise each token recomputes
                      // its window
};

/// Throws UserError unless temperature >= 0, topK >= 0, 0 < topP <= 1, 0 <= minP <= 1,
/// 0 < typical <= 1 and repetitionPenalty > 0, all finite.
void checkSampling(const SamplingOptions &options);

/// Throws UserError if a token of the prompt is not below `vocabulary`; `name` starts the message,
/// and `unit` is the noun for a token.
void checkPrompt(std::span<const int32_t> prompt, int64_t vocabulary,
                 const std::string &name = "the prompt", const std::string &unit = "byte");

/// Returns the token id sampled from `logits` after `text` with the random number `uniform` in [0,
/// 1). Lower ids come first in ties. Throws JobError if a logit is not finite.
int64_t pickToken(std::span<const float> logits, const SamplingOptions &options, double uniform,
                  std::span<const int32_t> text = {});

/// Returns -log of the probability of `id`, in nats. Throws JobError if a logit is not finite.
double computeSurprise(std::span<const float> logits, size_t id);

/// Returns the logarithm of the sum of exp(logit): a logit minus it is the logarithm of the id's
/// probability, in nats. Throws JobError if a logit is not finite.
double computeLogSum(std::span<const float> logits);

/// Returns the random number in [0, 1) for token `token` of sample `sample` of a prompt, a pure
/// function of the arguments.
double drawUniform(uint64_t seed, int64_t sample, int64_t token);

/// Finds stop texts in a text byte by byte. Bytes that may start a stop text are held back.
class StopFilter {
public:
  /// `stops` must not contain empty texts.
  explicit StopFilter(const std::vector<std::string> &stops) : stops(&stops) {}

  /// Returns the bytes that can be printed after `byte`. Empty after a stop text.
  std::string push(uint8_t byte);
  /// Returns the bytes that are held back when the text ends without a stop text.
  std::string flush();
  bool found() const { return stopped; }

private:
  const std::vector<std::string> *stops;
  std::string held;
  bool stopped = false;
};

} // namespace sluice::runtime
