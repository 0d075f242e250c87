// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that the theorem of causality covers.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>
#include <string>

namespace sluice {

/// An op that the theorem does not speak of, as it could hide a read, and what to do about it.
struct BeyondTheorem {
  mlir::Operation *op;
  std::string message;
};
/// To be asked before anything else: frontiers and walks are defined where there is no answer.
std::optional<BeyondTheorem> findBeyondTheorem(mlir::func::FuncOp function);

} // namespace sluice
