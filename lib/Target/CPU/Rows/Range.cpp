// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathered operands: elements at an index, and sums or maxima over ranges of rows, or
// of entries of a list, in their order.
#include "../../Common/RangeDraw.h"
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

constexpr PhiloxWord philoxWord = PhiloxWord::Wide;

static std::pair<Value, Value> computeArgumentRange(VectorRowEmitter &emitter, unsigned argument) {
  dispatch::RowsOp op = emitter.op;
  auto access = cast<AccessAttr>(op.getAccesses()[argument]);
  return emitter.addresses.range(argument, emitter.at,
                                 getIndexValue(op, emitter.scalars, access.getIndex()),
                                 getIndexValue(op, emitter.scalars, access.getLast()));
}

/// Carries `sums` over a range of rows: `add` returns the sums after row q.
static Values loopOverRange(Frame &frame, std::pair<Value, Value> range, ValueRange sums,
                            llvm::function_ref<Values(Value q, ValueRange sums)> add) {
  ImplicitLocOpBuilder &b = frame.builder();
  auto loop = scf::ForOp::create(b, range.first, range.second, frame.index(1), sums);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, add(loop.getInductionVar(), loop.getRegionIterArgs()));
  return Values(loop.getResults());
}

static Value reduceRangeElement(VectorRowEmitter &emitter, unsigned argument) {
  ImplicitLocOpBuilder &b = emitter.b;
  dispatch::RowsOp op = emitter.op;
  if (op.getBody().getArgument(argument).getType().isInteger()) {
    return countDrawnRows(emitter, argument, philoxWord, [&](Value zero, auto add) {
      return loopOverRange(emitter.frame, computeArgumentRange(emitter, argument), zero, add);
    });
  }
  dispatch::ReduceKind kind = cast<AccessAttr>(op.getAccesses()[argument]).getRangeKind();
  Value none = emitIdentity(b, kind, op.getBody().getArgument(argument).getType());
  return loopOverRange(emitter.frame, computeArgumentRange(emitter, argument), none,
                       [&](Value q, ValueRange sums) -> Values {
                         Value isDrawn = isDrawnRow(emitter, argument, q, philoxWord);
                         Value by = emitter.addresses.rangeWeight(argument, emitter.at, q,
                                                                  emitter.scalars);
                         Value element = emitter.addresses.rangeElement(argument, emitter.at, q);
                         element = scaleRangeRow(b, element, by, isDrawn);
                         return {combineRows(b, kind, sums.front(), element)};
                       })
      .front();
}

Value rows::loadBodyElement(VectorRowEmitter &emitter, BlockArgument argument) {
  dispatch::RowsOp op = emitter.op;
  unsigned number = argument.getArgNumber();
  auto access = cast<AccessAttr>(op.getAccesses()[number]);
  return access.getKind() == AccessKind::Range
             ? reduceRangeElement(emitter, number)
             : emitter.addresses.operandElement(
                   number, emitter.at, getIndexValue(op, emitter.scalars, access.getIndex()));
}

Values rows::reduceRange(VectorRowEmitter &emitter, unsigned argument, Columns &columns) {
  ImplicitLocOpBuilder &b = emitter.b;
  dispatch::ReduceKind kind = cast<AccessAttr>(emitter.op.getAccesses()[argument]).getRangeKind();
  Values none(columns.count, emitIdentity(b, kind, emitter.getVectorType(b.getF32Type())));
  return loopOverRange(
      emitter.frame, computeArgumentRange(emitter, argument), none, [&](Value q, ValueRange sums) {
        Values next =
            loadAll(emitter, emitter.addresses.rangeRow(argument, emitter.at, q), columns, false);
        Value by = emitter.addresses.rangeWeight(argument, emitter.at, q, emitter.scalars);
        Value isDrawn = isDrawnRow(emitter, argument, q, philoxWord);
        for (auto [value, sum] : llvm::zip_equal(next, sums)) {
          value = combineRows(b, kind, sum, scaleRangeRow(b, value, by, isDrawn));
        }
        return next;
      });
}
