// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts the derived step to the entry points of generation: @step over the rows of a decode
// step, @prefill over a prompt, and @reset.
#pragma once

#include "StepSegments.h"

namespace sluice {

/// Inputs that select rows of the batch, and progress of each row; places of the arena:
///   input:take  i64 [R]  step: 1 appends the row's next token, 0 skips the row; prefill: number of
///                        tokens of its prompt, -1 for its named inputs only, 0 skips the row;
///                        reset: 1 clears it
///   input:take.line  i32 [R]  number of each row's line: @prefill commits results on the axes of
///                        named inputs to the row of this number, and @step reads them there
///   state:done  i64 [R]  number of tokens in the row's states
///   state:closed.AXIS    i32 [R]  number of segments that these tokens close, per axis of segments
/// @step and @reset run over R rows. @prefill runs over a single row, the prompt, and commits it to
/// the selected row. @reset leaves results on the axes of named inputs, which @prefill replaces.
class StepEntries {
public:
  /// `rows` is R, at least 1. With `keysApart`, a state of which later steps only read keys and
  /// values has two places, one for keys and one for values.
  StepEntries(mlir::ModuleOp module, int64_t rows, bool keysApart)
      : context(module, rows), keysApart(keysApart) {}

  /// If there is a @step: creates @prefill from it, and moves its dues and keeps to `getValues`.
  /// Must be called before dispatches are formed.
  void split();
  /// Returns the rows of the values of @step.
  StepValues &getValues() { return context.values; }
  /// Returns the axes of segments for which @prefill commits rows that no forward pass computes.
  llvm::ArrayRef<mlir::FlatSymbolRefAttr> getAxesAhead() const { return ahead; }

  /// Emits the computation of schedules before the first dispatch of @step. `schedule` then
  /// restricts a dispatch to the rows that are due, according to the model ops `ops` that it
  /// implements.
  void beginStep(mlir::func::FuncOp step);
  void schedule(dispatch::KernelInterface dispatch, llvm::ArrayRef<mlir::Operation *> ops);

  /// Replaces a segmentation in @step: computes its counts and ends from the bits of this step, and
  /// the schedules of its axis.
  void cut(SegmentOp op, llvm::DenseMap<mlir::Value, mlir::Value> &tensors) {
    replaceSegmentation(context, op, tensors);
  }

  /// Returns the place of a named input's state that @step reads, by its argument; empty for
  /// tokens.
  llvm::StringRef getStateName(mlir::BlockArgument argument) const {
    unsigned number = argument.getArgNumber();
    return number == 0 ? llvm::StringRef() : llvm::StringRef(givenStates[number - 1]);
  }

  /// Stores the states. `tensors` maps each value of @step to its tensor.
  void endStep(mlir::func::FuncOp step, const llvm::DenseMap<mlir::Value, mlir::Value> &tensors);
  /// Commits the results of @prefill to the states.
  void endPrefill(mlir::func::FuncOp prefill);
  void buildReset();

private:
  /// Schedule of a row of the batch, computed from its `take` and `done`; all i64.
  struct RowRun {
    mlir::Value start, count, length;
  };
  using MakeRun = std::function<RowRun(RowsBuilder &each, mlir::Value take, mlir::Value done)>;

  llvm::SmallVector<mlir::Value>
  buildSchedules(llvm::ArrayRef<MakeRun> runs,
                 llvm::function_ref<mlir::Value(mlir::ImplicitLocOpBuilder &, mlir::Value take,
                                                mlir::Value done)>
                     next,
                 llvm::StringRef label, mlir::ValueRange counts = {});
  void findAxesAhead(mlir::func::FuncOp prefill);
  void moveRows(mlir::func::FuncOp step);
  void readGiven(mlir::func::FuncOp step);
  /// Columns of a state's value that are stored in a separate place: the state's name and `suffix`.
  struct Kept {
    llvm::StringRef suffix;
    int64_t first, count;
  };
  llvm::SmallVector<mlir::Value> keepKeys(mlir::Value packed, StateOp state);
  llvm::SmallVector<Kept> getKeptStates(StateOp state);
  void store(mlir::ValueRange tensors, StateOp state);
  void commit(mlir::Value full, StateOp state, mlir::Value schedule);
  mlir::RankedTensorType getKeptType(StateOp state, const Kept &kept);

  StepContext context;
  bool keysApart;
  llvm::SmallVector<mlir::FlatSymbolRefAttr> ahead;
  mlir::Value isLineTaken; ///< 1 if the prompt's named inputs belong to this line, or 0
  llvm::DenseMap<mlir::Attribute, mlir::Value> clocks; ///< segments that a prompt closes, by axis
  llvm::SmallVector<std::pair<StateOp, ScheduleOp>> commits; ///< state of each result of @prefill
  llvm::SmallVector<std::string> givenStates; ///< state of each argument of @step after the tokens
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Kept>> apart; ///< states in two places
};

/// Stores the i32 scalars `due.N`: 1 if some row of the batch computes rows by schedule N. Launches
/// without due rows are skipped.
void buildGuards(StepContext &context, llvm::ArrayRef<size_t> numbered);

} // namespace sluice
