// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model IR as a PyTorch program.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>

namespace sluice {

/// Returns a Python file with the class `Model`, a torch.nn.Module. `forward` has the ops of
/// @predict, which must return the logits of every row, and `losses` the ops of @evaluate; ops that
/// both have are printed once. A module without @predict has no `forward`. Fails with a message
/// that names the op for an op, or a scalar op of a region, that has no printer.
llvm::Expected<std::string> printPyTorch(mlir::ModuleOp module);

} // namespace sluice
