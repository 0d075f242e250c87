// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Defines the operand positions that each op's results read.
#include "../Scales/Windows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "sluice/Dialect/Dispatch/RowConditions.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;

namespace {
/// The names p, q and n in a relation.
struct RelationNames {
  explicit RelationNames(Operation *op)
      : p(getAffineDimExpr(0, op->getContext())), q(getAffineDimExpr(1, op->getContext())),
        n(getAffineSymbolExpr(0, op->getContext())) {}
  AffineExpr p, q, n;
};
} // namespace

static bool isSequence(Operation *op, unsigned operand) {
  return isa<SequenceType>(op->getOperand(operand).getType());
}

/// Returns the relation q = source(p) for an operand that is a sequence.
static std::optional<IntegerSet> readsOne(Operation *op, unsigned operand, AffineExpr source) {
  if (!isSequence(op, operand)) {
    return std::nullopt;
  }
  return IntegerSet::get(2, 1, {RelationNames(op).q - source}, {true});
}

//===----------------------------------------------------------------------===//
// Ops of one position
//===----------------------------------------------------------------------===//

#define READS_ITS_POSITION(OP)                                                                     \
  std::optional<IntegerSet> OP::getRelation(unsigned operand) {                                    \
    return readsOne(*this, operand, RelationNames(*this).p);                                       \
  }                                                                                                \
  AffineExpr OP::getLatest(unsigned operand) { return RelationNames(*this).p; }

READS_ITS_POSITION(EmbedOp)
READS_ITS_POSITION(PositionOp)
READS_ITS_POSITION(NormOp)
READS_ITS_POSITION(LinearOp)

namespace {
/// A map that yields one operand at the rows of a condition, and another elsewhere.
struct RowChoice {
  unsigned on = 0, off = 0;
  dispatch::RowCondition rows;
};
} // namespace

/// Finds a select between two operands, each of which has no other use.
static std::optional<RowChoice> findRowChoice(MapOp map) {
  auto select =
      map.getBody().front().getTerminator()->getOperand(0).getDefiningOp<arith::SelectOp>();
  std::optional<dispatch::RowCondition> condition =
      select ? dispatch::findRowCondition(select.getCondition()) : std::nullopt;
  auto on = select ? dyn_cast<BlockArgument>(select.getTrueValue()) : BlockArgument();
  auto off = select ? dyn_cast<BlockArgument>(select.getFalseValue()) : BlockArgument();
  if (!condition || !on || !off || on == off || !on.hasOneUse() || !off.hasOneUse()) {
    return std::nullopt;
  }
  return RowChoice{on.getArgNumber(), off.getArgNumber(), *condition};
}

std::optional<IntegerSet> MapOp::getRelation(unsigned operand) {
  RelationNames of(*this);
  std::optional<RowChoice> choice = findRowChoice(*this);
  bool isOn = choice && operand == choice->on, isOff = choice && operand == choice->off;
  if (!isSequence(*this, operand) || (!isOn && !isOff)) {
    return readsOne(*this, operand, of.p);
  }
  choice->rows.isOff = isOff;
  IntegerSet rows = dispatch::getRows(getContext(), choice->rows);
  return IntegerSet::get(2, 1, {of.q - of.p, rows.getConstraint(0)}, {true, rows.isEq(0)});
}

/// Returns the last row up to p that uses the operand.
AffineExpr MapOp::getLatest(unsigned operand) {
  AffineExpr p = RelationNames(*this).p;
  std::optional<RowChoice> choice = findRowChoice(*this);
  if (!choice || (operand != choice->on && operand != choice->off)) {
    return p;
  }
  auto [ahead, every, isOff] = choice->rows;
  if (operand == choice->on) {
    return (p + ahead).floorDiv(every) * every - ahead;
  }
  if (every == 2) { // rows of the other parity, by one division
    return (p + (ahead + 1)).floorDiv(2) * 2 - (ahead + 1);
  }
  // p, or p - 1 if row p uses the other operand
  return p - (p + ahead).floorDiv(every) + (p + (ahead - 1)).floorDiv(every);
}

/// Targets look ahead by design. Losses that are given are read at the row itself.
std::optional<IntegerSet> CrossEntropyOp::getRelation(unsigned operand) {
  bool isRow = operand == 0 || (operand == getWeightMutable().getOperandNumber() &&
                                isa<SequenceType>(getWeight().getType()));
  return isRow ? readsOne(*this, operand, RelationNames(*this).p) : std::nullopt;
}
AffineExpr CrossEntropyOp::getLatest(unsigned operand) { return RelationNames(*this).p; }

/// Accesses rows of `tokens` at any position.
SmallVector<dispatch::RowRead> CrossEntropyOp::getTargetReads() {
  if (!getTarget().empty()) { // a distribution may depend on any token
    return {dispatch::RowRead::whole(getTokensMutable().getOperandNumber())};
  }
  AffineExpr target = RelationNames(*this).p + static_cast<int64_t>(getOffset());
  auto read = dispatch::RowRead::through(getTokensMutable().getOperandNumber(),
                                         AffineMap::get(2, 1, target));
  read.factor = 0;
  return {read};
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

static AffineExpr shifted(ShiftOp op) {
  return RelationNames(op).p - static_cast<int64_t>(op.getBy());
}
std::optional<IntegerSet> ShiftOp::getRelation(unsigned operand) {
  return readsOne(*this, operand, shifted(*this));
}
AffineExpr ShiftOp::getLatest(unsigned operand) { return shifted(*this); }
std::optional<int64_t> ShiftOp::getShift() { return static_cast<int64_t>(getBy()); }

static AffineExpr lastOfGroup(Operation *op, int64_t k) {
  return RelationNames(op).p * k + (k - 1);
}
std::optional<IntegerSet> FoldOp::getRelation(unsigned) {
  return facts::buildRelation(getContext(), getRowGroup());
}
AffineExpr FoldOp::getLatest(unsigned operand) { return lastOfGroup(*this, getFactor()); }

static AffineExpr getGroupSize(Operation *op, int64_t k) { return RelationNames(op).p.floorDiv(k); }
std::optional<IntegerSet> UpsampleOp::getRelation(unsigned operand) {
  return readsOne(*this, operand, getGroupSize(*this, getFactor()));
}
AffineExpr UpsampleOp::getLatest(unsigned operand) { return getGroupSize(*this, getFactor()); }
std::optional<IntegerSet> UnfoldOp::getRelation(unsigned operand) {
  return readsOne(*this, operand, getGroupSize(*this, getFactor()));
}
AffineExpr UnfoldOp::getLatest(unsigned operand) { return getGroupSize(*this, getFactor()); }

/// The only result position is p = 0.
std::optional<IntegerSet> LastOp::getRelation(unsigned operand) {
  RelationNames of(*this);
  return IntegerSet::get(2, 1, {of.p, of.q - of.n + 1}, {true, true});
}
AffineExpr LastOp::getLatest(unsigned operand) { return AffineExpr(); }

bool sluice::isLazy(Operation *op) {
  auto flow = dyn_cast_or_null<CausalFlowInterface>(op);
  return flow && flow.isLazy();
}
bool ShiftOp::isLazy() { return true; }
bool UpsampleOp::isLazy() { return true; }
bool UnfoldOp::isLazy() { return true; }
bool UnfoldOp::readsMember() { return true; }
bool LastOp::isLazy() { return true; }

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Operands of attention: queries, keys and values, then Qv and its rows by distance.
constexpr unsigned positionQuery = 3, distanceRows = 4;

/// Relation of queries: their own row; of keys and values: the mask, 0 <= q < n; of rows by
/// distance: up to the maximum distance of p.
/// Returns true for an end of the row's own range.
static bool isRangeEnd(AttentionOp op, unsigned operand) {
  return operand + op.getRange().size() >= op->getNumOperands();
}

/// The checker has an op of its own for ranges, which are operands in the place of terms.
std::string AttentionOp::getNeutralName(unsigned) {
  return getRange().empty() ? "attention" : "range_attention";
}

std::optional<IntegerSet> AttentionOp::getRelation(unsigned operand) {
  RelationNames of(*this);
  if (operand == 0 || operand == positionQuery || !isSequence(*this, operand) ||
      isRangeEnd(*this, operand)) {
    return readsOne(*this, operand, of.p);
  }
  IntegerSet mask =
      operand == distanceRows
          ? IntegerSet::get(2, 1, {getTerms().distance.greatest(of.p) - of.q}, {false})
          : getMask();
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  constraints.append({of.q, of.n - 1 - of.q});
  equalities.append({false, false});
  return IntegerSet::get(2, 1, constraints, equalities);
}

/// Returns the tightest upper bound of q that the mask's constraints imply in p alone. Each bound
/// is sound; they are compared far from the origin, where slopes dominate.
AffineExpr AttentionOp::getLatest(unsigned operand) {
  if (operand == 0 || operand >= positionQuery) {
    AffineExpr p = RelationNames(*this).p;
    bool isByDistance = operand == distanceRows && !isRangeEnd(*this, operand);
    return isByDistance ? getTerms().distance.greatest(p) : p;
  }
  constexpr int64_t far = int64_t{1} << 20;
  AffineExpr latest;
  int64_t least = 0;
  for (AffineExpr bound : solveMask(getMask()).upper) {
    if (!isNonDecreasing(bound)) {
      continue;
    }
    int64_t value = reference::evaluateAffine(bound, far, 0, 0);
    if (!latest || value < least) {
      latest = bound;
      least = value;
    }
  }
  return latest;
}

//===----------------------------------------------------------------------===//
// Remedies
//===----------------------------------------------------------------------===//

OpRemedy AttentionOp::getRemedy() {
  StringRef fault = mentionsLength(getMask())
                        ? "what its mask lets a position read changes as the sequence grows"
                        : "its mask lets a position read later ones";
  return {fault.str() + "; use the mask \"causal\" or a window", "mask",
          IntegerSetAttr::get(causalMask(getContext(), getScaleRatio(*this)))};
}

OpRemedy CrossEntropyOp::getRemedy() {
  return {"row t is scored against token t + " + std::to_string(static_cast<int64_t>(getOffset())) +
              ", which it reads; score it against token t + 1",
          "offset", Builder(getContext()).getI64IntegerAttr(1)};
}
