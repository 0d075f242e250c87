// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of rows that wait for boundaries: their clock is the number of segments that are closed.
// An axis may cut tokens, groups of them, or segments again; then its clock moves only where the
// clock of the scale that it cuts moves.
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

  /// The segmentation that makes the rows of a value's axis; null on an axis of tokens.
  SegmentOp findSegmentOp(mlir::Value value) const;
  /// The bound of rows of segments of `cut`, in segments that are closed: a row that needs no token
  /// comes with its own segment. None where the bound is of another kind.
  std::optional<Frontier> inSegments(mlir::Value value, SegmentOp cut) const;
  /// Sets how a read of `value`, a result of `op`, crosses between a scale and its segments; the
  /// message where no step follows it.
  std::string cross(mlir::Operation &op, mlir::Value value, llvm::ArrayRef<SegmentTerm> terms,
                    StepRead &read) const;
  /// True if each row of segments reads only the row that closes it, which the same step computes.
  bool isSelection(const StepPlan &plan, const StepRead &read, const StepSchedule &reader) const;
  /// Checks that clocks are known when rows are due by them, and that rows read between ends exist.
  /// Sets `refusal` where that fails.
  bool check(const StepPlan &plan, StepRefusal &refusal) const;

private:
  std::string findFault(const StepPlan &plan, const StepValue &value) const;
  std::string findFault(const StepPlan &plan, const StepValue &value, const StepRead &read) const;

  llvm::SmallVector<SegmentOp> cuts;
  const Scales &scales;
  const llvm::DenseMap<mlir::Value, Frontier> &frontiers;
};

} // namespace sluice
