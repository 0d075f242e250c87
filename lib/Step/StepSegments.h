// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps of rows that wait for boundaries: their clock is the number of closed segments. An axis may
// cut tokens, groups of tokens, or segments again; then its clock moves only when the clock of the
// scale that it cuts moves.
#pragma once

#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/SegmentProof.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Step/DeriveStep.h"

namespace sluice {

class SegmentClocks {
public:
  SegmentClocks(mlir::func::FuncOp function, const Scales &scales,
                const llvm::DenseMap<mlir::Value, Frontier> &frontiers)
      : cuts(function.getOps<SegmentOp>()), scales(scales), frontiers(frontiers) {}

  /// Returns the segmentation that defines the axis of a value; null on an axis of tokens.
  SegmentOp findSegmentOp(mlir::Value value) const;
  /// Returns the bound of rows on segments of `cut` as a number of closed segments: a row that
  /// needs no token is computed with its own segment. Returns none if the bound has another form.
  std::optional<Frontier> inSegments(mlir::Value value, SegmentOp cut) const;
  /// Sets how a read of `value`, a result of `op`, crosses between a scale and its segments.
  /// Returns a message if no step can follow the read, else an empty string.
  std::string cross(mlir::Operation &op, mlir::Value value, llvm::ArrayRef<SegmentTerm> terms,
                    StepRead &read) const;
  /// Returns true if each row of segments reads only the row that closes it, which the same step
  /// computes.
  bool isSelection(const StepPlan &plan, const StepRead &read, const StepSchedule &reader) const;
  /// Checks that clocks are known when rows are due by them, and that rows read between ends exist.
  /// Sets `refusal` if a check fails.
  bool check(const StepPlan &plan, StepRefusal &refusal) const;

private:
  std::string findFault(const StepPlan &plan, const StepValue &value) const;
  std::string findFault(const StepPlan &plan, const StepValue &value, const StepRead &read) const;

  llvm::SmallVector<SegmentOp> cuts;
  const Scales &scales;
  const llvm::DenseMap<mlir::Value, Frontier> &frontiers;
};

} // namespace sluice
