// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reduces the memory of a training step: forward dispatches run again where the backward pass reads
// their results, which then are not stored.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

struct RecomputeRequest {
  int64_t budgetBytes = 0; ///< maximum size of the whole arena, as planMemory lays it out
  int64_t workspaceBytes = 0, counterBytes = 0; ///< arguments of planMemory
  /// Returns the operations of a dispatch, which the search minimizes.
  llvm::function_ref<double(mlir::Operation *)> countDispatchOperations;
};

struct Recomputation {
  int64_t fullBytes = 0;  ///< size of the arena without copies
  int64_t arenaBytes = 0; ///< size with copies; if it exceeds the budget, the minimum that was
                          ///< found (the module is then unchanged)
  double operations = 0;  ///< operations of the copies, with the main factor
  int64_t launches = 0;   ///< number of copies, with the main factor
  std::vector<std::pair<mlir::Operation *, mlir::Operation *>> copies; ///< each copy with its
                                                                       ///< original
};

/// Rewrites @gradient of `module` (dispatches, after sluice-build-entries), and of each factor that
/// steps draw, such that the arena takes at most the budget, with few additional operations. A
/// dispatch is repeated at most once, so a step at most repeats its forward operations. A copy is
/// the same dispatch: it has the same kernel, draws the same random numbers and gives the same
/// bits. Fails with a diagnostic if memory cannot be planned.
mlir::FailureOr<Recomputation> recompute(mlir::ModuleOp module, const RecomputeRequest &request);

} // namespace sluice
