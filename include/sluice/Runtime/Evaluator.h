// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scoring text with overlapping windows.
#pragma once

#include "sluice/Runtime/Data.h"
#include "sluice/Runtime/Executor.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

struct EvaluationOptions {
  int64_t window = 0; // tokens a window; 0: the context
  int64_t stride =
      0; // tokens from one window's start to the next's; 0: half the window, at least 1
  int64_t mostTokens = 0;             // scored tokens at most, over all files; 0: all
  const LabelFiles *labels = nullptr; // beside the files; losses of others are not reported
};

/// The scored part of one text.
struct FileScore {
  Path file;
  double nats = 0;
  int64_t tokens = 0;
  std::optional<int64_t> characters; ///< none where bytes are no UTF-8

  double bitsPerByte() const;
};

struct EvaluationResult {
  double nats = 0;    // sum over scored tokens
  int64_t tokens = 0; // scored
  int64_t window = 0, stride = 0;
  int64_t first = 0; // the first row of a window that is scored
  /// Of texts: runs of bytes between white space with a scored byte, and scored line ends, which
  /// WikiText counts as words.
  int64_t words = 0;
  /// Of text: characters of UTF-8 whose last byte is scored. None where there is no such number;
  /// `noCharacters` then says why.
  std::optional<int64_t> characters;
  std::string noCharacters;
  int64_t items = 0;            // scored, each by itself; 0: windows of texts were
  std::string noun, protocol;   // of the items
  std::vector<FileScore> files; ///< of texts: those with a scored token, in order
  /// Mean nats of every loss by name, the head's first, where there are several. Each is over the
  /// rows of its own that lie among the scored ones.
  std::vector<std::pair<std::string, double>> losses;

  nlohmann::json lossesByName() const;
  double bitsPerToken() const;
  double bitsPerByte() const { return bitsPerToken(); } // a token is a byte
  /// All nats of scored bytes, in bits, over the characters.
  std::optional<double> bitsPerCharacter() const;
  double perplexity() const;
  /// A word's, whatever the tokens are: exp(nats / words).
  double wordPerplexity() const;
};

/// One window over a text: it reads tokens start .. start + length, and its rows from firstScored
/// on are scored (row t predicts token start + t + 1).
struct Window {
  int64_t start = 0, length = 0, firstScored = 0;
};

/// The windows that score each of tokens 1 .. tokens - 1 once. Window i starts at i * stride and
/// scores the tokens after the last one's end, so that every scored token but the first window's
/// has at least window - stride tokens before it. 1 <= stride <= window. Only the last window may
/// be shorter than `window`.
std::vector<Window> cutWindows(int64_t tokens, int64_t window, int64_t stride);

/// Gets numbers that belong together, in the order of the text.
using NumberSink = std::function<void(std::span<const float>)>;

/// Scores the files with entry `evaluate`, windows of equal length in batches. Files do not see
/// each other. The first byte of each file has nothing before it and is not scored, nor are those
/// before the model's first scored row, in a file's first window. `progress` gets
/// the share done, 0 to 1; `losses` gets the nats of every scored token, piece by piece.
EvaluationResult evaluate(Executor &executor, const std::vector<ByteFile> &files,
                          const EvaluationOptions &options,
                          const std::function<void(double)> &progress = {},
                          const NumberSink &losses = {});

/// How many tokens `evaluate` will score, of a model that scores rows from `first` on: the numbers
/// that its `losses` will get.
int64_t countScored(const std::vector<ByteFile> &files, int64_t mostTokens, int64_t first = 0);

/// Scores items, in batches; at most `mostTokens` tokens where that is above 0. Throws like the one
/// above.
EvaluationResult evaluateItems(Executor &executor, const ItemSource &source, int64_t mostTokens,
                               const std::function<void(double)> &progress = {},
                               const NumberSink &losses = {});

/// Logits after each byte of the file, from an executor whose entry `predict` gives them for every
/// row (sluice logits compiles it so): file.bytes.size() rows of `vocabulary` numbers, in order.
/// Windows are those of `evaluate`; row i predicts byte i + 1. Throws JobError where one is not
/// finite.
void computeLogits(Executor &executor, const ByteFile &file, const EvaluationOptions &options,
                   const NumberSink &rows, const std::function<void(double)> &progress = {});

/// Rows of a stream on a scale of `factor` (row m stands for tokens from factor * m), from an
/// executor whose entry `predict` gives them. Windows are of the context and do not overlap; one of
/// n bytes has ceil(n / factor) rows. Throws JobError where one is not finite.
void computeRows(Executor &executor, const ByteFile &file, int64_t factor, const NumberSink &rows,
                 const std::function<void(double)> &progress = {});

/// How many rows `computeRows` will give for a file of `bytes` bytes.
int64_t countRows(int64_t bytes, int64_t context, int64_t factor);

/// What was measured and how, for people.
std::string describeProtocol(const EvaluationResult &result);

} // namespace sluice::runtime
