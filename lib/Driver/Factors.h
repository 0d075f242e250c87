// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models whose training steps draw their factor: one artifact with the entries of each.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Driver/Driver.h"

namespace sluice::driver {

/// Returns why a request for a model's factors is impossible; empty if it is possible.
std::string findFactorMistake(const ParsedSpec &spec, const CompileRequest &request);

/// The variants to compile, that of generation first: of a replay, and of logits, it alone.
std::vector<ImportedVariant> importVariants(const ParsedSpec &spec, const CompileRequest &request);

/// Adds to `merged`, the module of dispatches of the first variant, the entries of the other
/// variants that depend on the factor, named NAME.FACTOR. Fails where weights or tables of one name
/// differ.
mlir::LogicalResult mergeVariants(mlir::ModuleOp merged, std::vector<ImportedVariant> &variants);

} // namespace sluice::driver
