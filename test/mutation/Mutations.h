// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults planted in CUDA kernels, in the LLVM IR that ships.
#pragma once

#include "llvm/IR/Module.h"

#include <string>
#include <vector>

namespace sluice::mutation {

enum class Operator {
  RemoveBarrier, ///< of a block or a warp
  RemoveCommit,  ///< a group of copies is not ended
  WaitForLess,   ///< one group more stays pending; a wait for all is removed
  CopyWhole,     ///< the source of a copy is not cut at an edge
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

/// Every fault that can be planted in a module's functions, in order. Comparisons of floating-point
/// numbers, and selections by them alone, are no sites: they decide a number's value.
std::vector<Mutation> listMutations(llvm::Module &module);

/// Plants all `mutations`, of one function, at once: it takes one more argument, a number of 64
/// bits. With number i + 1 it has the i-th fault, with 0 none. The module is the one that they were
/// found in, or an equal one.
void plantAll(llvm::Module &module, llvm::ArrayRef<Mutation> mutations);

} // namespace sluice::mutation
