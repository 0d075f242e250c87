// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathered operands: elements at an index, and sums or maxima over ranges of rows, in row order.
// All threads of a row share a range.
#include "Rows.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;
using dispatch::AccessKind;

/// Emits elements in order of dependence: an index before the elements it selects.
void TeamRowEmitter::emitElements() {
  for (unsigned level : {0, 1, 2}) {
    for (BlockArgument argument : op.getBody().getArguments()) {
      if (!isRow(argument) && getTensorAccess(op, argument.getArgNumber()).getLevel() == level) {
        scalars[argument] = getElementIndex(argument);
      }
    }
  }
}

Value TeamRowEmitter::getRowIndex(int64_t argument) {
  return argument < 0 ? Value() : known(op.getBody().getArgument(unsigned(argument)));
}

Value TeamRowEmitter::getElementIndex(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  dispatch::AccessAttr access = getTensorAccess(op, number);
  return access.getKind() == AccessKind::Range
             ? rangeElement(number)
             : addresses.operandElement(number, at, getRowIndex(access.getIndex()));
}

std::pair<Value, Value> TeamRowEmitter::computeRange(unsigned argument) {
  dispatch::AccessAttr access = getTensorAccess(op, argument);
  return addresses.range(argument, at, getRowIndex(access.getIndex()),
                         getRowIndex(access.getLast()));
}

Value TeamRowEmitter::rangeElement(unsigned argument) {
  auto [first, end] = computeRange(argument);
  Type type = op.getBody().getArgument(argument).getType();
  dispatch::ReduceKind kind = getTensorAccess(op, argument).getRangeKind();
  return e
      .loop(first, end, 1, emitIdentity(b, kind, type),
            [&](Value q, ValueRange sums) -> Values {
              Value element = converted(addresses.rangeElement(argument, at, q), type);
              return {combineRows(b, kind, sums.front(), element)};
            })
      .front();
}

Values TeamRowEmitter::rangeValues(unsigned argument, Columns &columns) {
  auto [first, end] = computeRange(argument);
  dispatch::ReduceKind kind = getTensorAccess(op, argument).getRangeKind();
  Values none(getColumnVectorCount(columns), emitIdentity(b, kind, getVectorType(b.getF32Type())));
  return e.loop(first, end, 1, none, [&](Value q, ValueRange sums) {
    Source row = addresses.rangeRow(argument, at, q);
    Values next;
    for (size_t j = 0; j < getColumnVectorCount(columns); ++j) {
      Value value = converted(load(row, columns, j), b.getF32Type());
      next.push_back(combineRows(b, kind, sums[j], value));
    }
    return next;
  });
}
