// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared parts of advice: their budget, and the shifts of a model, which may be lowered.
#pragma once

#include "Revision.h"
#include "sluice/Explain/Advice.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/ProveModel.h"
#include "sluice/Support/WorkBudget.h"

namespace sluice::advice {

/// The operations for the advice about one module; all work in the lifetime of the clock is charged
/// to them.
class AdviceBudget {
public:
  explicit AdviceBudget(int64_t operations) : budget(operations), scope(budget) {}
  bool isOver() const { return budget.isExhausted(); }
  /// Describes the budget: "200 million operations".
  std::string describe() const { return WorkBudget::describe(budget.getLimit()); }

private:
  WorkBudget budget;
  WorkScope scope;
};

/// "3 tokens"
std::string count(int64_t n, const std::string &what);
/// Adds a note that the operations were spent before all of `what` was done.
void noteUnfinished(mlir::Operation *place, const AdviceBudget &clock, const std::string &what,
                    CausalVerdict &verdict);
/// Returns the ops on paths to a loss.
llvm::DenseSet<mlir::Operation *> liveOps(mlir::func::FuncOp function);

/// The shifts that one key of the spec sets: of one stage, or of every level of an hourglass, in
/// each mode that is trained or evaluated.
struct ShiftKey {
  llvm::SmallVector<ShiftOp, 2> ops;
  llvm::SmallVector<int64_t, 2> by; ///< of each
  int64_t least = 0;
  size_t levels = 0; ///< that it sets in one mode

  void set(int64_t value) {
    for (ShiftOp op : ops) {
      op.setBy(static_cast<uint64_t>(value));
    }
  }
  void restore() {
    for (auto [op, value] : llvm::zip_equal(ops, by)) {
      op.setBy(static_cast<uint64_t>(value));
    }
  }
  /// Levels that shift by different values are each shifted as they need; one value for all would
  /// be no advice.
  bool isOneValue() const { return llvm::all_equal(by) && by.front() >= 0; }
};

/// The shifts of a module's modes, and checks of the module with other values.
class Shifts {
public:
  explicit Shifts(mlir::ModuleOp module);
  /// Lowers one key after the other, the last in the model first, as far as the model stays causal.
  /// Returns how many were tried in the time.
  size_t lower(const AdviceBudget &clock);
  void restore() {
    for (ShiftKey &key : keys) {
      key.restore();
    }
  }
  /// Leaves the keys lowered that, alone and with all others that are, leave a model that is proved
  /// as a whole. Returns how many were judged in the time; the others are not lowered.
  size_t confirm(mlir::ModuleOp module, const ParsedSpec *spec, const AdviceBudget &clock);

  std::vector<ShiftKey> keys; ///< in the order of the model

private:
  bool isCausal() {
    return llvm::all_of(modes, [](mlir::func::FuncOp mode) { return sluice::isCausal(mode); });
  }
  llvm::SmallVector<mlir::func::FuncOp, 2> modes;
};

/// Leaves needless shifts lowered; returns whether there are any.
bool lowerShifts(Shifts &shifts, mlir::ModuleOp module, const AdviceRequest &request,
                 const AdviceBudget &clock, CausalVerdict &verdict);

} // namespace sluice::advice
