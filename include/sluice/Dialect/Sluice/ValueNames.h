// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names by which a check follows values through passes. Discardable: compiled code must not depend
// on them, and they exist only with --verify-each-causality.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace sluice {

/// Returns the value's name; empty without one. Block arguments have none.
llvm::StringRef getDisplayName(mlir::Value value);
/// Names an op's result; an empty name does not remove a name.
void setName(mlir::Value result, llvm::StringRef name);

/// Returns the name of the value that this is (a contribution to) the gradient of; empty if
/// unknown.
llvm::StringRef getGradientName(mlir::Value value);
/// Marks a value as the gradient of `of`, unless it has a mark: a gradient that is passed on
/// unchanged retains its own.
void markGradient(mlir::Value gradient, mlir::Value of);

/// Removes every name from `root` and its ops.
void eraseNames(mlir::Operation *root);

} // namespace sluice
