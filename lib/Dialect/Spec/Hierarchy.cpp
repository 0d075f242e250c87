// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Dialect/Spec/Hierarchy.h"

#include "StageChecks.h"

#include <charconv>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

// Limits on levels and layers: larger numbers are typing errors, and nesting is recursive.
static constexpr size_t mostLevels = 63;
static constexpr int64_t mostLayers = 10000;
// Maximum number of factors, each of which is compiled.
static constexpr size_t mostFactors = 16;

/// Returns true if factors form a palindrome around one level in the middle.
static bool isMirrored(const std::vector<HierarchyLevel> &levels) {
  return levels.size() % 2 == 1 && std::equal(levels.begin(), levels.end(), levels.rbegin(),
                                              [](const HierarchyLevel &a, const HierarchyLevel &b) {
                                                return a.factor == b.factor;
                                              });
}

void Hierarchy::setDrawn(int64_t factor) {
  for (HierarchyLevel &level : levels) {
    level.factor = level.isDrawn ? factor : level.factor;
  }
}

size_t Hierarchy::getCoarsest() const {
  auto greatest = std::ranges::max_element(levels, {}, &HierarchyLevel::factor);
  return isMirrored(levels) ? levels.size() / 2 : static_cast<size_t>(greatest - levels.begin());
}

std::string Hierarchy::toString() const {
  std::string text;
  for (const HierarchyLevel &level : levels) {
    text += (text.empty() ? "" : " ") + std::to_string(level.layers) + "@" +
            std::to_string(level.factor);
  }
  return text;
}

static bool parseNumber(StringRef text, int64_t &result, int64_t least, int64_t largest) {
  auto [stop, error] = std::from_chars(text.begin(), text.end(), result);
  return error == std::errc() && stop == text.end() && !text.starts_with("-") && result >= least &&
         result <= largest;
}

namespace {

class HierarchyParser {
public:
  HierarchyParser(Operation *stage, StringRef text, HierarchyOrder order)
      : stage(stage), text(text), order(order) {}

  FailureOr<Hierarchy> run() {
    for (size_t at = 0; (at = text.find_first_not_of(' ', at)) != StringRef::npos;) {
      size_t end = std::min(text.find(' ', at), text.size());
      if (failed(parseLevel(at, text.slice(at, end)))) {
        return failure();
      }
      at = end;
    }
    LogicalResult result = order == HierarchyOrder::DownAndUp ? checkDownAndUp()
                           : order == HierarchyOrder::Falling ? checkFalling()
                                                              : checkRising();
    return failed(result) ? FailureOr<Hierarchy>() : FailureOr<Hierarchy>(std::move(hierarchy));
  }

private:
  InFlightDiagnostic fail(size_t offset) const {
    auto place = dyn_cast<FileLineColLoc>(getKeyLoc(stage, "hierarchy"));
    if (!place || !isWritten(stage, "hierarchy.text")) {
      return emitKeyError(stage, "hierarchy");
    }
    return emitError(FileLineColLoc::get(place.getFilename(), place.getLine(),
                                         place.getColumn() + 1 + static_cast<unsigned>(offset)));
  }
  const std::vector<HierarchyLevel> &levels() const { return hierarchy.levels; }
  std::string describeLevel(size_t i) const {
    return std::to_string(levels()[i].layers) + "@" + std::to_string(levels()[i].factor);
  }

  LogicalResult parseLevel(size_t offset, StringRef level) {
    HierarchyLevel result;
    auto [layers, factor] = level.split('@');
    bool hasSign = level.contains('@');
    result.isDrawn = hasSign && factor.starts_with("{");
    if (result.isDrawn && failed(parseDrawn(offset, level, factor))) {
      return failure();
    }
    if (!hasSign || !parseNumber(layers, result.layers, 0, mostLayers) ||
        (!result.isDrawn && !parseNumber(factor, result.factor, 1, mostSize))) {
      return fail(offset) << "expected levels LAYERS@FACTOR with 0 to " << mostLayers
                          << " layers and a factor of at least 1, found " << quote(level)
                          << "; write them as \"2@1 8@4 2@1\"";
    }
    hierarchy.levels.push_back(result);
    offsets.push_back(offset);
    return success();
  }

  /// Parses "{2,3,4}", factors from which each training step draws one.
  LogicalResult parseDrawn(size_t offset, StringRef level, StringRef set) {
    if (order != HierarchyOrder::DownAndUp) {
      return fail(offset)
             << "expected one factor per level, found " << quote(level)
             << ", of which each step would draw one; only an hourglass has such levels";
    }
    std::vector<int64_t> found;
    bool isGood = set.ends_with("}");
    for (StringRef rest = set.drop_front(); isGood && !rest.empty();) {
      size_t end = std::min(rest.find_first_of(",}"), rest.size());
      isGood = parseNumber(rest.take_front(end), found.emplace_back(), 1, mostSize) &&
               (found.size() == 1 || found[found.size() - 2] < found.back());
      rest = rest.drop_front(std::min(end + 1, rest.size()));
    }
    if (!isGood || found.size() < 2 || found.size() > mostFactors) {
      return fail(offset) << "expected 2 to " << mostFactors
                          << " factors that rise, without spaces, found " << quote(level)
                          << "; write them as \"2@1 8@{2,3} 2@1\"";
    }
    if (!hierarchy.drawn.empty() && hierarchy.drawn != found) {
      return fail(offset) << "expected one set of factors in all levels that draw, as they draw "
                             "together, found another one, "
                          << quote(level) << "; write the same set";
    }
    hierarchy.drawn = std::move(found);
    return success();
  }

  LogicalResult checkCount() const {
    if (levels().size() > mostLevels) {
      return fail(offsets[mostLevels])
             << "expected at most " << mostLevels << " levels, found " << levels().size();
    }
    if (levels().size() == 1 && levels()[0].layers == 0) {
      return fail(0) << "expected at least one layer, found " << describeLevel(0);
    }
    return success();
  }

  LogicalResult checkFirst(StringRef remedy) const {
    if (levels()[0].factor != 1) {
      return fail(offsets[0])
             << "expected the first level to have factor 1, the scale of the stage's input, found "
             << describeLevel(0) << "; " << remedy;
    }
    return success();
  }

  LogicalResult checkFalling() const {
    if (failed(checkCount())) {
      return failure();
    }
    for (size_t i = 0; i + 1 < levels().size(); ++i) {
      if (levels()[i].factor % levels()[i + 1].factor != 0) {
        return fail(offsets[i + 1]) << "expected each factor to divide the one before it, found "
                                    << describeLevel(i + 1) << " behind " << describeLevel(i)
                                    << "; begin with the coarsest scale, as in \"2@16 4@4 8@1\"";
      }
    }
    if (levels().empty() || levels().back().factor != 1) {
      return fail(levels().empty() ? 0 : offsets.back())
             << "expected the last level to have factor 1, the scale of the stage's input, found "
             << (levels().empty() ? "none" : describeLevel(levels().size() - 1))
             << "; write the hierarchy as \"2@16 4@4 8@1\"";
    }
    return success();
  }

  LogicalResult checkRising() const {
    if (levels().size() < 2) {
      return fail(0) << "expected at least two levels, from the finest to the coarsest, found "
                     << levels().size() << "; write them as \"9@1 9@4 8@16\"";
    }
    if (failed(checkCount()) || failed(checkFirst("a scale of 0 layers is 0@1"))) {
      return failure();
    }
    for (size_t i = 1; i < levels().size(); ++i) {
      if (levels()[i].factor <= levels()[i - 1].factor ||
          levels()[i].factor % levels()[i - 1].factor != 0) {
        return fail(offsets[i])
               << "expected each factor to be a multiple of the finer one before it, found "
               << describeLevel(i) << " behind " << describeLevel(i - 1);
      }
    }
    return success();
  }

  LogicalResult checkDownAndUp() {
    if (levels().empty()) {
      return fail(0) << "expected levels from the finest to the coarsest and back, found none; "
                        "write them as \"2@1 8@4 2@1\"";
    }
    if (failed(checkCount())) {
      return failure();
    }
    for (int64_t factor : hierarchy.drawn) {
      hierarchy.setDrawn(factor);
      if (failed(checkFactors())) {
        return failure();
      }
    }
    if (hierarchy.drawn.empty()) {
      return checkFactors();
    }
    hierarchy.setDrawn(hierarchy.drawn.front());
    return success();
  }

  LogicalResult checkFactors() const {
    if (failed(checkFirst("begin and end with 0@1 to shorten at once"))) {
      return failure();
    }
    if (levels().back().factor != 1) {
      return fail(offsets.back())
             << "expected the last level to have factor 1, the scale of the stage's input, found "
             << describeLevel(levels().size() - 1) << "; end with 0@1 to upsample at once";
    }
    size_t peak = hierarchy.getCoarsest();
    for (size_t i = 1; i < levels().size(); ++i) {
      size_t inner = i <= peak ? i : i - 1, outer = i <= peak ? i - 1 : i;
      if (!isMirrored(levels()) && levels()[inner].factor <= levels()[outer].factor) {
        return fail(offsets[i]) << "expected factors that rise to one coarsest level and fall "
                                   "again, as they do not read the same "
                                   "from both ends, found "
                                << describeLevel(i - 1) << " before " << describeLevel(i);
      }
      if (levels()[inner].factor % levels()[outer].factor != 0) {
        return fail(offsets[i])
               << "expected each factor to be a multiple of the one outside it, found "
               << describeLevel(inner) << " inside " << describeLevel(outer);
      }
    }
    return success();
  }

  Operation *stage;
  StringRef text;
  HierarchyOrder order;
  Hierarchy hierarchy;
  std::vector<size_t> offsets;
};

} // namespace

FailureOr<Hierarchy> spec::parseHierarchy(Operation *stage, StringRef text, HierarchyOrder order) {
  return HierarchyParser(stage, text, order).run();
}

std::pair<HourglassOp, std::vector<int64_t>> spec::findDrawing(ModelOp model) {
  for (auto stage : model.getBody().getOps<HourglassOp>()) {
    FailureOr<Hierarchy> hierarchy =
        parseHierarchy(stage, stage.getHierarchy(), HierarchyOrder::DownAndUp);
    if (succeeded(hierarchy) && !hierarchy->drawn.empty()) {
      return {stage, hierarchy->drawn};
    }
  }
  return {};
}

SmallVector<int64_t> spec::getDrawnFactors(ModelOp model) {
  auto [stage, factors] = findDrawing(model);
  return SmallVector<int64_t>(factors.begin(), factors.end());
}
