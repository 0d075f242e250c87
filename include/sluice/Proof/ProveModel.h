// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Proves modes of a module: computes bounds, then decides every obligation.
#pragma once

#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Obligations.h"

namespace sluice {

/// The first row whose frontier is later than the row itself.
struct BoundViolation {
  CrossEntropyOp loss;
  mlir::Operation *unbounded = nullptr;
  bool decided = true;
  int64_t row = 0;
  int64_t token = 0; ///< the frontier there
};

/// Returns the first violation among the bounds of a function's losses.
std::optional<BoundViolation> findViolation(mlir::func::FuncOp function,
                                            const llvm::DenseMap<mlir::Value, Frontier> &frontiers);
/// Returns true if the bounds of a function show that it is causal. Searches for no witness.
bool isCausal(mlir::func::FuncOp function);

/// The first obligation of a mode that was not decided to hold.
struct OpenObligation {
  const Obligation *obligation;
  Decision decision;
};
/// Decides the obligations of a mode in their order, up to the first one that does not hold, and
/// adds the number of those that hold to `held`. Obligations are undecided once the current
/// WorkBudget is exhausted. Bounds are found by composition and obligations are decided without it,
/// so each step of a proof is checked twice.
std::optional<OpenObligation> findOpenObligation(const ModeProof &proof, ObligationDecider &decider,
                                                 int64_t &held);

} // namespace sluice
