// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The derived step on the float64 reference: the oracle of generation.
#pragma once

#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Dialect/Sluice/Step.h"

namespace sluice::reference {

/// Runs @step, which sluice-derive-step made, token after token, for one batch row. Ops are
/// evaluated on the rows that are due, and read states and this step's rows alone: the read of a
/// row that is not due yet, or that was overwritten, is a mistake.
class StepRunner {
public:
  explicit StepRunner(mlir::func::FuncOp step);

  void setParameter(llvm::StringRef symbol, std::vector<double> data) {
    evaluator.setParameter(symbol, std::move(data));
  }
  /// Tokens of a named input, by its argument of @step, and how many of them the text has.
  void setGiven(mlir::BlockArgument argument, std::vector<int32_t> data, int64_t count);
  /// Forgets all tokens, but for those of named inputs.
  void reset();
  /// Takes the first tokens of a sequence, at least one, all at once; what follows the last.
  /// States hold rows up to N(tokens - 1) after it, as if the tokens had come one by one.
  std::vector<double> prefill(llvm::ArrayRef<int32_t> prompt);
  /// Takes one more token; the logits of what follows.
  std::vector<double> step(int32_t token);

  /// Rows of `value`, of @step, that the last call computed: the first, and [rows, columns].
  std::pair<int64_t, std::vector<double>> getRows(mlir::Value value) const;
  /// Stored values, in order.
  std::vector<mlir::Value> getValues() const;
  /// Tokens taken so far.
  int64_t getLength() const { return static_cast<int64_t>(tokens.size()); }
  /// The first read that broke the step's promise, in words; empty where there was none.
  const std::string &getMistake() const { return mistake; }

private:
  struct Ring {
    int64_t rows = 0;
    std::vector<int64_t> rowOf;            ///< by slot; -1: none yet
    std::vector<std::vector<double>> data; ///< by slot
  };
  std::vector<double> run(bool isPrefill);
  void keep(KeepOp op, bool isPrefill);
  bool isGiven(mlir::Value value) const;
  bool passGiven(mlir::Operation *op);
  void store(KeepOp op);
  std::pair<int64_t, int64_t> getRowRange(mlir::Value value) const;
  int64_t closedNow(SegmentOp cut) const;
  void note(mlir::Value value, int64_t row, const std::string &what);

  mlir::func::FuncOp function;
  Evaluator<double> evaluator;
  llvm::DenseMap<mlir::Value, ScheduleOp> schedules;
  llvm::DenseMap<mlir::Attribute, SegmentOp> cuts;   ///< by axis
  llvm::DenseMap<mlir::Operation *, int64_t> closed; ///< segments, before the last call
  llvm::StringMap<Ring> rings;
  std::vector<int32_t> tokens;
  int64_t before = 0; ///< tokens taken before the last call
  bool hasParameters = false;
  std::string mistake;
};

} // namespace sluice::reference
