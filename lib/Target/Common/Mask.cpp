// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attention mask: classification of blocks, and its value for single elements.
#include "sluice/Target/Common/Mask.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;

namespace {

/// Lower and upper bound, not necessarily reached.
struct MaskInterval {
  Value low, high;
};

/// Computes ranges of affine expressions over a block, in index arithmetic, for given ranges of
/// dimensions 0 and 1 and of the symbol.
class RangeBuilder {
public:
  RangeBuilder(Emitter &e, MaskInterval p, MaskInterval q, Value length)
      : e(e), dims{p, q}, length(length) {}

  MaskInterval of(AffineExpr expr) {
    if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
      Value value = e.index(constant.getValue());
      return {value, value};
    }
    if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
      return dims[dim.getPosition()];
    }
    if (isa<AffineSymbolExpr>(expr)) {
      return {length, length};
    }
    return ofBinary(cast<AffineBinaryOpExpr>(expr));
  }

private:
  MaskInterval ofBinary(AffineBinaryOpExpr expr) {
    MaskInterval a = of(expr.getLHS());
    if (expr.getKind() == AffineExprKind::Add) {
      MaskInterval c = of(expr.getRHS());
      return {e.add(a.low, c.low), e.add(a.high, c.high)};
    }
    int64_t factor = cast<AffineConstantExpr>(expr.getRHS()).getValue();
    switch (expr.getKind()) {
    case AffineExprKind::Mul:
      return factor < 0 ? MaskInterval{e.mul(a.high, factor), e.mul(a.low, factor)}
                        : MaskInterval{e.mul(a.low, factor), e.mul(a.high, factor)};
    case AffineExprKind::FloorDiv:
      return {e.floorDiv(a.low, factor), e.floorDiv(a.high, factor)};
    case AffineExprKind::CeilDiv:
      return {e.floorDiv(e.add(a.low, factor - 1), factor),
              e.floorDiv(e.add(a.high, factor - 1), factor)};
    default: // the remainder is unbounded if the dividend's range is longer than the divisor
      return {e.index(0), e.index(factor - 1)};
    }
  }

  Emitter &e;
  MaskInterval dims[2];
  Value length;
};

} // namespace

BlockClass target::classifyBlock(Emitter &e, IntegerSet mask, Value p0, int64_t queries, Value q0,
                                 int64_t keys, Lengths lengths) {
  Value lastKey = e.add(lengths.keys, -1);
  Value lastQuery = lengths.queries == lengths.keys ? lastKey : e.add(lengths.queries, -1);
  Value zero = e.index(0);
  MaskInterval p{p0, e.min(e.add(p0, queries - 1), lastQuery)};
  MaskInterval q{q0, e.min(e.add(q0, keys - 1), lastKey)};
  RangeBuilder ranges(e, p, q, lengths.keys);
  BlockClass result{e.less(q0, lengths.keys), e.atLeast(lengths.keys, e.add(q0, keys))};
  for (auto [expr, equality] : llvm::zip(mask.getConstraints(), mask.getEqFlags())) {
    MaskInterval range = ranges.of(expr);
    result.some = e.both(result.some, e.atLeast(range.high, zero));
    result.full = e.both(result.full, e.atLeast(range.low, zero));
    if (equality) {
      result.some = e.both(result.some, e.atLeast(zero, range.low));
      result.full = e.both(result.full, e.atLeast(zero, range.high));
    }
  }
  return result;
}

/// Emits an affine expression: scalar unless one of its operands is a vector.
static Value emitAffine(Emitter &e, AffineExpr expr, ArrayRef<Value> dims, Value length) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    return e.integer(constant.getValue());
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    return dims[dim.getPosition()];
  }
  if (isa<AffineSymbolExpr>(expr)) {
    return length;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value a = emitAffine(e, binary.getLHS(), dims, length);
  if (binary.getKind() == AffineExprKind::Add) {
    Value c = emitAffine(e, binary.getRHS(), dims, length);
    bool vector = isa<VectorType>(a.getType()) || isa<VectorType>(c.getType());
    return vector ? e.add(e.broadcast(a), e.broadcast(c)) : e.add(a, c);
  }
  int64_t factor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
  switch (binary.getKind()) {
  case AffineExprKind::Mul:
    return e.mul(a, factor);
  case AffineExprKind::FloorDiv:
    return e.floorDiv(a, factor);
  case AffineExprKind::CeilDiv:
    return e.floorDiv(e.add(a, factor - 1), factor);
  default:
    return e.sub(a, e.mul(e.floorDiv(a, factor), factor));
  }
}

/// Returns the conjunction of booleans, either of which may be a vector.
static Value conjunction(Emitter &e, Value a, Value c) {
  bool vector = isa<VectorType>(a.getType()) || isa<VectorType>(c.getType());
  return vector ? e.both(e.broadcast(a), e.broadcast(c)) : e.both(a, c);
}

/// Emits a constraint expr >= 0 on a scalar q whose other terms do not depend on q: one comparison
/// with the sum of these terms, which is the same for all keys of a query. Null if expr is not of
/// this form.
static Value emitBound(Emitter &e, AffineExpr expr, Value p, Value q, Value length) {
  AffineExpr key = getAffineDimExpr(1, expr.getContext());
  for (auto [bound, predicate] : {std::pair(expr + key, arith::CmpIPredicate::sle),
                                  std::pair(key - expr, arith::CmpIPredicate::sge)}) {
    AffineExpr rest = simplifyAffineExpr(bound, 2, 1);
    if (!rest.isFunctionOfDim(1)) {
      return arith::CmpIOp::create(e.b, predicate, q, emitAffine(e, rest, {p, q}, length));
    }
  }
  return nullptr;
}

Value target::emitRelation(Emitter &e, IntegerSet mask, Value p, Value q, Value length,
                           bool bounded) {
  Value result = bounded ? e.less(q, length) : Value();
  for (auto [expr, equality] : llvm::zip(mask.getConstraints(), mask.getEqFlags())) {
    bool isScalar = !equality && !isa<VectorType>(p.getType()) && !isa<VectorType>(q.getType());
    Value holds = isScalar ? emitBound(e, expr, p, q, length) : Value();
    if (!holds) {
      Value value = emitAffine(e, expr, {p, q}, length);
      auto predicate = equality ? arith::CmpIPredicate::eq : arith::CmpIPredicate::sge;
      holds = arith::CmpIOp::create(e.b, predicate, value, e.constantLike(value, 0));
    }
    result = result ? conjunction(e, result, holds) : holds;
  }
  return result;
}

Value target::emitDistance(Emitter &e, const dispatch::Distance &distance, Value p, Value q) {
  auto scaled = [&](Value x, int64_t factor) { return factor == 1 ? x : e.mul(x, factor); };
  Value between = e.sub(scaled(p, distance.query), scaled(q, distance.key));
  return distance.offset == 0 ? between : e.add(between, distance.offset);
}

Value target::emitDistanceRow(Emitter &e, Value distance, Value rows) {
  return e.max(e.min(distance, e.add(rows, -1)), e.constantLike(distance, 0));
}

double target::countPairs(int64_t queries, int64_t keys, IntegerSet mask) {
  constexpr int64_t most = 64;
  int64_t rows = std::min(most, queries), columns = std::min(most, keys);
  MLIRContext *context = mask.getContext();
  auto sample = [&](int64_t i, int64_t samples, int64_t positions) {
    return getAffineConstantExpr((2 * i + 1) * positions / (2 * samples), context);
  };
  int64_t holding = 0;
  for (int64_t i = 0; i < rows * columns; ++i) {
    SmallVector<AffineExpr> dims{sample(i / columns, rows, queries),
                                 sample(i % columns, columns, keys)};
    SmallVector<AffineExpr> symbols(mask.getNumSymbols(), getAffineConstantExpr(keys, context));
    bool holds = true;
    for (auto [expr, equality] : llvm::zip(mask.getConstraints(), mask.getEqFlags())) {
      auto value = cast<AffineConstantExpr>(expr.replaceDimsAndSymbols(dims, symbols)).getValue();
      holds &= equality ? value == 0 : value >= 0;
    }
    holding += holds;
  }
  double share = static_cast<double>(holding) / static_cast<double>(rows * columns);
  return share * static_cast<double>(queries) * static_cast<double>(keys);
}
