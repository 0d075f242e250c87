// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts a spec to the model dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "sluice/Conversion/ParseSpec.h"

namespace sluice {

/// Builds the module of a spec: scales, parameters in spec order, and the functions `@evaluate`
/// (tokens -> the loss of each position against the next token) and `@predict` (tokens -> logits of
/// the last position). If the spec has dropout, there is also `@train`, which is `@evaluate` with
/// dropout. Every op's location is its stage in the spec.
///
/// Query, key and value weights become one parameter (for attention over another stream, key and
/// value weights do) `PREFIX.attention.qkv.weight` [(H + 2 Hkv) D, d], with the three saved names
/// (and `.bias` likewise); every other parameter has its name in files. Tables of angles and of
/// sinusoidal positions are frozen parameters. Loads the dialects it uses. Levels that draw a
/// factor have the smallest one.
mlir::OwningOpRef<mlir::ModuleOp> importSpec(const ParsedSpec &spec);

/// Converts a module with one spec at one factor, which is not changed. Returns null if a pass
/// reports an error.
mlir::OwningOpRef<mlir::ModuleOp> importSpec(mlir::ModuleOp specs);

/// A model at one of the factors that its steps draw from; factor 0 if they draw none. `shape` is
/// the number of its batch shape; 0 has the capacities of the spec.
struct ImportedVariant {
  int64_t factor = 0;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t shape = 0;
};

/// Imports a spec at each of its factors, in increasing order, or at its only one.
std::vector<ImportedVariant> importVariants(const ParsedSpec &spec);

} // namespace sluice
