// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds valid specs that this compiler does not support, and plans that exceed a limit, before any
// code is generated.
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Target/Artifact.h"

namespace sluice::driver {

/// Returns a message with its location for a batch with more positions than kernels support; none
/// if it has fewer. Must be called before the import, which enumerates the rows of a rule's table.
std::optional<spec::Diagnostic> findLargeBatch(const ParsedSpec &spec);

/// The reason why an op of a valid model cannot be compiled.
struct CompileRefusal {
  mlir::Operation *op = nullptr;
  /// Key of the op's stage that sets the rejected value; empty for the stage itself.
  llvm::StringRef key;
  std::string message;
};

/// Returns the first op of @evaluate that cannot be compiled; none if all can. `period` is the
/// least common multiple of the factors of earlier variants, 1 for the first, and is updated.
std::optional<CompileRefusal> findUnsupported(mlir::ModuleOp module, int64_t &period);

/// Returns the place of the rejected value in the spec that the op was imported from. `factor` is
/// the factor of levels that draw one, or 0.
spec::SourceLocation getPlace(const CompileRefusal &refusal, const ParsedSpec &spec,
                              int64_t factor);

/// Returns a message with the place in the spec for a kernel that exceeds the runtime's limits
/// (sluice/Runtime/Limits.h); empty if none does.
std::string findExcess(mlir::ModuleOp module, const KernelSet &kernels);

/// Returns a message for the memory that all kernels share, which has no single place.
std::string findExcess(const MemoryPlan &memory);

} // namespace sluice::driver
