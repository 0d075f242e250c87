// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathered operands: elements at an index, and sums or maxima over ranges of rows, in row order.
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

Value VectorRowEmitter::getRowIndex(int64_t argument) {
  return argument < 0 ? Value() : known(op.getBody().getArgument(unsigned(argument)));
}

Value VectorRowEmitter::getElementIndex(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  auto access = cast<AccessAttr>(op.getAccesses()[number]);
  return access.getKind() == AccessKind::Range
             ? rangeElement(number)
             : addresses.operandElement(number, at, getRowIndex(access.getIndex()));
}

std::pair<Value, Value> VectorRowEmitter::computeRange(unsigned argument) {
  auto access = cast<AccessAttr>(op.getAccesses()[argument]);
  return addresses.range(argument, at, getRowIndex(access.getIndex()),
                         getRowIndex(access.getLast()));
}

/// Carries `sums` over a range of rows: `add` returns the sums after row q.
static BodyValues overRange(Frame &frame, std::pair<Value, Value> range, ValueRange sums,
                            llvm::function_ref<BodyValues(Value q, ValueRange sums)> add) {
  ImplicitLocOpBuilder &b = frame.builder();
  auto loop = scf::ForOp::create(b, range.first, range.second, frame.index(1), sums);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, add(loop.getInductionVar(), loop.getRegionIterArgs()));
  return BodyValues(loop.getResults());
}

Value VectorRowEmitter::rangeElement(unsigned argument) {
  dispatch::ReduceKind kind = cast<AccessAttr>(op.getAccesses()[argument]).getRangeKind();
  Value none = emitIdentity(b, kind, op.getBody().getArgument(argument).getType());
  return overRange(frame, computeRange(argument), none,
                   [&](Value q, ValueRange sums) -> Values {
                     Value element = addresses.rangeElement(argument, at, q);
                     return {combineRows(b, kind, sums.front(), element)};
                   })
      .front();
}

BodyValues VectorRowEmitter::rangeValues(unsigned argument, Columns &columns) {
  dispatch::ReduceKind kind = cast<AccessAttr>(op.getAccesses()[argument]).getRangeKind();
  Values none(columns.count, emitIdentity(b, kind, getVectorType(b.getF32Type())));
  return overRange(frame, computeRange(argument), none, [&](Value q, ValueRange sums) {
    Values next = loadAll(addresses.rangeRow(argument, at, q), columns, false);
    for (auto [value, sum] : llvm::zip_equal(next, sums)) {
      value = combineRows(b, kind, sum, value);
    }
    return next;
  });
}
