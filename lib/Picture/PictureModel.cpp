// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Selects the row and the number of tokens of a picture.
#include "sluice/Picture/PictureModel.h"
#include "PictureBands.h"
#include "sluice/Explain/BlindSpots.h"
#include "sluice/Explain/FixedSegments.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Reach.h"
#include "sluice/Explain/ReadWalk.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Explain/SegmentWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Picture/Picture.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/SegmentBounds.h"

using namespace mlir;
using namespace sluice;

/// Maximum number of tokens; more tokens would be too narrow to see.
constexpr int64_t widest = 256;

/// Returns the size of the largest shift in tokens.
static int64_t largestShift(func::FuncOp function) {
  int64_t most = 0;
  for (auto shift : function.getOps<ShiftOp>()) {
    int64_t factor = getFactor(shift, cast<SequenceType>(shift.getResult().getType()));
    most = std::max(most, factor * std::abs(static_cast<int64_t>(shift.getBy())));
  }
  return most;
}

/// Returns the row of a period with the most holes, else the middle one.
static int64_t informativeRow(CrossEntropyOp loss, int64_t period) {
  BlindPattern pattern = findBlindSpots(loss);
  int64_t best = period / 2, most = 0;
  for (size_t row = 0; row < pattern.rows.size(); ++row) {
    int64_t holes = 0;
    for (auto [first, last] : pattern.rows[row].holes) {
      holes += last - first + 1;
    }
    if (holes > most) {
      best = static_cast<int64_t>(row);
      most = holes;
    }
  }
  return best;
}

/// Returns a length that is short enough to read and has two periods after the longest shift and,
/// if that is short, everything that a row sees.
static int64_t lengthFor(CrossEntropyOp loss, int64_t period) {
  constexpr int64_t usual = 20, longContext = 64;
  auto function = loss->getParentOfType<func::FuncOp>();
  int64_t context = 0;
  for (const BlindPattern::BlindRow &row : findBlindSpots(loss).rows) {
    context = std::max(context, row.oldest);
  }
  int64_t tokens = std::max(usual, largestShift(function) + 2 * period);
  tokens = context < longContext ? std::max(tokens, context + 3 * period) : tokens;
  return (tokens + period - 1) / period * period;
}

static std::optional<Picture> pictureOfRow(CrossEntropyOp loss, std::optional<int64_t> row,
                                           std::string &error) {
  auto function = loss->getParentOfType<func::FuncOp>();
  int64_t period = computePeriod(function);
  int64_t length = period == 0 || period > widest ? widest + 1 : lengthFor(loss, period);
  if (row && *row >= widest) {
    error = "expected a row below " + std::to_string(widest) + ", found " + std::to_string(*row);
    return std::nullopt;
  }
  if (length > widest) {
    error = "its scales and shifts span more than the " + std::to_string(widest) +
            " tokens that a picture holds";
    return std::nullopt;
  }
  length = std::max(length, row ? *row + 1 : 0);
  int64_t base = std::max<int64_t>(0, length / period - 2) * period;
  int64_t shown = row ? *row : std::min(base + informativeRow(loss, period), length - 1);
  Picture picture = Bands(loss).finish(ReachGraph(function, length), shown);
  picture.length = length;
  return picture;
}

namespace {
/// A text with its marks.
struct MarkedText {
  explicit MarkedText(const std::string &given) {
    for (char c : given) {
      if (c == '|' && !tokens.empty()) {
        ++marks.back();
        continue;
      }
      auto byte = static_cast<unsigned char>(c);
      tokens.push_back(byte);
      marks.push_back(0);
      bool isShown = byte > 32 && byte < 127;
      shown.push_back(byte == ' ' ? "\u2423" : isShown ? std::string(1, c) : "\u00b7");
    }
  }
  std::vector<int32_t> tokens;
  std::vector<int64_t> marks;
  std::vector<std::string> shown;
};
} // namespace

static std::optional<Picture> pictureOfText(CrossEntropyOp loss, std::optional<int64_t> row,
                                            const std::string &given, std::string &error) {
  auto function = loss->getParentOfType<func::FuncOp>();
  MarkedText text(given);
  auto length = static_cast<int64_t>(text.tokens.size());
  auto vocabulary =
      getFact<SluiceDialect::VocabularyAttrHelper>(function->getParentOfType<ModuleOp>());
  if (length == 0 || length > widest) {
    error = "expected a text of 1 to " + std::to_string(widest) + " bytes, found " +
            std::to_string(length);
    return std::nullopt;
  }
  int64_t greatest = *llvm::max_element(text.tokens);
  if (vocabulary && greatest >= vocabulary.getInt()) {
    error = "expected bytes below the vocabulary of " + std::to_string(vocabulary.getInt()) +
            ", found " + std::to_string(greatest);
    return std::nullopt;
  }
  std::optional<Boundaries> boundaries =
      BoundaryRules(function).replayBoundaries(text.tokens, text.marks);
  if (!boundaries) {
    error = "expected | after each byte that ends a segment, as a predictor's depend on weights, "
            "found none";
    return std::nullopt;
  }
  if (row && *row >= length) {
    error = "expected a row below the text's " + std::to_string(length) + " bytes, found " +
            std::to_string(*row);
    return std::nullopt;
  }
  int64_t shown = row.value_or(length * 2 / 3);
  Picture picture = Bands(loss).finish(ReachGraph(function, length, std::move(boundaries)), shown);
  picture.length = length;
  picture.text = std::move(text.shown);
  return picture;
}

/// Adds the tokens that a row of a leak must not read and does, and the path from the witness's
/// token to the row.
static void addLeak(Picture &picture, const Bands &bands, FoundLeak &leak, int64_t token) {
  picture.leak = token;
  const std::vector<bool> &tokens = picture.bands.front().seen;
  int64_t allowed = picture.row + latestAllowed(leak.loss);
  for (int64_t later = std::max<int64_t>(0, allowed + 1); later < picture.length; ++later) {
    if (tokens[static_cast<size_t>(later)]) {
      picture.leaks.push_back(later);
    }
  }
  picture.leakPath.emplace_back(0, token);
  for (auto &[value, position] : llvm::reverse(leak.path)) {
    std::optional<size_t> band = bands.findBand(value);
    if (band && picture.leakPath.back() != std::pair(*band, position)) {
      picture.leakPath.emplace_back(*band, position);
    }
  }
}

/// Draws a leak under the boundaries that demonstrate it: its reads, and along the path the tokens
/// on which a boundary depends.
static std::optional<Picture>
pictureOfSegmentLeak(func::FuncOp function, const CausalWitness &witness, std::string &error) {
  Boundaries boundaries;
  int64_t longest = 0;
  std::optional<FoundLeak> leak =
      findSegmentLeak(function, boundaries, longest, [&](FoundLeak &other) {
        return other.witness.length == witness.length && other.witness.row == witness.row &&
               other.witness.token == witness.token;
      });
  if (!leak) {
    error = "the leak was not found again under boundaries of up to " + std::to_string(longest) +
            " tokens";
    return std::nullopt;
  }
  int64_t length = std::max(witness.length, witness.token + 1);
  Bands bands(leak->loss);
  Picture picture = bands.finish(ReachGraph(function, length, boundaries), witness.row);
  picture.length = length;
  addLeak(picture, bands, *leak, witness.token);
  return picture;
}

static std::optional<Picture> pictureOfLeak(func::FuncOp function, const CausalWitness &witness,
                                            std::string &error) {
  int64_t length = std::max(witness.length, witness.token + 1);
  ReadPlan plan(function);
  bool grows = witness.token >= witness.length;
  std::optional<FoundLeak> leak =
      length > widest ? std::nullopt : findLeakAt(plan, witness.length, grows, witness.row);
  if (leak && leak->witness.token != witness.token) {
    preferTarget(plan, *leak);
  }
  if (length > widest || !leak) {
    error = "the leak shows from " + std::to_string(length) + " tokens on, and a picture holds " +
            std::to_string(widest);
    return std::nullopt;
  }
  int64_t period = computePeriod(function); // a period of whole groups, if they fit
  int64_t usual = period == 0 || period > widest ? 0 : lengthFor(leak->loss, period);
  length = usual <= widest ? std::max(length, usual) : length;
  Bands bands(leak->loss);
  ReachGraph graph(function, length);
  Picture picture = bands.finish(graph, witness.row);
  picture.length = length;
  picture.leakByGrowing = grows;
  addLeak(picture, bands, *leak, witness.token);
  return picture;
}

std::optional<Picture> sluice::makePicture(ModuleOp module, const CausalVerdict &verdict,
                                           std::optional<int64_t> row, std::string &error,
                                           const std::string &text) {
  auto function =
      module.lookupSymbol<func::FuncOp>(verdict.refusedMode == "train" ? "train" : "evaluate");
  if (!function || getLossOps(function).empty()) {
    error = "expected a model with a loss, found none";
    return std::nullopt;
  }
  bool isOfSegments = hasSegments(module);
  if (!text.empty() && (verdict.witness || !isOfSegments)) {
    error = std::string("expected a causal model with segments for a text, found ") +
            (isOfSegments ? "a leak, which is drawn under its own boundaries" : "no segments");
    return std::nullopt;
  }
  std::optional<Picture> picture =
      !text.empty()      ? pictureOfText(getMainLoss(function), row, text, error)
      : !verdict.witness ? pictureOfRow(getMainLoss(function), row, error)
      : isOfSegments     ? pictureOfSegmentLeak(function, *verdict.witness, error)
                         : pictureOfLeak(function, *verdict.witness, error);
  auto name = getFact<SluiceDialect::NameAttrHelper>(module);
  if (picture && name) {
    picture->name = name.str();
  }
  return picture;
}
