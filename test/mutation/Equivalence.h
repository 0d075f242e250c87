// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides if an injected fault is equivalent to the original. A kernel is specialized to one shape:
// its index arithmetic is a function of few small numbers, which can be enumerated.
#pragma once

#include "Mutations.h"

#include <cstdint>

namespace sluice::mutation {

/// Inputs of index arithmetic.
struct Space {
  int64_t blocks = 1, threads = 1;
  unsigned scalars = 0; ///< number of the argument that is the offset of `length`; then `rows`
  int64_t lengths = 1, rows = 1; ///< they are 1 to this
};

/// Proves that the fault changes nothing that can be observed: evaluates the instruction and all
/// that depends on it, with the fault and without, for every block, thread, `length` and `rows`,
/// iteration of loops that end after a constant number of them, and value of the lowest bits of
/// loaded numbers of which no others are used, and finds every branch, store, load, copy and call
/// with the same operands. Anything else (other loaded numbers, other loops) is unknown, and a
/// difference that it could hide or not counts as one. Of an asynchronous copy that reads nothing
/// the source is no operand; an instruction counts only where the branches that lead to it go its
/// way. The end of a group of copies is no fault where no wait follows.
bool isProvablyNoFault(llvm::Module &module, const Mutation &mutation, const Space &space);

} // namespace sluice::mutation
