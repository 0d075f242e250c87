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

/// The budget of operations for the advice about one module. All work during the lifetime of the
/// object is charged to it.
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

/// Formats a number with its unit: "3 tokens".
std::string count(int64_t n, const std::string &what);
/// Adds a note that the budget was exhausted before all of `what` was done.
void noteUnfinished(mlir::Operation *place, const AdviceBudget &clock, const std::string &what,
                    CausalVerdict &verdict);
/// Returns the ops on paths to a loss.
llvm::DenseSet<mlir::Operation *> liveOps(mlir::func::FuncOp function);

/// The shifts that one key of the spec sets: the shift of one stage, or the shifts of every level
/// of an hourglass, in each mode that is trained or evaluated.
struct ShiftKey {
  llvm::SmallVector<ShiftOp, 2> ops;
  llvm::SmallVector<int64_t, 2> by; ///< value of each shift
  int64_t least = 0;
  size_t levels = 0; ///< number of shifts that the key sets in one mode

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
  /// Returns true if all levels have one value; different values are computed for each level, so
  /// one value for all levels would be no improvement.
  bool isOneValue() const { return llvm::all_equal(by) && by.front() >= 0; }
};

/// The shifts of a module's modes, and checks of the module with other values.
class Shifts {
public:
  explicit Shifts(mlir::ModuleOp module);
  /// Lowers one key at a time, from the last in the model to the first, as far as the model stays
  /// causal. Returns the number of keys that were tried within the budget.
  size_t lower(const AdviceBudget &clock);
  void restore() {
    for (ShiftKey &key : keys) {
      key.restore();
    }
  }
  /// Keeps a key lowered if the model is proved as a whole both with this key alone and with all
  /// lowered keys. Returns the number of keys that were checked within the budget; the others are
  /// restored.
  size_t confirm(mlir::ModuleOp module, const ParsedSpec *spec, const AdviceBudget &clock);

  std::vector<ShiftKey> keys; ///< in the order of the model

private:
  bool isCausal() {
    return llvm::all_of(modes, [](mlir::func::FuncOp mode) { return sluice::isCausal(mode); });
  }
  llvm::SmallVector<mlir::func::FuncOp, 2> modes;
};

/// Lowers unnecessary shifts; returns true if there are any.
bool lowerShifts(Shifts &shifts, mlir::ModuleOp module, const AdviceRequest &request,
                 const AdviceBudget &clock, CausalVerdict &verdict);

} // namespace sluice::advice
