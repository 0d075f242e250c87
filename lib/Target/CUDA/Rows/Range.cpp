// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathered operands: elements at an index, and sums or maxima over ranges of rows, or
// of entries of a list, in their order.
// All threads of a row share a range.
#include "../../Common/RangeDraw.h"
#include "Rows.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;
using dispatch::AccessKind;

constexpr PhiloxWord philoxWord = PhiloxWord::Narrow;

static std::pair<Value, Value> computeArgumentRange(TeamRowEmitter &emitter, unsigned argument) {
  dispatch::RowsOp op = emitter.op;
  dispatch::AccessAttr access = getTensorAccess(op, argument);
  return emitter.addresses.range(argument, emitter.at,
                                 getIndexValue(op, emitter.scalars, access.getIndex()),
                                 getIndexValue(op, emitter.scalars, access.getLast()));
}

static Value reduceRangeElement(TeamRowEmitter &emitter, unsigned argument) {
  ImplicitLocOpBuilder &b = emitter.b;
  dispatch::RowsOp op = emitter.op;
  Type type = op.getBody().getArgument(argument).getType();
  auto [first, end] = computeArgumentRange(emitter, argument);
  if (type.isInteger()) {
    return countDrawnRows(emitter, argument, philoxWord, [&](Value zero, auto add) {
      return emitter.e.loop(first, end, 1, zero, add);
    });
  }
  dispatch::ReduceKind kind = getTensorAccess(op, argument).getRangeKind();
  return emitter.e
      .loop(first, end, 1, emitIdentity(b, kind, type),
            [&](Value q, ValueRange sums) -> Values {
              Value element = convertElements(
                  emitter, emitter.addresses.rangeElement(argument, emitter.at, q), type);
              Value by = emitter.addresses.rangeWeight(argument, emitter.at, q, emitter.scalars);
              element = scaleRangeRow(b, element, by, isDrawnRow(emitter, argument, q, philoxWord));
              return {combineRows(b, kind, sums.front(), element)};
            })
      .front();
}

/// Emits elements in order of dependence: an index before the elements it selects.
Value rows::loadBodyElement(TeamRowEmitter &emitter, BlockArgument argument) {
  dispatch::RowsOp op = emitter.op;
  unsigned number = argument.getArgNumber();
  dispatch::AccessAttr access = getTensorAccess(op, number);
  return access.getKind() == AccessKind::Range
             ? reduceRangeElement(emitter, number)
             : emitter.addresses.operandElement(
                   number, emitter.at, getIndexValue(op, emitter.scalars, access.getIndex()));
}

Values rows::reduceRange(TeamRowEmitter &emitter, unsigned argument, Columns &columns) {
  ImplicitLocOpBuilder &b = emitter.b;
  auto [first, end] = computeArgumentRange(emitter, argument);
  dispatch::ReduceKind kind = getTensorAccess(emitter.op, argument).getRangeKind();
  Values none(emitter.getColumnVectorCount(columns),
              emitIdentity(b, kind, emitter.getVectorType(b.getF32Type())));
  return emitter.e.loop(first, end, 1, none, [&](Value q, ValueRange sums) {
    Source row = emitter.addresses.rangeRow(argument, emitter.at, q);
    Value by = emitter.addresses.rangeWeight(argument, emitter.at, q, emitter.scalars);
    Value isDrawn = isDrawnRow(emitter, argument, q, philoxWord);
    Values next;
    for (size_t j = 0; j < emitter.getColumnVectorCount(columns); ++j) {
      Value value = convertElements(emitter, load(emitter, row, columns, j), b.getF32Type());
      next.push_back(combineRows(b, kind, sums[j], scaleRangeRow(b, value, by, isDrawn)));
    }
    return next;
  });
}
