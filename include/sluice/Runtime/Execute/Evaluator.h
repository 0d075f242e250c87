// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scores text with overlapping windows.
#pragma once

#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Execute/Executor.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

class ProcessGroup;

struct EvaluationOptions {
  int64_t window = 0;     // tokens per window; 0: the context
  int64_t stride = 0;     // tokens between starts of windows; 0: half the window, at least 1
  int64_t mostTokens = 0; // maximum number of scored tokens over all files; 0: all
  /// Labels of the files; without them, losses on labels are not reported.
  const LabelFiles *labels = nullptr;
  /// Processes that share the batches; null: this process alone. All of them call the function with
  /// the same arguments.
  ProcessGroup *group = nullptr;
};

/// The scored part of one text.
struct FileScore {
  Path file;
  double nats = 0;
  int64_t tokens = 0;
  std::optional<int64_t> bytes;      ///< of the scored tokens; empty if their text is unknown
  std::optional<int64_t> characters; ///< empty if the bytes are unknown or not valid UTF-8
  std::optional<int64_t> chunks;     ///< see EvaluationResult

  /// Returns bits per chunk or per token; empty if the file has no scored chunk.
  std::optional<double> bitsPerUnit() const;
  std::optional<double> bitsPerByte() const;
};

/// Returns the unit of the model's loss in bits: "chunk" if it ends in a contrast, else "byte" of a
/// text or "token" of token ids.
std::string nameLossUnit(const Plan &plan, bool isText);

/// Throws UserError if the model ends in a loss among rows, and predicts no token.
void checkPredicts(const Plan &plan, const std::string &artifact);

struct EvaluationResult {
  double nats = 0;    // sum over scored tokens
  int64_t tokens = 0; // number of scored tokens
  /// Number of scored chunks, of which the losses are a mean, if the model ends in a contrast.
  std::optional<int64_t> chunks;
  std::map<std::string, int64_t> counted; ///< scored chunks of each contrast by its name
  int64_t window = 0, stride = 0;
  int64_t first = 0; // first scored row of a window
  /// Number of bytes of the scored tokens. Empty for token ids, whose text is unknown.
  std::optional<int64_t> bytes;
  bool isEncoded = false; ///< tokens are a tokenizer's
  /// Number of words in texts: runs of non-whitespace bytes with a scored byte, and scored line
  /// ends, which WikiText counts as words.
  int64_t words = 0;
  /// Number of UTF-8 characters in texts whose last byte is scored. Empty if unknown;
  /// `noCharacters` then has the reason.
  std::optional<int64_t> characters;
  std::string noCharacters;
  int64_t items = 0; // number of items that were scored separately; 0: windows of texts were scored
  std::string noun, protocol;   // of the items
  std::vector<FileScore> files; ///< texts with a scored token, in order
  /// Mean nats of each loss by name, if there are several losses; the head's loss is first. Each
  /// mean covers the scored rows to which the loss applies.
  std::vector<std::pair<std::string, double>> losses;

  nlohmann::json lossesByName() const;
  /// Returns the number of losses: of chunks, which may be 0, or of tokens.
  int64_t countUnits() const { return chunks.value_or(tokens); }
  /// Returns bits per chunk or per token; empty if no chunk was scored.
  std::optional<double> bitsPerUnit() const;
  /// Returns the total bits of the scored tokens divided by the number of their bytes.
  std::optional<double> bitsPerByte() const;
  /// Returns the total bits of the scored bytes divided by the number of characters.
  std::optional<double> bitsPerCharacter() const;
  double perplexity() const;
  /// Returns the perplexity per word, independent of tokenization: exp(nats / words).
  double wordPerplexity() const;
};

/// One window over a text. It reads tokens start .. start + length; its rows from firstScored on
/// are scored (row t predicts token start + t + 1).
struct Window {
  int64_t start = 0, length = 0, firstScored = 0;
};

/// Returns windows that score each of the tokens 1 .. tokens - 1 exactly once. Window i starts at i
/// * stride and scores the tokens after the end of the previous window, so each scored token
/// outside the first window has at least window - stride preceding tokens. 1 <= stride <= window.
/// Only the last window may be shorter than `window`.
std::vector<Window> cutWindows(int64_t tokens, int64_t window, int64_t stride);

/// Fills in the defaults of a model. Throws UserError for windows that it does not have.
EvaluationOptions completeOptions(EvaluationOptions options, const ModelFacts &model);

/// Receives a group of numbers. Groups arrive in the order of the text.
using NumberSink = std::function<void(std::span<const float>)>;

/// Scores the files with the entry `evaluate`, in batches of windows of equal length. Files are
/// independent. The first token of each file is not scored, since nothing precedes it; neither are
/// the tokens before the model's first scored row in a file's first window. `progress` receives the
/// completed share, 0 to 1; `losses` receives the nats of the scored tokens. With P processes each
/// runs every P-th batch, and all return the result of one process, bit for bit: the numbers of all
/// batches are exchanged, and added in their order. Throws PeerError if another one failed.
EvaluationResult evaluate(Executor &executor, const std::vector<ByteFile> &files,
                          const EvaluationOptions &options,
                          const std::function<void(double)> &progress = {},
                          const NumberSink &losses = {});

/// Throws UserError if the model ends in a contrast and no chunk was scored, so there is no loss.
void requireChunks(const EvaluationResult &result);

/// Returns the number of tokens that `evaluate` scores for a model whose first scored row is
/// `first`, which is the number of values that its `losses` receives.
int64_t countScored(const std::vector<ByteFile> &files, int64_t mostTokens, int64_t first = 0);

/// Scores items in batches, with the maximum number of tokens and the processes of `options`.
/// Throws as `evaluate` does.
EvaluationResult evaluateItems(Executor &executor, const ItemSource &source,
                               const EvaluationOptions &options,
                               const std::function<void(double)> &progress = {},
                               const NumberSink &losses = {});

/// Describes the protocol of an evaluation for people.
std::string describeProtocol(const EvaluationResult &result);

} // namespace sluice::runtime
