// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Less memory for a training step: forward dispatches that run again where the backward pass reads
// their results, instead of results that are kept.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

/// On a dispatch that repeats another of its function. It also keeps cse from merging the two,
/// which would undo the saving and is otherwise right.
constexpr llvm::StringLiteral recomputedName = "plan.recomputed";

struct RecomputeRequest {
  int64_t budgetBytes = 0;                      ///< for the whole arena, as planMemory lays it out
  int64_t workspaceBytes = 0, counterBytes = 0; ///< as planMemory takes them
  /// Operations of a dispatch: what is to be added least of.
  llvm::function_ref<double(mlir::Operation *)> operationsOf;
};

struct Recomputation {
  int64_t fullBytes = 0;  ///< of the arena without copies
  int64_t arenaBytes = 0; ///< with them; where it is above the budget, the least that was reached,
                          ///< and the module is as it was
  double operations = 0;  ///< of the copies, with the main factor
  int64_t launches = 0;   ///< copies, with the main factor
  std::vector<std::pair<mlir::Operation *, mlir::Operation *>> copies; ///< each with its original
};

/// Makes @gradient of `module` (dispatches, after sluice-build-entries), with each factor that
/// steps draw, need an arena of at most the budget, with few operations more. A dispatch is
/// repeated at most once, so a step never has more than its forward operations again. A copy is the
/// same dispatch, so it has the same kernel, draws the same random numbers and gives the same bits.
/// Fails, with a diagnostic, where memory cannot be planned.
mlir::FailureOr<Recomputation> recompute(mlir::ModuleOp module, const RecomputeRequest &request);

} // namespace sluice
