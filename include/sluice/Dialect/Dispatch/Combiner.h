// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Combiners: regions that make one number of two, of that so far and a later row's. Model IR and
// dispatches have them alike.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch {

using YieldBuilder = llvm::function_ref<void(mlir::OpBuilder &, mlir::Location, mlir::Value)>;

/// Fills an empty region with the combiner of a kind, for numbers of `element`.
void buildCombiner(mlir::OpBuilder &b, mlir::Location loc, mlir::Region &combiner, ReduceKind kind,
                   mlir::Type element, YieldBuilder yield);
/// The neutral element of that combiner: zero, or the least number.
mlir::TypedAttr getIdentityValue(ReduceKind kind, mlir::Type element);

/// The kind whose very ops a combiner has; none of any other.
std::optional<ReduceKind> getReduceKind(mlir::Region &combiner);
/// Returns true if a combiner is the greatest number: the combiner of the kind, or
/// `arith.maximumf`.
bool isMaximum(mlir::Region &combiner);
/// Its operations: 1 where it has a kind.
int64_t countOperations(mlir::Region &combiner);

/// Returns the reason why a combiner of numbers of `element`, or its identity, is unfit: "expected
/// ..., found
/// ..."; empty where nothing does.
std::string findFault(mlir::Region &combiner, mlir::Type element, mlir::TypedAttr identity);

} // namespace sluice::dispatch
