// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Valid specs that this compiler does not take, and what a plan must not exceed. A user hears of
// either before anything is compiled.
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Target/Artifact.h"

namespace sluice::driver {

/// One message, with its place, for a batch of more positions than kernels count; none where it has
/// fewer. To be called before the import, which lists the rows of a rule's table one by one.
std::optional<spec::Diagnostic> findLargeBatch(const ParsedSpec &spec);

/// Why an op of a valid model cannot be compiled.
struct CompileRefusal {
  mlir::Operation *op = nullptr;
  llvm::StringRef key; ///< of the op's stage, whose value is at fault; empty: the stage
  std::string message;
};

/// The first op of @evaluate that cannot be compiled; none where all can. `period` is the least
/// common multiple of the factors of the variants before, 1 for the first, and becomes that of this
/// one too.
std::optional<CompileRefusal> findUnsupported(mlir::ModuleOp module, int64_t &period);

/// Returns the place of the rejected value in the spec that the op was imported from. `factor` is
/// the factor of levels that draw one, or 0.
spec::SourceLocation getPlace(const CompileRefusal &refusal, const ParsedSpec &spec,
                              int64_t factor);

/// One message, with the place in the spec, for a kernel that needs more than the runtime takes
/// (sluice/Runtime/Limits.h); empty where none does.
std::string findExcess(mlir::ModuleOp module, const KernelSet &kernels);

/// The same of the memory that all kernels share; there is no one place.
std::string findExcess(const MemoryPlan &memory);

} // namespace sluice::driver
