// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which row and how many tokens a picture shows.
#include "PictureBands.h"

using namespace mlir;
using namespace sluice;

/// Tokens beyond this would be too narrow to see.
constexpr int64_t widest = 256;

/// Tokens that the largest shift moves by.
static int64_t largestShift(func::FuncOp function) {
  int64_t most = 0;
  for (auto shift : function.getOps<ShiftOp>()) {
    int64_t factor = getFactor(shift, cast<SequenceType>(shift.getResult().getType()));
    most = std::max(most, factor * std::abs(static_cast<int64_t>(shift.getBy())));
  }
  return most;
}

/// The row of a period with most holes, else the middle one.
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

/// Short enough to read, long enough for two periods after the longest shift and, where that is
/// short, for all that a row sees.
static int64_t lengthFor(CrossEntropyOp loss, int64_t period) {
  constexpr int64_t usual = 20, longContext = 64;
  auto function = loss->getParentOfType<func::FuncOp>();
  int64_t context = 0;
  for (const BlindPattern::Row &row : findBlindSpots(loss).rows) {
    context = std::max(context, row.oldest);
  }
  int64_t tokens = std::max(usual, largestShift(function) + 2 * period);
  tokens = context < longContext ? std::max(tokens, context + 3 * period) : tokens;
  return (tokens + period - 1) / period * period;
}

static std::optional<Picture> pictureOfRow(CrossEntropyOp loss, std::optional<int64_t> row,
                                           std::string &error) {
  auto function = loss->getParentOfType<func::FuncOp>();
  int64_t period = periodOf(function);
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
  int64_t period = periodOf(function); // of whole groups, if they fit
  int64_t usual = period == 0 || period > widest ? 0 : lengthFor(leak->loss, period);
  length = usual <= widest ? std::max(length, usual) : length;
  Bands bands(leak->loss);
  ReachGraph graph(function, length);
  Picture picture = bands.finish(graph, witness.row);
  picture.length = length;
  picture.leak = witness.token;
  picture.leakByGrowing = grows;
  const std::vector<bool> &tokens = picture.bands.front().seen;
  int64_t allowed = witness.row + latestAllowed(leak->loss);
  for (int64_t token = std::max<int64_t>(0, allowed + 1); token < length; ++token) {
    if (tokens[static_cast<size_t>(token)]) {
      picture.leaks.push_back(token);
    }
  }
  picture.leakPath.emplace_back(0, witness.token);
  for (auto &[value, position] : llvm::reverse(leak->path)) {
    std::optional<size_t> band = bands.bandOf(value);
    if (band && picture.leakPath.back() != std::pair(*band, position)) {
      picture.leakPath.emplace_back(*band, position);
    }
  }
  return picture;
}

std::optional<Picture> sluice::makePicture(ModuleOp module, const CausalVerdict &verdict,
                                           std::optional<int64_t> row, std::string &error) {
  auto function =
      module.lookupSymbol<func::FuncOp>(verdict.refusedMode == "train" ? "train" : "evaluate");
  if (!function || lossesOf(function).empty()) {
    error = "expected a model with a loss, found none";
    return std::nullopt;
  }
  if (hasSegments(module)) {
    error = "what rows read of segments depends on data, and cannot be drawn yet";
    return std::nullopt;
  }
  std::optional<Picture> picture = verdict.witness
                                       ? pictureOfLeak(function, *verdict.witness, error)
                                       : pictureOfRow(mainLossOf(function), row, error);
  auto name = module->getAttrOfType<StringAttr>("sluice.name");
  if (picture && name) {
    picture->name = name.str();
  }
  return picture;
}
