// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segments in the entry points of generation, and the state that they share with other parts of the
// entry points.
#pragma once

#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Step.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

class RowsBuilder;

/// Schedules and segmentations of the entry points under construction.
struct StepContext {
  /// A segmentation. If it segments a scale other than the tokens, also the schedule of its counts,
  /// and the segmentation of that scale.
  struct Cut {
    mlir::FlatSymbolRefAttr axis;
    ScheduleOp counted;
    std::optional<size_t> outer;
    bool isGiven = false; ///< segments of a given axis, all of which are known
  };

  StepContext(mlir::ModuleOp module, int64_t rows)
      : module(module), rows(rows), b(module.getContext()) {}

  /// Returns the type of one i64 per row of the batch.
  mlir::RankedTensorType perRow() { return mlir::RankedTensorType::get({rows}, b.getI64Type()); }

  mlir::ModuleOp module;
  int64_t rows; ///< rows of the batch
  mlir::OpBuilder b;
  StepValues values;
  /// Numbers of schedules by symbol; the schedule of every step and the schedule of the last row
  /// follow.
  llvm::DenseMap<mlir::Attribute, size_t> numbers;
  llvm::SmallVector<mlir::Value> schedules;
  llvm::SmallVector<int64_t> bursts; ///< bursts by schedule
  /// Schedules of segments whose lengths are counted in tokens.
  llvm::DenseMap<size_t, mlir::Value> byTokens;
  /// Maps a schedule of segments to the schedule of their rows.
  llvm::MapVector<size_t, size_t> members;
  llvm::SmallVector<Cut> cuts; ///< their counts are the last results of @prefill
  /// Maximum factor of the values that a schedule makes due.
  llvm::DenseMap<mlir::Operation *, int64_t> factors;
  mlir::Value doneNow;
};

mlir::FlatSymbolRefAttr findSegmentAxis(SegmentOp cut);
/// Drops states of bits that only segmentations read; the states of their counts remain.
void dropBits(mlir::func::FuncOp step);

/// Numbers the schedules of the rows of segments that attend to their rows, one row per position.
void numberMembers(StepContext &context, mlir::func::FuncOp step);
/// Returns the name of the scalar that is 1 if some row of the batch computes rows by a schedule.
std::string getGuardName(const StepContext &context, size_t number);
/// Limits a number of rows to the number of rows of the schedule's scale.
mlir::Value clampToAxis(StepContext &context, mlir::ImplicitLocOpBuilder &b, ScheduleOp schedule,
                        mlir::Value rows);
/// Replaces a segmentation in @step: computes its counts and ends from the bits of this step, and
/// the schedules of its axis.
void replaceSegmentation(StepContext &context, SegmentOp op,
                         llvm::DenseMap<mlir::Value, mlir::Value> &tensors);

/// Records the segmentations of @prefill; `due` maps each count to the schedule of its rows.
void addCuts(StepContext &context, mlir::func::FuncOp prefill,
             const llvm::DenseMap<mlir::Value, ScheduleOp> &due);
/// Counts the segments of cut `i` that are closed in the rows of the prompt, from the results
/// `counts` of @prefill.
mlir::Value countClosed(StepContext &context, RowsBuilder &each, mlir::ValueRange counts, size_t i,
                        mlir::Value take);
/// Returns 1 if the named inputs of the prompt belong to the line whose number is the row's, else
/// 0; i64. The row that takes the prompt has a line by `input:take.line`.
mlir::Value isTakenLine(StepContext &context, RowsBuilder &each);
/// Stores the number of segments of the row that takes the prompt, or of its line for a given axis.
/// Without `counts`, stores zero for rows, and nothing for lines.
void commitClosed(StepContext &context, mlir::ValueRange counts);

} // namespace sluice
