// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models whose training steps draw their factor: one artifact with the entries of each factor.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Driver/Driver.h"

namespace sluice::driver {

/// Returns the reason that a request is impossible with a model's factors; empty if it is possible.
std::string findFactorMistake(const ParsedSpec &spec, const CompileRequest &request);

/// Returns the variants to compile, the variant of generation first; only that variant for a replay
/// or for logits.
std::vector<ImportedVariant> importVariants(const ParsedSpec &spec, const CompileRequest &request);

/// Merges the dispatches of all variants into one module: all entries of the first variant, and the
/// entries of each other variant that depend on the factor, named NAME.FACTOR, or that train on
/// batches of another shape, named NAME.SHAPE. Fails if weights or
/// tables of one name differ.
mlir::LogicalResult mergeVariants(mlir::ModuleOp merged, std::vector<ImportedVariant> &variants);

} // namespace sluice::driver
