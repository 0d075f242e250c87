// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that training and generation predict the token that evaluation scores.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

/// Rejects a module in which one head is trained against another token than it is evaluated
/// against.
bool trainsWhatIsEvaluated(mlir::ModuleOp module, CausalVerdict &verdict);
/// Proves generation by the proof of @evaluate; rejects a module where it samples anything else.
bool provesGeneration(mlir::ModuleOp module, CausalVerdict &verdict);

} // namespace sluice
