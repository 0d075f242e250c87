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

//===----------------------------------------------------------------------===//
// Words of certificates
//===----------------------------------------------------------------------===//

std::string sluice::spellByFactor(Operation *op) {
  std::string kind = op->getName().stripDialect().str();
  for (StringRef name : {"by", "factor"}) {
    if (auto number = op->getAttrOfType<IntegerAttr>(name)) {
      auto window = op->getAttrOfType<IntegerAttr>("window");
      bool isApart = window && window.getInt() != 0 && window.getInt() != number.getInt();
      return kind + " " + std::to_string(number.getInt()) +
             (isApart ? " window " + std::to_string(window.getInt()) : "");
    }
  }
  return kind;
}

/// "causal", "complete", "window 0 4", "tokens 8 256", "block 3 4" (from row 3, of 4 rows) or
/// "bidirectional", with " step 4" where a window holds every fourth key, " from 3" where keys
/// begin at row 3; any other mask is spelled as a set, which no checker of specs accepts.
std::string AttentionOp::spellRelation(unsigned) {
  MaskWords words = describeMask(getMask(), scalesOf(*this));
  std::string from = (words.stride > 1 ? " step " + std::to_string(words.stride) : "") +
                     (words.first > 0 ? " from " + std::to_string(words.first) : "");
  std::string numbers = " " + std::to_string(words.begin) + " " + std::to_string(words.end) + from;
  switch (words.kind) {
  case MaskWords::Causal:
    return "attention causal" + from;
  case MaskWords::Complete:
    return "attention complete" + from;
  case MaskWords::Bidirectional:
    return "attention bidirectional" + from;
  case MaskWords::Window:
    return "attention window" + numbers;
  case MaskWords::Tokens:
    return "attention tokens" + numbers;
  case MaskWords::Block:
    return "attention block" + numbers;
  case MaskWords::Other:
    break;
  }
  std::string text = "attention ";
  llvm::raw_string_ostream stream(text);
  getMask().print(stream);
  return text;
}
