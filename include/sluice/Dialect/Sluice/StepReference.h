// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the derived decode step on the float64 reference, as the oracle of generation.
#pragma once

#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Dialect/Sluice/Step.h"

namespace sluice::reference {

/// Runs @step, the result of sluice-derive-step, token after token, for one batch row. Ops are
/// evaluated on the rows that are due, and access only states and this step's rows: an access to a
/// row that is not due yet, or that was overwritten, is a mistake.
class StepRunner {
public:
  explicit StepRunner(mlir::func::FuncOp step);

  void setParameter(llvm::StringRef symbol, std::vector<double> data) {
    evaluator.setParameter(symbol, std::move(data));
  }
  /// Sets the tokens of a named input, by its argument of @step, and their number.
  void setGiven(mlir::BlockArgument argument, std::vector<int32_t> data, int64_t count);
  /// Discards all tokens except the tokens of named inputs.
  void reset();
  /// Appends the first tokens of a sequence, at least one, all at once; returns the logits of the
  /// next token. Afterwards states contain rows up to N(tokens - 1), as if the tokens had been
  /// appended one by one.
  std::vector<double> prefill(llvm::ArrayRef<int32_t> prompt);
  /// Appends one token; returns the logits of the next token.
  std::vector<double> step(int32_t token);

  /// Returns the rows of `value`, of @step, that the last call computed: the first, and [rows,
  /// columns].
  std::pair<int64_t, std::vector<double>> getRows(mlir::Value value) const;
  /// Returns the stored values, in order.
  std::vector<mlir::Value> getValues() const;
  /// Returns the number of appended tokens.
  int64_t getLength() const { return static_cast<int64_t>(tokens.size()); }
  /// Returns a description of the first access that violated the step's obligations; empty without
  /// one.
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
  int64_t before = 0; ///< tokens appended before the last call
  bool hasParameters = false;
  std::string mistake;
};

} // namespace sluice::reference
