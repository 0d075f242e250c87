// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writing texts: a model's predictions, several texts at once.
#pragma once

#include "sluice/Runtime/Executor.h"
#include "sluice/Runtime/Sampling.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// Where the window that the model reads starts in a text of `size` tokens, given where it started
/// before: there, as long as it fits the context. Else it is refilled with the newest tokens, at
/// most half of the context, from a multiple of `period`; but at least `least`, in any case.
int64_t windowStart(int64_t size, int64_t start, int64_t context, int64_t period,
                    int64_t least = 1);

/// What comes next in texts that grow, each in a row of its own.
class Predictor {
public:
  /// With `cached` and an artifact that has a step, each call costs what its new tokens do; else
  /// that of a full forward pass over every window. Both read the same windows.
  Predictor(Executor &executor, bool cached);

  /// How many texts it takes at once.
  int64_t rows() const { return static_cast<int64_t>(windows.size()); }
  bool isCached() const { return cached; }

  /// A text of at least one byte, in row `row`. It starts with the row's text of the call before.
  struct Turn {
    int64_t row = 0;
    std::span<const uint8_t> text;
    const GivenLines *given = nullptr; ///< the text's named inputs; null: none of any
  };
  /// Logits after each text, [turns, vocabulary], row-major. They stay until the next call. A
  /// text's logits do not depend on the others, bit for bit.
  std::span<const float> predict(std::span<const Turn> turns);

  /// What a row reads of its text, and what its states have seen of that.
  struct Window {
    int64_t start = 0;
    int64_t seen = -1; ///< tokens from `start` on; -1: states are not of this text
  };
  const Window &window(int64_t row) const { return windows.at(static_cast<size_t>(row)); }
  /// Of each segmentation of the model, what a row's newest token did; nothing where each call
  /// recomputes.
  struct Segments {
    std::string name;
    int64_t closed = 0;      ///< bits of the window: segments that have ended, or begun
    bool isBoundary = false; ///< the token has a bit, so that rows of segments were computed
  };
  std::vector<Segments> segments(int64_t row);

  /// Row `row` goes on with a text whose window is `window`: {} for one that nobody has read.
  void begin(int64_t row, const Window &window) { windows.at(static_cast<size_t>(row)) = window; }

private:
  std::span<const float> recompute(const Turn &turn, int64_t from);
  void catchUp(const Turn &turn, bool moved);
  void refill(const Turn &turn, std::span<const uint8_t> tokens);
  void step(std::span<const Turn> turns);
  int32_t closedOf(const SegmentFacts &segments, int64_t row);

  Executor &executor;
  const bool cached;
  std::vector<Window> windows; ///< by row
  std::vector<float> logits;
  std::map<const SegmentFacts *, std::vector<int32_t>>
      closedBefore; ///< by segments and row, before the last step
};

/// A text to be continued.
struct Text {
  std::vector<uint8_t> bytes;                         ///< at least one
  int64_t sample = 0;                                 ///< its number among the samples of a prompt
  int64_t drawn = 0;                                  ///< tokens that were drawn for it
  GivenLines given{};                                 ///< its named inputs
  int64_t room = std::numeric_limits<int64_t>::max(); ///< tokens that may be drawn at most
};

enum class StopReason { Length, StopText, Reader };

/// What is told of texts while they are written, by their numbers.
struct TextSink {
  /// New bytes of a text; false: its reader has gone.
  std::function<bool(size_t text, std::string_view bytes)> write;
  std::function<void(size_t text, StopReason reason)> finish = {};
  /// A text's newest token has been read: its position in the text, and what it did to segments.
  std::function<void(size_t text, int64_t position, uint8_t token,
                     std::span<const Predictor::Segments> segments)>
      read = {};
};

/// Throws UserError where the model cannot continue `prompt`: an id that it has not, fewer tokens
/// than its first scored row has, or a head that predicts groups.
void checkContinues(const Executor &executor, std::string_view prompt);

/// Continues each of `texts` by `count` bytes, to one of `stops`, or while it is read. As many go
/// at once as the predictor has rows; where one ends, the next waiting text takes its row. What is
/// written of a text depends on nothing but itself, the options and the weights. A stop text counts
/// among the text's bytes and is not told. Of a larger vocabulary only ids below 256 are taken.
void writeTexts(Executor &executor, Predictor &predictor, std::span<Text> texts, int64_t count,
                const SamplingOptions &options, const std::vector<std::string> &stops,
                const TextSink &sink);

/// A continuation that is given, and what the model makes of it.
struct Scored {
  std::vector<uint8_t> bytes; ///< at least one
  size_t first = 1;           ///< the first byte that is scored; those before are the prompt
  std::vector<double> nats{}; ///< -log of its probability, by scored byte
  GivenLines given{};         ///< its named inputs
};

/// Scores texts that are given, step by step where the predictor is cached: as many at once as it
/// has rows. What a text gets depends on nothing but itself and the weights.
void scoreTexts(Executor &executor, Predictor &predictor, std::span<Scored> texts);

/// Continues `prompt` (at least one byte) by `count` bytes, giving each to `emit` until it returns
/// false.
void generate(Executor &executor, std::string_view prompt, int64_t count,
              const SamplingOptions &options, const std::function<bool(uint8_t)> &emit);

} // namespace sluice::runtime
