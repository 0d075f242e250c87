// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Beam search of one text, given the logits after each of its hypotheses: on the host, in float64.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::runtime {

/// Options of beam search.
struct BeamOptions {
  int64_t width = 4;          ///< maximum number of hypotheses, and of finished ones
  double lengthPenalty = 0.6; ///< a finished hypothesis of n tokens has the score log p / n^penalty
  int64_t minTokens = 0;      ///< the end has probability 0 before this number of tokens
  int64_t noRepeat = 0; ///< a token that would repeat an n-gram of this length has probability 0;
                        ///< 0: none has
  std::optional<int32_t> end = {}; ///< token that finishes a hypothesis
};

/// Throws UserError unless width >= 1, minTokens >= 0, noRepeat >= 0, and the length penalty is
/// finite and at least 0.
void checkBeam(const BeamOptions &options);

/// Extends hypotheses of the continuation of a prompt by one token at a time. A step considers the
/// 2 * width best pairs of a hypothesis and a token, by log probability of the continuation; lower
/// hypotheses and then lower tokens come first in ties. A pair with the end among the first width
/// finishes, and the first width others are the next hypotheses.
class Beam {
public:
  struct Hypothesis {
    std::vector<int32_t> tokens; ///< with the prompt
    double logProbability = 0;   ///< of the continuation
    size_t parent = 0;           ///< the hypothesis of the previous step that it extends
  };
  struct Continuation {
    std::vector<int32_t> tokens; ///< with the prompt, and with the end if it is finished
    double score = 0;
    bool isFinished = false;
  };

  /// Starts with the prompt as the only hypothesis. `limit` >= 1 bounds the number of tokens of the
  /// continuation, the end included.
  Beam(const BeamOptions &options, std::vector<int32_t> prompt, int64_t limit);

  /// Returns the unfinished hypotheses, the most probable first.
  const std::vector<Hypothesis> &hypotheses() const { return live; }
  /// Checks for `width` finished hypotheses, or hypotheses that cannot be extended: at the limit,
  /// or because every token has probability 0.
  bool isDone() const { return done; }
  /// Extends the hypotheses by tokens [0, ids). `logits` is [hypotheses, stride], row-major. Throws
  /// JobError if a logit is not finite.
  void advance(std::span<const float> logits, int64_t stride, int64_t ids);
  /// Returns the finished hypothesis with the highest score, the earliest of several; without one,
  /// the most probable unfinished one.
  Continuation best() const;

private:
  /// A hypothesis and its next token.
  struct Extension {
    double logProbability;
    size_t hypothesis;
    int32_t token;
  };
  std::vector<Extension> findBest(std::span<const float> logits, int64_t stride, int64_t ids) const;
  std::vector<int32_t> findExcluded(const Hypothesis &hypothesis) const;
  Hypothesis extend(const Extension &extension) const;
  int64_t countWritten() const;
  double computeScore(const Hypothesis &hypothesis) const;

  BeamOptions options;
  size_t promptSize;
  int64_t limit;
  std::vector<Hypothesis> live;
  int64_t finished = 0; ///< number of finished hypotheses
  Continuation winner;  ///< of the finished ones
  bool done = false;
};

} // namespace sluice::runtime
