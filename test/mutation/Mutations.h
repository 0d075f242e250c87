// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults injected into the shipped LLVM IR of CUDA kernels.
#pragma once

#include "llvm/IR/Module.h"

#include <string>
#include <vector>

namespace sluice::mutation {

enum class Operator {
  RemoveBarrier, ///< of a block or a warp
  RemoveCommit,  ///< a group of copies is not committed
  WaitForLess,   ///< one group more stays pending; a wait for all is removed
  CopyWhole,     ///< the source of a copy is not clamped at an edge
  CopyNothing,
  ShiftBound,     ///< a comparison: < becomes <=, and so on; a constant one less or one more
  ForceCondition, ///< a select, or one side of a conjunction or disjunction: always, never
  RemoveClamp,    ///< of min and max
  ShiftStage,     ///< a constant of a loop-carried index's step, remainder or mask, one off
  RemoveFence,
  ShiftArrival ///< an atomic that counts up to a constant: one less, one more
};
llvm::StringRef name(Operator op);

/// A fault: an operator at an instruction, in one of its variants.
struct Mutation {
  Operator op = Operator::RemoveBarrier;
  std::string function;
  unsigned instruction = 0; ///< number within the function
  unsigned variant = 0;
  std::string text; ///< the instruction before
};

/// Every fault of a module's functions, in order. Comparisons of floating-point numbers, and
/// selections by them alone, are no sites: they select a number's value.
std::vector<Mutation> listMutations(llvm::Module &module);

/// Injects all `mutations` of one function at once: it takes one more argument, a number of 64
/// bits. Number i + 1 selects the i-th fault, 0 none. The module must be the one that `mutations`
/// were found in, or an equal one.
void injectAll(llvm::Module &module, llvm::ArrayRef<Mutation> mutations);

} // namespace sluice::mutation
