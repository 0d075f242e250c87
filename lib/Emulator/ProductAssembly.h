// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inline assembly of wgmma, with sums that pass through it as tied operands.
#pragma once

#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instructions.h"

#include <optional>
#include <string>

namespace sluice::emulator {

/// Replaces each run of white space by one blank.
std::string foldSpace(llvm::StringRef assembly);

struct ProductAssembly {
  enum Kind { Fence, Multiply, Wait } kind = Fence;
  unsigned sums = 0;    ///< number of the first operands, which are the results too
  uint64_t pending = 0; ///< groups that a wait leaves in flight
  bool aLinesAreInner = false, bLinesAreInner = false;
};

/// Returns none for assembly of another form. White space must be folded.
std::optional<ProductAssembly> parseProductAssembly(const llvm::CallBase &call,
                                                    llvm::StringRef folded);

/// Returns an instruction that uses a result of the product `call` before a wait for all groups, or
/// null. Products may still be writing the registers of these results.
const llvm::Instruction *findEarlyUse(const llvm::CallBase &call);

} // namespace sluice::emulator
