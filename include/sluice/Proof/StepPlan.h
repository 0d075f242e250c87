// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The incremental step as data: the rows of every value that a step computes, and the rows that are
// stored for later steps (docs/generation.md). Step t appends token t, from 0.
#pragma once

#include "sluice/Proof/Scales.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

/// The step at which each row of a value is computed. Row m is due at step s(m) = max(due(m)). On
/// an axis of segments, counts of closed segments take the place of steps: row m is due at the
/// first step after which max(due(m)) segments of `cut` are closed; a row with 0 is due at the
/// first step.
struct StepSchedule {
  SegmentOp cut;                              ///< null: rows are due at steps
  llvm::SmallVector<mlir::AffineExpr, 2> due; ///< non-decreasing expressions of d0 = m >= 0

  /// Rows computed by the end of step t: N(t) = max(0, min(counts(t))), with counts of d0 = t. Step
  /// t computes rows N(t - 1) up to N(t), and nothing if these are equal.
  llvm::SmallVector<mlir::AffineExpr, 2> counts;
  int64_t first = 0;  ///< the first step that computes a row
  int64_t period = 1; ///< N(t + period) = N(t) + rise, for all t from `first` on
  int64_t rise = 1;
  int64_t burst = 1; ///< maximum number of rows that one step computes

  int64_t getCount(int64_t t) const;
  int64_t getDue(int64_t m) const;
};

/// How a read crosses between tokens and their segments.
enum class StepCrossing {
  None,
  Count, ///< p of the relation is the number of closed segments, including the reader's step
  Ends   ///< its terms are ends of segments; the proof of causality shows that the rows exist
};

/// One read of a stored value, possibly through lazy values: row p of the reader reads row
/// `position`(x) of `source`, for every (p, x) in `relation` with `position`(x) >= 0.
struct StepRead {
  mlir::Operation *reader = nullptr;
  unsigned operand = 0; ///< after the operands come the carried results of a recurrence
  mlir::Value source;   ///< a stored value, or the function's tokens
  /// Dims p, x, where x is a position of the reader's operand; symbol n, the operand's valid
  /// length. For an op on the scale of one position, p is the step.
  mlir::IntegerSet relation;
  mlir::AffineExpr position; ///< expression of d1 = x
  /// Factor of the operand's scale: at step t, n = floor(t / factor) + 1.
  int64_t operandFactor = 1;
  bool endsLazy = false; ///< the operand is lazy, and no position from n on is read
  bool isOfStep = false; ///< reads only rows that the same step computes
  StepCrossing crossing = StepCrossing::None;
};

/// Schedule, storage and reads of one stored value in a step.
struct StepValue {
  mlir::Value value; ///< a result, or the function's tokens
  size_t schedule = 0;
  int64_t factor = 1;
  int64_t capacity = 1; ///< number of rows at the full context
  /// Rows stored, including the newest; row q is in slot q mod ring. 0 if no row outlives its step.
  int64_t ring = 0;
  bool keepsAll = false; ///< some read reaches back without limit: the ring has the capacity
  /// The rows exist before the first token, as the rows of a named input do: the value has no
  /// schedule and no reads. It is stored whole if a value with a schedule reads it.
  bool isGiven = false;
  std::vector<StepRead> reads{}; ///< reads of the op that defines the value, in order of operands
};

/// The step of a function: @predict, or @evaluate with its losses in place of the prediction.
struct StepPlan {
  mlir::func::FuncOp function;
  std::vector<StepSchedule> schedules; ///< without duplicates, in order of first use
  /// Stored values from which the prediction is computed, in order of definition; others are not
  /// computed. Lazy values have no entry: their readers read through them.
  llvm::MapVector<mlir::Value, StepValue> values;
  /// Reads of ops that run at every step on one row: losses, and ops on the scale of one position.
  std::vector<StepRead> finals;

  const StepSchedule &findSchedule(mlir::Value value) const {
    return schedules[values.find(value)->second.schedule];
  }
  int64_t getCount(mlir::Value value, int64_t t) const { return findSchedule(value).getCount(t); }
};

/// Returns the schedule of an op that runs at every step on one row: row t at step t.
StepSchedule everyStep(mlir::MLIRContext *context);

} // namespace sluice
