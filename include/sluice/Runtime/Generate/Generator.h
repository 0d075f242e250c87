// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates several texts at once from a model's predictions.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Generate/Sampling.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// Returns the start of the window that the model reads in a text of `size` tokens, given the
/// previous start. The start does not change while the window fits the context. Otherwise the
/// window is refilled with the newest tokens, at most half of the context, from a multiple of
/// `period`; it always has at least `least` tokens.
int64_t windowStart(int64_t size, int64_t start, int64_t context, int64_t period,
                    int64_t least = 1);

/// Predicts the next token of growing texts, each in its own row.
class Predictor {
public:
  /// With `cached` and an artifact that has a decode step, the cost of a call is proportional to
  /// its new tokens; otherwise each call runs a full forward pass over every window. Both modes
  /// read the same windows.
  Predictor(Executor &executor, bool cached);

  /// Returns the number of texts that can be predicted at once.
  int64_t rows() const { return static_cast<int64_t>(windows.size()); }
  bool isCached() const { return cached; }

  /// A text of at least one token in row `row`. It must extend the row's text of the previous call.
  struct Turn {
    int64_t row = 0;
    std::span<const int32_t> text;
    const GivenLines *given = nullptr; ///< the text's named inputs; null if it has none
  };
  /// Returns the logits after each text, [turns, vocabulary], row-major, valid until the next call.
  /// The logits of a text are bitwise independent of the other texts.
  std::span<const float> predict(std::span<const Turn> turns);

  /// The window of a row's text, and the part of it that the row's states represent.
  struct GenerationWindow {
    int64_t start = 0;
    int64_t seen = -1; ///< tokens from `start` on; -1: the states belong to another text
  };
  const GenerationWindow &window(int64_t row) const { return windows.at(static_cast<size_t>(row)); }
  /// The effect of a row's newest token on each segmentation of the model. Empty if each call
  /// recomputes the window.
  struct SegmentProgress {
    std::string name;
    int64_t closed = 0;      ///< boundary bits in the window: segments that have ended, or begun
    bool isBoundary = false; ///< the token has a boundary bit, so rows of segments were computed
  };
  std::vector<SegmentProgress> segments(int64_t row);

  /// Assigns row `row` to a text with the window `window`; {} for a new text. The results of its
  /// named inputs are stored at line `line`, or, without it, at the line of the row's number. Rows
  /// may share a line only if they have the same named inputs.
  void begin(int64_t row, const GenerationWindow &window, std::optional<int64_t> line = {});
  /// Assigns row `to` to the text of row `from` and its line, and copies the states of rows. Row
  /// `to` must be new, or belong to a text of the same line; then only states after the first token
  /// in which the two texts differ are copied. Needs a cache.
  void copyRow(int64_t from, int64_t to);

private:
  std::span<const float> recompute(const Turn &turn, int64_t from);
  void catchUp(const Turn &turn, bool moved);
  void refill(const Turn &turn, std::span<const int32_t> tokens);
  void step(std::span<const Turn> turns);
  int64_t getLine(int64_t row);
  int32_t getClosedSegments(const SegmentFacts &segments, int64_t row);
  /// Steps, or closed segments: in the first tokens that two texts share, in one text, and in the
  /// other one, whose states the copy replaces.
  struct StateClock {
    int64_t common = 0, own = 0, other = 0;
  };
  void copyRows(const State &state, int64_t from, int64_t to, const StateClock &clock);

  Executor &executor;
  const bool cached;
  std::vector<GenerationWindow> windows; ///< by row
  std::vector<float> logits;
  std::map<const SegmentFacts *, std::vector<int32_t>>
      closedBefore; ///< by segments and row, before the last step
  /// Closed segments by axis, row and number of tokens; -1 where no step has read them.
  std::map<std::string, std::vector<std::vector<int32_t>>> closedAfter;
};

/// Returns the logits of the full vocabulary after each turn, as Predictor::predict does.
std::span<const float> predictLogits(Executor &executor, Predictor &predictor,
                                     std::span<const Predictor::Turn> turns);

/// A text to continue.
struct Text {
  std::vector<int32_t> tokens;                        ///< at least one
  int64_t sample = 0;                                 ///< index among the samples of a prompt
  int64_t drawn = 0;                                  ///< number of generated tokens
  GivenLines given{};                                 ///< named inputs
  int64_t room = std::numeric_limits<int64_t>::max(); ///< maximum number of tokens to generate
  std::optional<double> score{};                      ///< of the continuation, by beam search
};

/// Samples the next token of a text from the logits after it, appends it and returns it.
int32_t drawToken(Text &text, std::span<const float> logits, const SamplingOptions &options);

enum class StopReason { Length, StopText, Reader };

/// The text of token ids. A default object spells bytes.
struct TokenSpelling {
  int64_t ids = 256; ///< only ids below are sampled
  /// Returns the bytes of the last token of a text; null: the token is a byte.
  std::function<std::string(std::span<const int32_t> text)> spell = {};
  bool holdsCharacters = false; ///< passes whole UTF-8 characters to TextSink::write

  bool isBytes() const { return !spell; }
};

/// Returns a spelling as decimal numbers with a space after each, of all ids of a vocabulary.
TokenSpelling spellIds(int64_t vocabulary);

/// Returns a spelling as the text that `encoder` decodes.
TokenSpelling spellText(const std::shared_ptr<const TextEncoder> &encoder);

/// Parses decimal token ids that are separated by spaces, from 0 to `vocabulary` - 1. Throws
/// UserError with the number of the word, which `flag` precedes.
std::vector<int32_t> parseTokenIds(const std::string &flag, std::string_view text,
                                   int64_t vocabulary);

/// Returns tokens below 256 as the bytes of a text.
std::string toText(std::span<const int32_t> tokens);

/// Returns the bytes of a text as tokens.
std::vector<int32_t> toTokens(std::string_view text);

/// Callbacks of a generation. Texts are identified by index.
struct TextSink {
  /// Receives the spelling of new tokens of a text. Returns false if the reader has closed.
  std::function<bool(size_t text, std::string_view bytes)> write;
  std::function<void(size_t text, StopReason reason)> finish = {};
  /// Receives a text's newest token after the model has read it: its position and its effect on
  /// segments.
  std::function<void(size_t text, int64_t position, int32_t token,
                     std::span<const Predictor::SegmentProgress> segments)>
      read = {};
};

/// Throws UserError if the model cannot continue `prompt`: a token id is out of range, the prompt
/// has no scored row, or the head predicts groups. `unit` is the noun for a token in messages.
void checkContinues(const Executor &executor, std::span<const int32_t> prompt,
                    const std::string &unit = "byte");

/// Continues each of `texts` by `count` tokens, until one of `stops` occurs in their spelling, or
/// until its reader closes. The predictor's rows run concurrently; when a text ends, the next
/// waiting text takes its row. The tokens of a text depend only on the text, the options and the
/// weights. A stop text is part of the text's tokens but is not passed to `write`.
void writeTexts(Executor &executor, Predictor &predictor, std::span<Text> texts, int64_t count,
                const SamplingOptions &options, const std::vector<std::string> &stops,
                const TextSink &sink, const TokenSpelling &spelling = {});

/// A given continuation and its score.
struct Scored {
  std::vector<int32_t> tokens; ///< at least one
  size_t first = 1;            ///< first token that is scored; earlier tokens are the prompt
  std::vector<double> nats{};  ///< -log of the probability, by scored token
  GivenLines given{};          ///< named inputs
};

/// Scores given texts, as many at once as the predictor has rows; step by step if the predictor is
/// cached. The score of a text depends only on the text and the weights.
void scoreTexts(Executor &executor, Predictor &predictor, std::span<Scored> texts);

/// Continues `prompt` (at least one byte) by `count` tokens and passes each byte to `emit` until it
/// returns false. Without `encoder`, tokens are bytes.
void generate(Executor &executor, std::string_view prompt, int64_t count,
              const SamplingOptions &options, const std::function<bool(uint8_t)> &emit,
              const std::shared_ptr<const TextEncoder> &encoder = {});

} // namespace sluice::runtime
