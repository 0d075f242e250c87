// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of memory of a row kernel's tensors. Positions are compared as unsigned numbers, which also
// excludes positions before the first.
#include "RowAddress.h"

#include "RowSchedule.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::target;
using dispatch::AccessAttr;
using dispatch::AccessKind;

static Value index(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

static Value toIndex(ImplicitLocOpBuilder &b, Value integer) {
  return arith::IndexCastOp::create(b, b.getIndexType(), integer);
}

int64_t target::getMappedExtent(RankedTensorType type, AccessAttr access) {
  bool isSequence = access.getKind() == AccessKind::Row || access.getLevel() > 0;
  return type.getDimSize(isSequence ? 1 : 0);
}

static Value computeValidRows(const RowAddressing &rows, AccessAttr access, int64_t extent,
                              const RowPosition &at) {
  int64_t factor = access.getSourceFactor();
  return factor == 0 ? index(rows.b, extent) : rows.computeLength(factor, at);
}

/// Restricts a place to `inside`.
static RowPlace restrictPlace(const RowAddressing &rows, Value row, Value inside) {
  Value clamped =
      rows.clamps ? Value(arith::SelectOp::create(rows.b, inside, row, index(rows.b, 0))) : row;
  return {clamped, inside, row};
}

/// Applies the map of an access to the position of the row, or to the gathered index.
static RowPlace mapPosition(const RowAddressing &rows, unsigned i, const RowPosition &at,
                            Value member, bool isSequence, Value gathered = {}) {
  ImplicitLocOpBuilder &b = rows.b;
  AccessAttr access = getTensorAccess(rows.op, i);
  int64_t extent = getMappedExtent(getTensorType(rows.op, i), access);
  Value valid = isSequence && isEndless(rows.op, access)
                    ? index(b, std::numeric_limits<int64_t>::max())
                    : computeValidRows(rows, access, extent, at);
  Value position = emitMappedPosition(b, access, gathered ? gathered : at.position, member, valid);
  RowPlace place{position, {}, position};
  if (gathered || !alwaysInside(rows.op, access, extent)) {
    Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, position, valid);
    place = restrictPlace(rows, position, inside);
  }
  if (isSequence) {
    dispatch::RowsOp op = rows.op;
    place.row = sequenceRow(b, op.getDomain(), extent, at.batch, place.row);
  }
  return place;
}

RowPlace target::computePlace(const RowAddressing &rows, unsigned i, const RowPosition &at,
                              Value member, Value gathered) {
  ImplicitLocOpBuilder &b = rows.b;
  RankedTensorType type = getTensorType(rows.op, i);
  AccessAttr access = getTensorAccess(rows.op, i);
  switch (access.getKind()) {
  case AccessKind::Row: {
    RowPosition from = at;
    from.batch = type.getDimSize(0) == 1 ? index(b, 0) : at.batch;
    return mapPosition(rows, i, from, member, true);
  }
  case AccessKind::Table:
    return mapPosition(rows, i, at, member, false);
  case AccessKind::Flat:
    return access.getGroup() > 1 ? mapPosition(rows, i, at, member, false)
                                 : RowPlace{at.row, nullptr};
  case AccessKind::Gather: {
    Value row = toIndex(b, gathered);
    if (isOfSequence(rows.op, i)) {
      return mapPosition(rows, i, at, member, true, row);
    }
    Value inside =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult, row, index(b, type.getDimSize(0)));
    return restrictPlace(rows, row, inside);
  }
  default:
    return {index(b, 0), nullptr};
  }
}

RangeBounds target::computeRange(const RowAddressing &rows, unsigned i, const RowPosition &at,
                                 Value from, Value last) {
  ImplicitLocOpBuilder &b = rows.b;
  AccessAttr access = getTensorAccess(rows.op, i);
  Value valid =
      access.isListed()
          ? index(b, getTensorType(rows.op, unsigned(access.getList())).getDimSize(1))
          : computeValidRows(rows, access, getMappedExtent(getTensorType(rows.op, i), access), at);
  auto map = [&](Value bound, int64_t member) {
    Value position = bound ? toIndex(b, bound) : at.position;
    return emitMappedPosition(b, access, position, index(b, member), valid);
  };
  Value first = map(from, 0);
  return {first, map(last, 1), valid};
}

RowPlace target::computeListedPlace(const RowAddressing &rows, unsigned i, const RowPosition &at,
                                    Value entry) {
  int64_t extent = getTensorType(rows.op, i).getDimSize(1);
  Value position = toIndex(rows.b, entry);
  Value inside =
      arith::CmpIOp::create(rows.b, arith::CmpIPredicate::ult, position,
                            computeValidRows(rows, getTensorAccess(rows.op, i), extent, at));
  RowPlace place = restrictPlace(rows, position, inside);
  dispatch::RowsOp op = rows.op;
  place.row = sequenceRow(rows.b, op.getDomain(), extent, at.batch, place.row);
  return place;
}

Value target::computeRangePlace(const RowAddressing &rows, unsigned i, const RowPosition &at,
                                Value q) {
  dispatch::RowsOp op = rows.op;
  return sequenceRow(rows.b, op.getDomain(), getTensorType(op, i).getDimSize(1), at.batch, q);
}

Value target::emitSoftmaxWeight(ImplicitLocOpBuilder &b, dispatch::SoftmaxAttr softmax,
                                function_ref<Value(unsigned argument)> own,
                                function_ref<Value(unsigned argument)> other) {
  auto source = unsigned(softmax.getSource()), target = unsigned(softmax.getTarget()),
       norm = unsigned(softmax.getNorm());
  bool isTransposed = softmax.getTransposed();
  Value sum = arith::AddFOp::create(b, isTransposed ? other(source) : own(source),
                                    isTransposed ? own(target) : other(target));
  Value leak = arith::ConstantOp::create(b, softmax.getLeak());
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Value isPositive = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, sum, zero);
  Value score = arith::SelectOp::create(b, isPositive, sum, arith::MulFOp::create(b, sum, leak));
  Value weight = math::ExpOp::create(
      b, arith::SubFOp::create(b, score, isTransposed ? other(norm) : own(norm)));
  if (!softmax.getSlope()) {
    return weight;
  }
  return arith::SelectOp::create(b, isPositive, weight, arith::MulFOp::create(b, weight, leak));
}

Value target::computeResultPlace(const RowAddressing &rows, unsigned i, const RowPosition &at) {
  dispatch::RowsOp op = rows.op;
  unsigned tensor = i + op.getInputs().size();
  switch (getTensorAccess(op, tensor).getKind()) {
  case AccessKind::Row:
    return sequenceRow(rows.b, op.getDomain(), getTensorType(op, tensor).getDimSize(1), at.batch,
                       at.position);
  case AccessKind::Flat:
  case AccessKind::Columns:
    return at.row;
  default:
    return index(rows.b, 0);
  }
}

bool target::startsAtFirstColumn(dispatch::RowsOp op, unsigned i) {
  AffineMap map = getTensorAccess(op, i).getColumn().getValue();
  return map.isSingleConstant() && map.getSingleConstantResult() == 0;
}

Value target::computeColumn(const RowAddressing &rows, unsigned i, const RowPosition &at,
                            Value member, RowPlace &place) {
  ImplicitLocOpBuilder &b = rows.b;
  AccessAttr access = getTensorAccess(rows.op, i);
  AffineMap map = access.getColumn().getValue();
  Value column =
      affine::expandAffineExpr(b, b.getLoc(), map.getResult(0), {at.position, member}, {});
  if (!mayPrecedeColumns(rows.op, access)) {
    return column;
  }
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, column, index(b, 0));
  if (rows.clamps) {
    column = arith::SelectOp::create(b, exists, column, index(b, 0));
  }
  place.inside = place.inside ? arith::AndIOp::create(b, place.inside, exists).getResult() : exists;
  return column;
}

Value target::emitOutsideElement(const RowAddressing &rows, unsigned i, const RowPlace &place,
                                 Value loaded) {
  AccessAttr access = getTensorAccess(rows.op, i);
  Value outside = access.getExtended()
                      ? goesOn(rows.b, place.position)
                      : emitConstant(rows.b, access.getOutside(), loaded.getType());
  return arith::SelectOp::create(rows.b, place.inside, loaded, outside);
}
