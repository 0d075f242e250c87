// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a trained model does with its context, with rare tokens, and what it writes: analyses of
// "Multi-scale Transformer Language Models" (arXiv 2005.00581, figures 3 and 4), on bytes.
#pragma once

#include "sluice/Runtime/Data.h"
#include "sluice/Runtime/Executor.h"
#include "sluice/Runtime/Sampling.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

struct ContextOptions {
  int64_t length = 0; ///< tokens a window, even, from 4 to the context; 0: the context, or one less
  int64_t mostWindows = 0; ///< at most so many, evenly spread over the text; 0: all
  uint64_t seed = 0;       ///< of the shuffles
};

/// How much worse tokens are predicted where the far half of what stands before them is out of
/// order.
struct ContextResult {
  /// Of the token `distance` places behind the border between the halves, 1 the first: bits, mean
  /// over windows, and the standard error of the difference; NaN of one window.
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
/// again with the tokens of the first half in random order. Throws UserError where `options.length`
/// does not fit the model, or no file has a window.
ContextResult measureContext(Executor &executor, const std::vector<ByteFile> &files,
                             const ContextOptions &options,
                             const std::function<void(double)> &progress = {});

/// How well tokens are predicted by how common they are.
struct FrequencyResult {
  /// Tokens from the commonest on: as many kinds as make an equal share of what was counted.
  struct Bin {
    std::vector<uint8_t> tokens; ///< most common first; those that were never counted are last
    double share = 0;            ///< of the counted tokens
    int64_t scored = 0;          ///< times that one of them was to be predicted
    double bits = 0, error = 0;  ///< mean over these, and its standard error: NaN of fewer than two
  };
  std::vector<Bin> bins;
};

/// Counts the tokens of `counted`, puts each kind into the bin in which the middle of its mass
/// lies (so a kind that makes more than a share leaves bins empty), and scores `files`. 2 <= `bins`
/// <= 256.
FrequencyResult measureFrequency(Executor &executor, const std::vector<ByteFile> &counted,
                                 const std::vector<ByteFile> &files, int64_t bins,
                                 const std::function<void(double)> &progress = {});

struct SampleOptions {
  int64_t prompts = 16;     ///< evenly spread over the text
  int64_t promptTokens = 0; ///< of each; 0: a quarter of the context, and what the model needs
  int64_t tokens = 0;       ///< written behind each; 0: three times the prompt
  int64_t completions = 3;  ///< of each prompt
  SamplingOptions sampling;
};

/// What a model writes behind prompts from a text, and beside it what the text goes on with.
/// Words stand between whitespace; one that an end cuts is not counted.
struct SampleResult {
  struct Side {
    int64_t words = 0;
    /// A word, by an interpolated Kneser-Ney 4-gram model of the counted text; NaN of no words.
    double perplexity = 0;
    std::array<double, 4> repeats{}; ///< shares of n-grams that the text has before, n = 1 to 4
  };
  int64_t prompts = 0, completions = 0, promptTokens = 0, tokens = 0;
  Side written, reference;
  /// BLEU of the text's own continuations, each against the completions of its prompt as references
  /// (Subramanian et al. 2020, table 5).
  double refBleu = 0;
  double seconds = 0; ///< per completion
};

/// Throws UserError where no window of prompt and continuation fits the files.
SampleResult measureSamples(Executor &executor, const std::vector<ByteFile> &counted,
                            const std::vector<ByteFile> &files, const SampleOptions &options,
                            const std::function<void(double)> &progress = {});

/// What a model of groups alone expects behind prompts: the likeliest tokens of the next group's
/// bag, as many as the group has (the paper's table 7).
struct CompletionResult {
  struct Prompt {
    std::string text, next;                           ///< what the text goes on with: one group
    std::vector<std::pair<uint8_t, double>> expected; ///< tokens and probabilities, likeliest first
  };
  int64_t group = 0, promptTokens = 0;
  std::vector<Prompt> prompts;
  double found = 0; ///< share of the texts' next tokens, each kind once, that were expected
};

/// `options.prompts` and `options.promptTokens` alone count; a prompt is of whole groups. Throws
/// UserError where the model predicts the next token, or no window of prompt and group fits.
CompletionResult measureCompletions(Executor &executor, const std::vector<ByteFile> &files,
                                    const SampleOptions &options,
                                    const std::function<void(double)> &progress = {});

/// A page (HTML with inline SVG) that shows a result.
std::string drawContext(const ContextResult &result, const std::string &model);
std::string drawFrequency(const FrequencyResult &result, const std::string &model);
std::string drawSamples(const SampleResult &result, const std::string &model);
std::string drawCompletions(const CompletionResult &result, const std::string &model);

} // namespace sluice::runtime
