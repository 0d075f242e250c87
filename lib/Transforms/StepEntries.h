// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the derived step to the entries of generation: @step over this step's rows, @prefill over a
// prompt, @reset.
#pragma once

#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Step.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

class RowsBuilder;

/// Attribute of @prefill: axes of segments of which it commits rows that no forward pass computes.
constexpr llvm::StringLiteral aheadName = "sluice.ahead";

/// Which rows of the batch take part, and how far each has come: places of the arena.
///   input:take  i64 [R]  step: 1 appends the row's next token, 0 leaves it alone; prefill: tokens
///                        of its prompt, -1 for its named inputs alone, 0 leaves it alone; reset: 1
///                        clears it
///   state:done  i64 [R]  tokens that the row's states have seen
///   state:closed.AXIS    i32 [R]  segments that these close, of an axis of segments
/// @step and @reset run over R rows. @prefill runs over one, the prompt, and commits it to the row
/// that takes part.
class StepEntries {
public:
  /// `rows` is R, at least 1. With `keysApart`, a state of which later steps read keys and values
  /// alone is two places: one of its keys and one of its values.
  StepEntries(mlir::ModuleOp module, int64_t rows, bool keysApart)
      : module(module), rows(rows), keysApart(keysApart), b(module.getContext()) {}

  /// Where there is a @step: makes @prefill from it and writes its dues and keeps as attributes of
  /// the ops that make the values. To be called before dispatches are formed.
  void split();

  /// In @step, before its first dispatch: what computes the schedules. Then `schedule` makes a
  /// dispatch of it run over the rows that `ops`, those of the model that it stands for, are due
  /// by.
  void beginStep(mlir::func::FuncOp step);
  void schedule(mlir::Operation *dispatch, llvm::ArrayRef<mlir::Operation *> ops);

  /// In @step, in place of a segmentation's dispatches: its counts and ends from the bits of this
  /// step, and the schedules of its axis.
  void cut(SegmentOp op, llvm::DenseMap<mlir::Value, mlir::Value> &tensors);

  /// The place of what @step reads of named inputs, by its argument; empty for tokens.
  llvm::StringRef stateOf(mlir::BlockArgument argument) const {
    unsigned number = argument.getArgNumber();
    return number == 0 ? llvm::StringRef() : llvm::StringRef(givenStates[number - 1]);
  }

  /// `tensors` holds what was stored of each value of @step: states go to their places.
  void endStep(mlir::func::FuncOp step, const llvm::DenseMap<mlir::Value, mlir::Value> &tensors);
  /// @prefill's results become commits to the states.
  void endPrefill(mlir::func::FuncOp prefill);
  void buildReset();

private:
  /// Start and count of a row of the batch, from its `take` and `done`, all i64.
  struct Run {
    mlir::Value start, count, length;
  };
  using MakeRun =
      std::function<Run(mlir::ImplicitLocOpBuilder &b, mlir::Value take, mlir::Value done)>;

  llvm::SmallVector<mlir::Value>
  buildSchedules(llvm::ArrayRef<MakeRun> runs,
                 llvm::function_ref<mlir::Value(mlir::ImplicitLocOpBuilder &, mlir::Value take,
                                                mlir::Value done)>
                     next,
                 llvm::StringRef label, mlir::ValueRange counts = {});
  void buildGuards(llvm::ArrayRef<size_t> numbered);
  std::string guardOf(size_t number) const;
  static mlir::FlatSymbolRefAttr axisOf(SegmentOp cut);
  static void dropBits(mlir::func::FuncOp step);
  mlir::ArrayAttr axesAhead(mlir::func::FuncOp prefill);
  void readGiven(mlir::func::FuncOp step);
  mlir::Value bindClosed(mlir::FlatSymbolRefAttr axis);
  mlir::Value closedIn(RowsBuilder &each, mlir::ValueRange counts, size_t i, mlir::Value take);
  void addCuts(mlir::func::FuncOp prefill, const llvm::DenseMap<mlir::Value, ScheduleOp> &due);
  void commitClosed(mlir::ValueRange counts);
  mlir::Value countSegments(SegmentOp op, mlir::Value bits, mlir::RankedTensorType type);
  mlir::Value scheduleSegments(SegmentOp op, mlir::Value counts);
  mlir::Value withinAxis(mlir::ImplicitLocOpBuilder &b, ScheduleOp schedule, mlir::Value rows);
  void storeEnds(SegmentOp op, mlir::RankedTensorType type,
                 llvm::DenseMap<mlir::Value, mlir::Value> &tensors);
  size_t numberOf(mlir::Operation *op);
  void numberMembers(mlir::func::FuncOp step);
  void scheduleMembers(SegmentOp op, mlir::Value ends);
  /// Columns of a state's value that lie in a place of their own: the state's name and `suffix`.
  struct Kept {
    llvm::StringRef suffix;
    int64_t first, count;
  };
  llvm::SmallVector<mlir::Value> keepKeys(mlir::Value packed, StateOp state);
  llvm::SmallVector<Kept> keptOf(StateOp state);
  void store(mlir::ValueRange tensors, StateOp state);
  void commit(mlir::Value full, StateOp state, mlir::Value schedule);
  mlir::RankedTensorType typeOf(StateOp state, const Kept &kept);
  mlir::RankedTensorType perRow();

  mlir::ModuleOp module;
  int64_t rows;
  bool keysApart;
  mlir::OpBuilder b;
  llvm::DenseMap<mlir::Attribute, size_t>
      numbers; ///< of schedules, by symbol; then every step's, and the last row's
  llvm::SmallVector<mlir::Value> schedules;
  llvm::DenseMap<size_t, mlir::Value> byTokens; ///< schedules of segments, lengths in tokens
  llvm::MapVector<size_t, size_t> members;      ///< of a schedule of segments, that of their rows
  /// A segmentation. Of another scale than the tokens, the schedule of its counts, and which
  /// segmentation cut that scale.
  struct Cut {
    mlir::FlatSymbolRefAttr axis;
    ScheduleOp counted;
    std::optional<size_t> outer;
  };
  llvm::SmallVector<Cut> cuts;                        ///< whose counts are @prefill's last results
  llvm::DenseMap<mlir::Operation *, int64_t> factors; ///< the greatest of what a schedule makes due
  llvm::DenseMap<mlir::Attribute, mlir::Value> clocks; ///< segments that a prompt closes, by axis
  mlir::Value doneNow;
  llvm::SmallVector<int64_t> bursts;
  llvm::SmallVector<std::pair<StateOp, ScheduleOp>> commits; ///< of @prefill's results
  llvm::SmallVector<std::string> givenStates; ///< of @step's arguments behind the tokens
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Kept>> apart; ///< of states in two places
};

mlir::Value constant(mlir::ImplicitLocOpBuilder &b, int64_t value);
/// N(t), rows that steps up to t have computed: 0 before the first.
mlir::Value emitRowCount(mlir::ImplicitLocOpBuilder &b, ScheduleOp schedule, mlir::Value t);
/// A row of three numbers.
mlir::Value packRow(RowsBuilder &rows, mlir::Value start, mlir::Value count, mlir::Value length);

} // namespace sluice
