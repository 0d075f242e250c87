// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Which operand positions each op's results read.
#include "OpFacts.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;

using Relation = std::optional<IntegerSet>;

namespace {
/// p, q and n of a relation.
struct Names {
  explicit Names(Operation *op)
      : p(getAffineDimExpr(0, op->getContext())), q(getAffineDimExpr(1, op->getContext())),
        n(getAffineSymbolExpr(0, op->getContext())) {}
  AffineExpr p, q, n;
};
} // namespace

static bool isSequence(Operation *op, unsigned operand) {
  return isa<SequenceType>(op->getOperand(operand).getType());
}

/// q = source(p), for every operand that is a sequence.
static Relation readsOne(Operation *op, unsigned operand, AffineExpr source) {
  if (!isSequence(op, operand)) {
    return std::nullopt;
  }
  return IntegerSet::get(2, 1, {Names(op).q - source}, {true});
}

//===----------------------------------------------------------------------===//
// Ops of one position
//===----------------------------------------------------------------------===//

#define READS_ITS_POSITION(OP)                                                                     \
  Relation OP::getRelation(unsigned operand) { return readsOne(*this, operand, Names(*this).p); }  \
  AffineExpr OP::getLatest(unsigned operand) { return Names(*this).p; }

READS_ITS_POSITION(EmbedOp)
READS_ITS_POSITION(PositionOp)
READS_ITS_POSITION(MapOp)
READS_ITS_POSITION(NormOp)
READS_ITS_POSITION(LinearOp)

/// Targets look ahead by design.
Relation CrossEntropyOp::getRelation(unsigned operand) {
  return operand == 0 ? readsOne(*this, operand, Names(*this).p) : std::nullopt;
}
AffineExpr CrossEntropyOp::getLatest(unsigned operand) { return Names(*this).p; }

/// Rows of `tokens` are read wherever they lie.
SmallVector<dispatch::RowRead> CrossEntropyOp::getTargetReads() {
  if (!getTarget().empty()) { // a distribution may follow from any token
    return {dispatch::RowRead::whole(getTokensMutable().getOperandNumber())};
  }
  AffineExpr target = Names(*this).p + static_cast<int64_t>(getOffset());
  auto read = dispatch::RowRead::through(getTokensMutable().getOperandNumber(),
                                         AffineMap::get(2, 1, target));
  read.factor = 0;
  return {read};
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

static AffineExpr shifted(ShiftOp op) { return Names(op).p - static_cast<int64_t>(op.getBy()); }
Relation ShiftOp::getRelation(unsigned operand) { return readsOne(*this, operand, shifted(*this)); }
AffineExpr ShiftOp::getLatest(unsigned operand) { return shifted(*this); }
std::optional<int64_t> ShiftOp::getShift() { return static_cast<int64_t>(getBy()); }

static AffineExpr lastOfGroup(Operation *op, int64_t k) { return Names(op).p * k + (k - 1); }
Relation FoldOp::getRelation(unsigned) { return facts::relationOf(getContext(), getRowGroup()); }
AffineExpr FoldOp::getLatest(unsigned operand) { return lastOfGroup(*this, getFactor()); }

static AffineExpr groupOf(Operation *op, int64_t k) { return Names(op).p.floorDiv(k); }
Relation UpsampleOp::getRelation(unsigned operand) {
  return readsOne(*this, operand, groupOf(*this, getFactor()));
}
AffineExpr UpsampleOp::getLatest(unsigned operand) { return groupOf(*this, getFactor()); }
Relation UnfoldOp::getRelation(unsigned operand) {
  return readsOne(*this, operand, groupOf(*this, getFactor()));
}
AffineExpr UnfoldOp::getLatest(unsigned operand) { return groupOf(*this, getFactor()); }

/// The one result position is p = 0.
Relation LastOp::getRelation(unsigned operand) {
  Names of(*this);
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

/// Queries: their own row. Keys and values: the mask, 0 <= q < n. Rows by distance: up to the
/// greatest that p has.
Relation AttentionOp::getRelation(unsigned operand) {
  Names of(*this);
  if (operand == 0 || operand == positionQuery || !isSequence(*this, operand)) {
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

/// The tightest upper bound of q that the mask's constraints give in p alone. Each is sound by
/// itself; which is tightest is judged far from the origin, where slopes decide.
AffineExpr AttentionOp::getLatest(unsigned operand) {
  if (operand == 0 || operand >= positionQuery) {
    AffineExpr p = Names(*this).p;
    return operand == distanceRows ? getTerms().distance.greatest(p) : p;
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
          IntegerSetAttr::get(causalMask(getContext(), scalesOf(*this)))};
}

OpRemedy CrossEntropyOp::getRemedy() {
  return {"row t is scored against token t + " + std::to_string(static_cast<int64_t>(getOffset())) +
              ", which it reads; score it against token t + 1",
          "offset", Builder(getContext()).getI64IntegerAttr(1)};
}
