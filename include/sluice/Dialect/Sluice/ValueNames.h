// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names by which a check follows values through passes. Discardable: nothing that is compiled may
// depend on them, and they stand only while --verify-each-causality asks for them.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace sluice {

/// The value's name; empty where it has none. Block arguments have none.
llvm::StringRef getDisplayName(mlir::Value value);
/// Names an op's result; an empty name takes none away.
void setName(mlir::Value result, llvm::StringRef name);

/// Name of the value that this is (a contribution to) the gradient of; empty where not known.
llvm::StringRef getGradientName(mlir::Value value);
/// Says so, unless it was said before: a gradient that is passed on unchanged stays what it was.
void markGradient(mlir::Value gradient, mlir::Value of);

/// Takes every name off `root` and the ops in it.
void eraseNames(mlir::Operation *root);

} // namespace sluice
