// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts an expanded spec to the model dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "sluice/Dialect/Spec/Spec.h"

namespace sluice {

/// Builds the module of a model with weights: scales, parameters in the order of the weights, and
/// the functions `@evaluate` (tokens -> the loss of each position against the next token) and
/// `@predict` (tokens -> logits of the last position). If training computes something else, with
/// dropout for example, there is also `@train`. Each op has the location of its stage. Loads the
/// dialects that it uses. Reports an error and returns null if a stage is composite.
///
/// Query, key and value weights become one parameter (for attention over another stream, key and
/// value weights do) `PATH.attention.qkv.weight` [(H + 2 Hkv) D, d], with the three saved names
/// (and `.bias` likewise); each other parameter has its name in files. Tables of angles and of
/// sinusoidal positions are frozen parameters.
mlir::OwningOpRef<mlir::ModuleOp> convertSpecToSluice(spec::ModelOp model);

} // namespace sluice
