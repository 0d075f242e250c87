// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Analyses of a trained model: its use of the context, its predictions of rare tokens, and its
// generated text, after "Multi-scale Transformer Language Models" (arXiv 2005.00581, figures 3 and
// 4), on bytes or the tokens of a tokenizer.
#pragma once

#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Generate/Sampling.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

struct ContextOptions {
  /// Tokens per window, even, from 4 to the context; 0: the context, rounded down to even.
  int64_t length = 0;
  int64_t mostWindows = 0; ///< maximum number of windows, evenly spread over the text; 0: all
  uint64_t seed = 0;       ///< of the shuffles
};

/// The increase of the loss when the farther half of the preceding context is shuffled.
struct ContextResult {
  /// The token at position `distance` of the second half, starting at 1: mean bits over windows,
  /// and the standard error of the difference (NaN for one window).
  struct Place {
    int64_t distance = 0;
    double plain = 0, shuffled = 0, error = 0;
    double increase() const { return shuffled - plain; }
  };
  int64_t length = 0, windows = 0;
  uint64_t seed = 0;
  std::vector<Place> places; ///< length / 2
};

/// Cuts the files into windows that do not overlap, scores the second half of each, and scores it
/// again after shuffling the tokens of the first half. Throws UserError if `options.length` does
/// not fit the model, or if no file has a complete window.
ContextResult measureContext(Executor &executor, const std::vector<ByteFile> &files,
                             const ContextOptions &options,
                             const std::function<void(double)> &progress = {});

/// The loss by frequency of the predicted token.
struct FrequencyResult {
  /// Token ids by descending frequency, cut so that each bin has an equal share of the counted
  /// tokens.
  struct Bin {
    std::vector<int32_t> tokens; ///< most frequent first; ids that were not counted are last
    double share = 0;            ///< share of the counted tokens
    int64_t scored = 0;          ///< number of scored tokens with these ids
    /// Mean over the scored tokens, and its standard error (NaN for fewer than two).
    double bits = 0, error = 0;
  };
  std::vector<Bin> bins;
};

/// Counts the tokens of `counted`, assigns each id to the bin that contains the middle of its
/// probability mass, and scores `files`. An id with more mass than one bin leaves bins empty.
/// 2 <= `bins` <= 256.
FrequencyResult measureFrequency(Executor &executor, const std::vector<ByteFile> &counted,
                                 const std::vector<ByteFile> &files, int64_t bins,
                                 const std::function<void(double)> &progress = {});

struct SampleOptions {
  int64_t prompts = 16; ///< evenly spread over the text
  /// Tokens per prompt; 0: a quarter of the context, or more if the model needs more.
  int64_t promptTokens = 0;
  int64_t tokens = 0;      ///< tokens to generate per prompt; 0: three times the prompt
  int64_t completions = 3; ///< per prompt
  SamplingOptions sampling;
};

/// Statistics of the text that a model generates after prompts from a text, and of the text's own
/// continuations. Words are separated by whitespace; words cut by an end are not counted.
struct SampleResult {
  struct Side {
    int64_t words = 0;
    /// Perplexity per word under an interpolated Kneser-Ney 4-gram model of the counted text; NaN
    /// if there are no words.
    double perplexity = 0;
    /// Shares of n-grams that occur earlier in the text, n = 1 to 4.
    std::array<double, 4> repeats{};
  };
  int64_t prompts = 0, completions = 0, promptTokens = 0, tokens = 0;
  Side written, reference;
  /// BLEU of the text's own continuations, each with the completions of its prompt as references
  /// (Subramanian et al. 2020, table 5).
  double refBleu = 0;
  double seconds = 0; ///< per completion
};

/// Throws UserError if the files have no window of a prompt and its continuation.
SampleResult measureSamples(Executor &executor, const std::vector<ByteFile> &counted,
                            const std::vector<ByteFile> &files, const SampleOptions &options,
                            const std::function<void(double)> &progress = {});

/// The predictions after prompts of a model that only predicts groups: the most probable tokens of
/// the next group's bag, one per token of the group (table 7 of the paper).
struct CompletionResult {
  struct Prompt {
    struct Token {
      int32_t id = 0;
      double probability = 0;
      std::string text; ///< the token's bytes
    };
    std::string text, next;      ///< `next`: the group that follows in the text
    std::vector<Token> expected; ///< most probable first
  };
  int64_t group = 0, promptTokens = 0;
  std::vector<Prompt> prompts;
  double found = 0; ///< share of the distinct tokens of the next groups that were predicted
};

/// Uses only `options.prompts` and `options.promptTokens`; a prompt consists of full groups. Throws
/// UserError if the model predicts the next token, or if no window of a prompt and a group fits.
CompletionResult measureCompletions(Executor &executor, const std::vector<ByteFile> &files,
                                    const SampleOptions &options,
                                    const std::function<void(double)> &progress = {});

/// Return an HTML page with inline SVG that shows a result.
std::string drawContext(const ContextResult &result, const std::string &model);
std::string drawFrequency(const FrequencyResult &result, const std::string &model);
std::string drawSamples(const SampleResult &result, const std::string &model);
std::string drawCompletions(const CompletionResult &result, const std::string &model);

} // namespace sluice::runtime
