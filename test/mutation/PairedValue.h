// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integers of at most 64 bits without and with an injected fault.
#pragma once

#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Intrinsics.h"

namespace sluice::mutation {

/// A value without the fault and with it. An unknown value may be equal in both or differ.
struct Both {
  bool known = false, same = false;
  uint64_t before = 0, after = 0;

  static Both constant(uint64_t value) { return {true, true, value, value}; }
  static Both of(uint64_t before, uint64_t after) { return {true, before == after, before, after}; }
  static Both unknown(bool same) { return {false, same, 0, 0}; }
  bool is(uint64_t value) const { return known && before == value && after == value; }
};

/// Operations on numbers of `width` bits; unknown if an operand is, or if the width is 0 or over
/// 64.
Both binary(llvm::Instruction::BinaryOps op, unsigned width, Both a, Both b);
Both compare(llvm::CmpInst::Predicate predicate, unsigned width, Both a, Both b);
/// For the intrinsics smin, smax, umin and umax; unknown for others.
Both clamp(llvm::Intrinsic::ID id, unsigned width, Both a, Both b);

} // namespace sluice::mutation
