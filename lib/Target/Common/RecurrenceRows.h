// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The buffers of a recurrence, and the rows that its rows follow.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Target/Common/Emitter.h"

namespace sluice::target {

class RecurrenceRows {
public:
  /// `buffer` returns the memory of an operand or result.
  RecurrenceRows(dispatch::RecurrenceOp op, Emitter &e, llvm::function_ref<Value(unsigned)> buffer);

  /// How a row follows its previous row.
  struct Link {
    Value previous; ///< index: the previous row; the row's own if it has none
    Value linked;   ///< i1: the row reads its previous row
    Value cut;      ///< i1: the row is cut off
  };
  /// `length` is the number of valid rows of the text (index).
  Link link(Value batch, Value position, Value length);
  /// Returns i1: true if row `position` has a number or a place that cuts off.
  Value emitMark(Value batch, Value position);
  /// Returns the memory row of a tensor.
  Value getRow(Value tensor, Value batch, Value position);
  /// Returns the maximum number of rows that follow one another without a cut.
  int64_t countPlaces();

  Value weight, bits; ///< null without one
  Values inputs, results;

private:
  dispatch::RecurrenceOp op;
  Emitter &e;
};

} // namespace sluice::target
