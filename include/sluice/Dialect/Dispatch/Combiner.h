// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Combiners: regions that combine the number so far with the number of a later row. Model IR and
// dispatches share them.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch {

using YieldBuilder = llvm::function_ref<void(mlir::OpBuilder &, mlir::Location, mlir::Value)>;

/// Fills an empty region with the combiner of a kind, for numbers of `element`.
void buildCombiner(mlir::OpBuilder &b, mlir::Location loc, mlir::Region &combiner, ReduceKind kind,
                   mlir::Type element, YieldBuilder yield);
/// Returns the neutral element of that combiner: zero, or the minimum of the type.
mlir::TypedAttr getIdentityValue(ReduceKind kind, mlir::Type element);

/// Returns the kind whose ops a combiner has; std::nullopt for any other combiner.
std::optional<ReduceKind> getReduceKind(mlir::Region &combiner);
/// Returns true if a combiner is the maximum: the combiner of the kind, or `arith.maximumf`.
bool isMaximum(mlir::Region &combiner);
/// Returns the number of operations of a combiner: 1 if it has a kind.
int64_t countOperations(mlir::Region &combiner);

/// Returns the reason why a combiner of numbers of `element`, or its identity, is invalid:
/// "expected ..., found ..."; empty if it is valid.
std::string findFault(mlir::Region &combiner, mlir::Type element, mlir::TypedAttr identity);

} // namespace sluice::dispatch
