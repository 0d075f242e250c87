// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds blind spots as a pattern in the row. Translating all positions by one period of all scales
// preserves every relation, except near the start of the sequence. So the length exceeds every
// finite distance that a path can bridge, and two further periods must agree with the first.
#include "sluice/Explain/BlindSpots.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/FixedSegments.h"
#include "sluice/Explain/Reach.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;

int64_t sluice::computePeriod(func::FuncOp function) {
  constexpr int64_t longest = int64_t{1} << 30;
  RegularSegments segments(function);
  int64_t period = 1;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0 || !isa<SequenceType>(op.getResult(0).getType())) {
      continue;
    }
    int64_t factor = segments.countTokensInRow(op.getResult(0));
    if (factor > longest) {
      return 0;
    }
    period = factor > 0 ? std::lcm(period, factor) : period;
    if (period > longest) {
      return 0;
    }
  }
  return period;
}
using llvm::BitVector;

namespace {
/// Maximum product of rows, positions and ops: about 0.2 s. Each op has a fixed cost, and a word of
/// memory per 64 positions.
constexpr double mostBlindSpotWork = 1e8;
constexpr int64_t longest = int64_t{1} << 20;

/// Upper bounds on the finite distances, in tokens, that paths to `root` bridge.
class Distances {
public:
  Distances(func::FuncOp function, int64_t period) : period(period), scales(function) {
    for (Operation &op : function.getBody().front()) {
      if (op.getNumResults() == 0 || !isa<SequenceType>(op.getResult(0).getType())) {
        continue;
      }
      int64_t distance = 0;
      auto flow = dyn_cast<CausalFlowInterface>(op);
      for (OpOperand &operand : op.getOpOperands()) {
        if (flow && isa<SequenceType>(operand.get().getType()) && !isOfBoundaries(operand)) {
          if (auto segments = dyn_cast<SegmentsInterface>(op)) {
            int64_t back = segments.getSegmentsSpanned() * period;
            distance = std::max(distance, known.lookup(operand.get()) + back);
          } else if (auto relation = flow.getRelation(operand.getOperandNumber())) {
            distance = std::max(distance, known.lookup(operand.get()) +
                                              bridged(&op, operand.get(), *relation));
          }
        }
      }
      for (Value result : op.getResults()) {
        known[result] = distance;
      }
    }
  }
  int64_t to(Value value) const { return known.lookup(value); }

private:
  int64_t bridged(Operation *op, Value source, IntegerSet relation);

  int64_t period;
  RegularSegments scales;
  DenseMap<std::pair<Attribute, std::pair<Attribute, Attribute>>, int64_t> ofRelation;
  DenseMap<Value, int64_t> known;
};
} // namespace

/// Returns the distance that one read bridges, in tokens, far from the start. A bound that does not
/// move with the row (from the first position on) bridges everything densely and counts as zero.
int64_t Distances::bridged(Operation *op, Value source, IntegerSet relation) {
  auto findScale = [](Value value) { return cast<SequenceType>(value.getType()).getScale(); };
  auto [entry, isNew] = ofRelation.try_emplace(
      {IntegerSetAttr::get(relation), {findScale(op->getResult(0)), findScale(source)}}, 0);
  int64_t f = scales.countTokensInRow(op->getResult(0)), g = scales.countTokensInRow(source);
  if (!isNew || f == 0 || g == 0) {
    return entry->second;
  }
  constexpr int64_t far = int64_t{1} << 40;
  MaskBounds bounds = solveMask(relation);
  int64_t start = far / period * period / f, most = 0;
  for (int64_t p = start; p < start + std::max<int64_t>(1, period / f); ++p) {
    for (auto *list : {&bounds.lower, &bounds.upper}) {
      for (AffineExpr bound : *list) {
        int64_t distance = std::abs(f * p - g * reference::evaluateAffine(bound, p, 0, 2 * p)) + g;
        most = distance < far / 4 ? std::max(most, distance) : most;
      }
    }
  }
  bool isOwn = f == g && most == g; // the op reads its own position
  return entry->second = isOwn ? 0 : most;
}

//===----------------------------------------------------------------------===//
// Pattern
//===----------------------------------------------------------------------===//

namespace {
/// Token sets of three periods of rows.
struct Enumeration {
  int64_t period, firstRow, nearby; ///< tokens up to `nearby` back are recorded one by one
  std::vector<BitVector> tokens;    ///< tokens of row firstRow + i

  bool sees(int64_t row, int64_t token) const {
    return tokens[static_cast<size_t>(row - firstRow)].test(static_cast<unsigned>(token));
  }
  BlindPattern::BlindRow getPattern(int64_t row, int64_t latest) const;
};
} // namespace

static bool operator==(const BlindPattern::BlindRow &x, const BlindPattern::BlindRow &y) {
  return std::tie(x.holes, x.oldest, x.farHoles) == std::tie(y.holes, y.oldest, y.farHoles);
}

/// Returns the holes of one row; `latest` is the last token that the row may see. A far residue is
/// a hole if none of its tokens is seen. A residue that is seen at some distances only has no
/// pattern, which the comparison of periods then detects.
BlindPattern::BlindRow Enumeration::getPattern(int64_t row, int64_t latest) const {
  BlindPattern::BlindRow pattern;
  int64_t base = row / period * period, far = std::max<int64_t>(0, base - nearby);
  std::vector<int64_t> seen(static_cast<size_t>(std::min(period, far)), 0);
  for (int64_t token = 0; token < far; ++token) {
    seen[static_cast<size_t>(token % period)] += sees(row, token);
  }
  int64_t first = 0;
  if (llvm::all_of(seen, [](int64_t count) { return count == 0; })) {
    int found = tokens[static_cast<size_t>(row - firstRow)].find_first();
    first = found < 0 ? latest + 1 : found;
    pattern.oldest = row - first;
  } else {
    first = far;
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] == 0) {
        pattern.farHoles.push_back(static_cast<int64_t>(i));
      }
    }
  }
  for (int64_t token = first; token <= latest; ++token) {
    if (sees(row, token)) {
      continue;
    }
    int64_t offset = token - base;
    if (!pattern.holes.empty() && pattern.holes.back().second == offset - 1) {
      pattern.holes.back().second = offset;
    } else {
      pattern.holes.emplace_back(offset, offset);
    }
  }
  return pattern;
}

/// Returns true if rows at a distance of `shorter` see the same tokens, translated.
static bool repeatsAfter(const BlindPattern &pattern, int64_t shorter) {
  for (int64_t row = shorter; row < pattern.period; ++row) {
    const BlindPattern::BlindRow &of = pattern.rows[static_cast<size_t>(row)];
    BlindPattern::BlindRow moved = pattern.rows[static_cast<size_t>(row - shorter)];
    for (auto &[first, last] : moved.holes) {
      first += shorter;
      last += shorter;
    }
    if (!(of == moved) || !of.farHoles.empty()) {
      return false;
    }
  }
  return true;
}

/// Shortens the period: with fine layers on a middle scale the pattern has the period of that
/// scale, and without layers no scale. The shortest period is the most informative.
static void shortenPeriod(BlindPattern &pattern) {
  for (int64_t shorter = 1; shorter < pattern.period; ++shorter) {
    if (pattern.period % shorter == 0 && repeatsAfter(pattern, shorter)) {
      pattern.period = shorter;
      pattern.rows.resize(static_cast<size_t>(shorter));
      return;
    }
  }
}

/// Removes tokens beyond the context. Row t predicts token t + offset and may see tokens up to t.
static void forgetBeyond(BlindPattern &pattern, int64_t context, int64_t nearby) {
  for (auto [row, found] : llvm::enumerate(pattern.rows)) {
    llvm::erase_if(found.holes, [&](const auto &hole) {
      return static_cast<int64_t>(row) - hole.second >= context;
    });
    if (nearby >= context) {
      found.farHoles.clear();
    }
  }
}

BlindPattern sluice::findBlindSpots(CrossEntropyOp loss) {
  auto function = loss->getParentOfType<func::FuncOp>();
  BlindPattern pattern;
  pattern.loss = loss;
  pattern.segments = RegularSegments(function).describe();
  pattern.period = computePeriod(function);
  if (pattern.period == 0 || pattern.period > longest) {
    return pattern;
  }
  int64_t period = pattern.period;
  int64_t distance = Distances(function, period).to(loss.getInput());
  auto roundUp = [&](int64_t x) { return (x + period - 1) / period * period; };
  int64_t nearby = roundUp(distance) + period;
  pattern.firstRow = nearby + 3 * period;
  pattern.length = pattern.firstRow + 3 * period;
  auto attentions = static_cast<double>(llvm::range_size(function.getOps<AttentionOp>())) + 4;
  if (distance > longest) {
    return {pattern.loss, pattern.period, 0, 0, false, pattern.segments, {}};
  }
  auto length = static_cast<double>(pattern.length);
  double ofRow = length * attentions +
                 static_cast<double>(llvm::range_size(function.getOps())) * (50 + length / 64);
  if (3.0 * static_cast<double>(period) * ofRow > mostBlindSpotWork) {
    return {pattern.loss, pattern.period, 0, pattern.firstRow, false, pattern.segments, {}};
  }
  constexpr double words = 16; // number of words of a position set that one operation processes
  spendWork(static_cast<int64_t>(3 * static_cast<double>(period) * ofRow / words));
  ReachGraph graph(function, pattern.length);
  Enumeration all{period, pattern.firstRow, nearby, {}};
  for (int64_t row = pattern.firstRow; row < pattern.length; ++row) {
    ReachSets sets = graph.sees(loss.getInput(), row);
    BitVector tokens = sets.lookup(loss.getTokens());
    tokens.resize(static_cast<unsigned>(pattern.length));
    all.tokens.push_back(std::move(tokens));
  }
  pattern.repeats = true;
  for (int64_t i = 0; i < 3 * period; ++i) {
    int64_t row = pattern.firstRow + i;
    BlindPattern::BlindRow found = all.getPattern(row, row + latestAllowed(loss));
    if (i < period) {
      pattern.rows.push_back(std::move(found));
    } else {
      pattern.repeats &= found == pattern.rows[static_cast<size_t>(i % period)];
    }
  }
  forgetBeyond(pattern, getContext(function), nearby);
  shortenPeriod(pattern);
  return pattern;
}

bool BlindPattern::hasHoles() const {
  return llvm::any_of(
      rows, [](const BlindRow &row) { return !row.holes.empty() || !row.farHoles.empty(); });
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

namespace {
/// One run of unseen tokens: from `first` (relative to the period's start) to `back` tokens before
/// the row, or to `last` if it ends at a fixed place.
struct Hole {
  int64_t row, first, last;
};
} // namespace

/// Formats a row: "4m+2"; with one scale only, "t-3".
static std::string formatRows(int64_t offset, int64_t period) {
  std::string name = period == 1 ? "t" : std::to_string(period) + "m";
  return offset == 0 ? name : name + (offset > 0 ? "+" : "") + std::to_string(offset);
}

static std::string describeTokens(int64_t first, int64_t last, int64_t period) {
  return first == last ? "token " + formatRows(first, period)
                       : "tokens " + formatRows(first, period) + " to " + formatRows(last, period);
}

static std::string describeRowRange(int64_t first, int64_t last, int64_t period) {
  return first == last ? "row " + formatRows(first, period)
                       : "rows " + formatRows(first, period) + " to " + formatRows(last, period);
}

/// Returns one clause for adjacent rows that miss the same tokens, or the same tokens up to a
/// distance before the row, and removes them from `holes`.
static std::string nextClause(std::vector<Hole> &holes, int64_t period) {
  Hole head = holes.front();
  auto take = [&](auto isLike) {
    int64_t last = head.row;
    while (last + 1 < period && llvm::any_of(holes, [&](const Hole &hole) {
             return hole.row == last + 1 && isLike(hole);
           })) {
      ++last;
    }
    return last;
  };
  auto same = [&](const Hole &h) { return h.first == head.first && h.last == head.last; };
  auto following = [&](const Hole &h) {
    return h.first == head.first && h.row - h.last == head.row - head.last;
  };
  int64_t lastSame = take(same), lastFollowing = take(following),
          last = std::max(lastSame, lastFollowing);
  bool follows = lastFollowing > lastSame;
  llvm::erase_if(holes, [&](const Hole &hole) {
    return hole.row <= last && (follows ? following(hole) : same(hole));
  });
  std::string text = describeRowRange(head.row, last, period) +
                     (head.row == last ? " never sees " : " never see ");
  if (!follows) {
    return text + describeTokens(head.first, head.last, period);
  }
  int64_t before = head.row - head.last;
  std::string end = before == 0   ? "their own"
                    : before == 1 ? "the one before their own"
                                  : "the one " + std::to_string(before) + " before their own";
  return text + "tokens " + formatRows(head.first, period) + " to " + end;
}

std::string BlindPattern::describe() const {
  constexpr int mostClauses = 3;
  std::vector<Hole> holes;
  std::string text;
  auto add = [&](const std::string &clause) { text += (text.empty() ? "" : "; ") + clause; };
  for (size_t row = 0; row < rows.size(); ++row) {
    for (auto [first, last] : rows[row].holes) {
      holes.push_back({static_cast<int64_t>(row), first, last});
    }
  }
  for (int clauses = 0; !holes.empty() && clauses < mostClauses; ++clauses) {
    add(nextClause(holes, period));
  }
  if (!holes.empty()) {
    add("and " + std::to_string(holes.size()) + " more such runs");
  }
  auto far = llvm::find_if(rows, [](const BlindRow &row) { return !row.farHoles.empty(); });
  if (far != rows.end()) {
    add("of older tokens, " + describeRowRange(far - rows.begin(), far - rows.begin(), period) +
        " never sees " + std::to_string(far->farHoles.size()) + " of every " +
        std::to_string(period));
  }
  return text;
}
