// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Solves a relation for q. Each step is an equivalence over the integers, so solved constraints
// lose nothing.
#include "sluice/Dialect/Sluice/MaskBounds.h"

#include "sluice/Dialect/Sluice/Reference.h"

#include <numeric>

using namespace mlir;
using namespace sluice;

namespace {
/// Product coefficient * atom, where atom is a dim, symbol, floordiv, ceildiv or mod.
struct MaskTerm {
  int64_t coefficient;
  AffineExpr atom;
};
/// A sum of terms and a constant.
struct MaskSum {
  SmallVector<MaskTerm> terms;
  int64_t constant = 0;
};
} // namespace

static void addTerms(AffineExpr expression, int64_t coefficient, MaskSum &sum) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    sum.constant += coefficient * constant.getValue();
    return;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (binary && binary.getKind() == AffineExprKind::Add) {
    addTerms(binary.getLHS(), coefficient, sum);
    addTerms(binary.getRHS(), coefficient, sum);
    return;
  }
  if (binary && binary.getKind() == AffineExprKind::Mul) {
    if (auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS())) {
      addTerms(binary.getLHS(), coefficient * factor.getValue(), sum);
      return;
    }
  }
  auto same = llvm::find_if(sum.terms, [&](MaskTerm &term) { return term.atom == expression; });
  if (same == sum.terms.end()) {
    sum.terms.push_back({coefficient, expression});
  } else {
    same->coefficient += coefficient;
  }
}

/// Converts an expression to a sum, without terms that cancel.
static MaskSum toSum(AffineExpr expression) {
  MaskSum sum;
  addTerms(expression, 1, sum);
  llvm::erase_if(sum.terms, [](MaskTerm &term) { return term.coefficient == 0; });
  return sum;
}

/// Solves `expression` <= `bound` for q, `bound` free of q. Returns false if it cannot.
static bool solve(AffineExpr expression, AffineExpr bound, MaskBounds &bounds) {
  MaskSum sum = toSum(expression);
  AffineExpr rest = getAffineConstantExpr(sum.constant, expression.getContext());
  const MaskTerm *unknown = nullptr;
  for (const MaskTerm &term : sum.terms) {
    if (!term.atom.isFunctionOfDim(1)) {
      rest = rest + term.atom * term.coefficient;
    } else if (unknown) {
      return false;
    } else {
      unknown = &term;
    }
  }
  AffineExpr room = bound - rest;
  if (!unknown) {
    bounds.conditions.push_back(room);
    return true;
  }
  // Solves c atom <= room: atom <= floor(room / c), or atom >= ceil(-room / -c) for c < 0.
  int64_t c = unknown->coefficient;
  bool above = c > 0;
  AffineExpr limit = above ? room.floorDiv(c) : (-room).ceilDiv(-c);
  if (isa<AffineDimExpr>(unknown->atom)) {
    (above ? bounds.upper : bounds.lower).push_back(limit);
    return true;
  }
  auto division = cast<AffineBinaryOpExpr>(unknown->atom);
  auto divisor = dyn_cast<AffineConstantExpr>(division.getRHS());
  if (!divisor || divisor.getValue() <= 0) {
    return false;
  }
  int64_t m = divisor.getValue();
  AffineExpr inner = division.getLHS();
  switch (division.getKind()) {
  case AffineExprKind::FloorDiv: // x div m <= t: x <= m t + m - 1.  x div m >= t: x >= m t
    return above ? solve(inner, limit * m + (m - 1), bounds) : solve(-inner, -(limit * m), bounds);
  case AffineExprKind::CeilDiv: // ceil(x / m) <= t: x <= m t.  ceil(x / m) >= t: x >= m t - m + 1
    return above ? solve(inner, limit * m, bounds) : solve(-inner, -(limit * m - (m - 1)), bounds);
  default:
    return false;
  }
}

MaskBounds sluice::solveMask(IntegerSet mask) {
  MaskBounds bounds;
  AffineExpr zero = getAffineConstantExpr(0, mask.getContext());
  for (unsigned i = 0; i < mask.getNumConstraints(); ++i) {
    AffineExpr expression = mask.getConstraint(i);
    bounds.exact &= solve(-expression, zero, bounds);
    if (mask.isEq(i)) {
      bounds.exact &= solve(expression, zero, bounds);
    }
  }
  return bounds;
}

std::pair<int64_t, int64_t> MaskBounds::getRange(int64_t p, int64_t n) const {
  auto value = [&](AffineExpr expression) {
    return reference::evaluateAffine(expression, p, 0, n);
  };
  if (!llvm::all_of(conditions, [&](AffineExpr expression) { return value(expression) >= 0; })) {
    return {0, -1};
  }
  int64_t first = 0, last = n - 1;
  for (AffineExpr expression : lower) {
    first = std::max(first, value(expression));
  }
  for (AffineExpr expression : upper) {
    last = std::min(last, value(expression));
  }
  return {first, last};
}

bool sluice::mentionsLength(IntegerSet relation) {
  AffineExpr q = getAffineDimExpr(1, relation.getContext());
  AffineExpr n = getAffineSymbolExpr(0, relation.getContext());
  for (auto [constraint, equality] :
       llvm::zip_equal(relation.getConstraints(), relation.getEqFlags())) {
    bool isEnd = !equality && simplifyAffineExpr(constraint - (n - 1 - q), 2, 1) ==
                                  getAffineConstantExpr(0, relation.getContext());
    if (constraint.isFunctionOfSymbol(0) && !isEnd) {
      return true;
    }
  }
  return false;
}

int64_t sluice::countMask(IntegerSet mask, int64_t rows, int64_t n) {
  MaskBounds bounds = solveMask(mask);
  int64_t count = 0;
  for (int64_t p = 0; p < rows; ++p) {
    auto [first, last] = bounds.getRange(p, n);
    if (bounds.exact) {
      count += std::max<int64_t>(0, last - first + 1);
      continue;
    }
    for (int64_t q = first; q <= last; ++q) {
      count += reference::contains(mask, p, q, n);
    }
  }
  return count;
}

bool sluice::isNonDecreasing(AffineExpr expression) {
  MaskSum sum = toSum(expression);
  return llvm::all_of(sum.terms, [](const MaskTerm &term) {
    if (term.coefficient < 0 || isa<AffineSymbolExpr>(term.atom)) {
      return false;
    }
    if (auto dim = dyn_cast<AffineDimExpr>(term.atom)) {
      return dim.getPosition() == 0;
    }
    auto division = cast<AffineBinaryOpExpr>(term.atom);
    auto divisor = dyn_cast<AffineConstantExpr>(division.getRHS());
    return division.getKind() != AffineExprKind::Mod && division.getKind() != AffineExprKind::Mul &&
           divisor && divisor.getValue() > 0 && isNonDecreasing(division.getLHS());
  });
}

//===----------------------------------------------------------------------===//
// Masks of specs
//===----------------------------------------------------------------------===//

ScaleRatio sluice::scaleRatio(int64_t queryFactor, int64_t keyFactor) {
  queryFactor = std::max<int64_t>(1, queryFactor); // 0: a scale of one position
  keyFactor = std::max<int64_t>(1, keyFactor);
  int64_t common = std::gcd(queryFactor, keyFactor);
  return {queryFactor / common, keyFactor / common};
}

ScaleRatio sluice::getScaleRatio(AttentionOp op) {
  return scaleRatio(getFactor(op, op.getQuery().getType()), getFactor(op, op.getKey().getType()));
}

/// Returns a p - b q.
static AffineExpr aheadOfKey(MLIRContext *context, ScaleRatio scales) {
  return getAffineDimExpr(0, context) * scales.query - getAffineDimExpr(1, context) * scales.key;
}

IntegerSet sluice::causalMask(MLIRContext *context, ScaleRatio scales) {
  return IntegerSet::get(2, 1, {aheadOfKey(context, scales)}, {false});
}

IntegerSet sluice::completeMask(MLIRContext *context, ScaleRatio scales) {
  return IntegerSet::get(2, 1, {aheadOfKey(context, scales) + (scales.query - scales.key)},
                         {false});
}

IntegerSet sluice::windowMask(MLIRContext *context, ScaleRatio scales, int64_t begin, int64_t end) {
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  return IntegerSet::get(2, 1,
                         {aheadOfKey(context, scales) - scales.key * begin,
                          q * scales.key - p * scales.query + (scales.key * end - 1)},
                         {false, false});
}

IntegerSet sluice::tokenMask(MLIRContext *context, ScaleRatio scales, int64_t begin, int64_t end) {
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  int64_t ends = scales.query - scales.key; // between last tokens, if first tokens agree
  return IntegerSet::get(2, 1,
                         {aheadOfKey(context, scales) + (ends - begin),
                          q * scales.key - p * scales.query + (end - 1 - ends)},
                         {false, false});
}

/// The added multiple makes the dividend nonnegative for every row p.
IntegerSet sluice::blockMask(MLIRContext *context, int64_t start, int64_t rows) {
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  int64_t missing = start == 0 ? 0 : rows - start; // rows missing in the first block
  AffineExpr first = (p + missing).floorDiv(rows) * rows - missing;
  return IntegerSet::get(2, 1, {p - q, q - first}, {false, false});
}

IntegerSet sluice::everyKey(MLIRContext *context) {
  return IntegerSet::get(2, 1, {getAffineDimExpr(1, context)}, {false});
}

IntegerSet sluice::withFirstKey(IntegerSet mask, int64_t first) {
  if (first == 0) {
    return mask;
  }
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  constraints.push_back(getAffineDimExpr(1, mask.getContext()) - first);
  equalities.push_back(false);
  return IntegerSet::get(2, 1, constraints, equalities);
}

std::pair<IntegerSet, int64_t> sluice::splitFirstKey(IntegerSet mask) {
  unsigned count = mask.getNumConstraints() - 1;
  auto rest =
      simplifyAffineExpr(mask.getConstraint(count) - getAffineDimExpr(1, mask.getContext()), 2, 1);
  auto first = dyn_cast<AffineConstantExpr>(rest);
  if (count == 0 || !first || first.getValue() >= 0 || mask.isEq(count)) {
    return {mask, 0};
  }
  return {IntegerSet::get(2, 1, mask.getConstraints().drop_back(), mask.getEqFlags().drop_back()),
          -first.getValue()};
}

IntegerSet sluice::withStride(IntegerSet mask, int64_t begin, int64_t stride) {
  if (stride == 1) {
    return mask;
  }
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  constraints.push_back((aheadOfKey(mask.getContext(), {}) - begin) % stride);
  equalities.push_back(true);
  return IntegerSet::get(2, 1, constraints, equalities);
}

std::pair<IntegerSet, int64_t> sluice::splitStride(IntegerSet mask) {
  unsigned count = mask.getNumConstraints() - 1;
  auto remainder = dyn_cast<AffineBinaryOpExpr>(mask.getConstraint(count));
  if (count == 0 || !mask.isEq(count) || !remainder || remainder.getKind() != AffineExprKind::Mod) {
    return {mask, 1};
  }
  return {IntegerSet::get(2, 1, mask.getConstraints().drop_back(), mask.getEqFlags().drop_back()),
          cast<AffineConstantExpr>(remainder.getRHS()).getValue()};
}

/// Describes a mask that has the constraints `first` and `last` at p = q = 0.
static MaskWords describeWindow(IntegerSet mask, ScaleRatio scales, int64_t first, int64_t last) {
  MLIRContext *context = mask.getContext();
  int64_t ends = scales.query - scales.key;
  MaskWords window{MaskWords::Window, -first / scales.key, (last + 1) / scales.key};
  MaskWords tokens{MaskWords::Tokens, ends - first, last + 1 + ends};
  bool isWindow = mask == windowMask(context, scales, window.begin, window.end);
  bool isTokens = mask == tokenMask(context, scales, tokens.begin, tokens.end);
  if (isWindow && (window.begin >= 0 || !isTokens || tokens.begin < 0)) {
    return window;
  }
  return isTokens ? tokens : MaskWords();
}

/// Describes a mask whose second constraint is q - first; its value at p = q = 0 is the missing
/// part of the first block.
static std::optional<MaskWords> describeBlock(IntegerSet mask) {
  int64_t rows = 0;
  for (AffineExpr constraint : mask.getConstraints()) {
    constraint.walk([&](AffineExpr part) {
      if (part.getKind() == AffineExprKind::FloorDiv) {
        auto divisor = dyn_cast<AffineConstantExpr>(cast<AffineBinaryOpExpr>(part).getRHS());
        rows = divisor ? divisor.getValue() : 0;
      }
    });
  }
  if (rows < 1) {
    return std::nullopt;
  }
  AffineExpr behindStart = mask.getConstraint(mask.getNumConstraints() - 1);
  int64_t missing = reference::evaluateAffine(behindStart, 0, 0, 0);
  int64_t start = missing == 0 ? 0 : rows - missing;
  bool isBlock = mask == blockMask(mask.getContext(), start, rows);
  return isBlock ? std::optional(MaskWords{MaskWords::Block, start, rows}) : std::nullopt;
}

static MaskWords describeWhole(IntegerSet mask, ScaleRatio scales) {
  MLIRContext *context = mask.getContext();
  if (mask == causalMask(context, scales)) {
    return {MaskWords::Causal};
  }
  if (mask == completeMask(context, scales)) {
    return {MaskWords::Complete};
  }
  if (mask == everyKey(context)) {
    return {MaskWords::Bidirectional};
  }
  if (std::optional<MaskWords> block = describeBlock(mask)) {
    return *block;
  }
  AffineExpr zero = getAffineConstantExpr(0, context);
  if (mask.getNumConstraints() == 2) {
    auto first = dyn_cast<AffineConstantExpr>(mask.getConstraint(0).replaceDims({zero, zero}));
    auto last = dyn_cast<AffineConstantExpr>(mask.getConstraint(1).replaceDims({zero, zero}));
    if (first && last) {
      return describeWindow(mask, scales, first.getValue(), last.getValue());
    }
  }
  return {};
}

MaskWords sluice::describeMask(IntegerSet mask, ScaleRatio scales) {
  auto [strided, first] = splitFirstKey(mask);
  auto [whole, stride] = splitStride(strided);
  MaskWords words = describeWhole(whole, scales);
  if (withStride(whole, words.begin, stride) != strided) {
    return {};
  }
  words.first = first;
  words.stride = stride;
  return words;
}
