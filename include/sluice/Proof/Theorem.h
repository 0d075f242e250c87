// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that the theorem of causality covers a function's ops.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>
#include <string>

namespace sluice {

/// An op that the theorem does not cover, because it could hide a read; and a remedy.
struct BeyondTheorem {
  mlir::Operation *op;
  std::string message;
};
/// Returns the first such op. Frontiers and walks are defined only if there is none, so call it
/// first.
std::optional<BeyondTheorem> findBeyondTheorem(mlir::func::FuncOp function);

} // namespace sluice
