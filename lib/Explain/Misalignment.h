// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that training and generation predict the token that evaluation scores.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

/// Rejects a module in which one head is trained against a token other than the one that evaluation
/// scores.
bool trainsWhatIsEvaluated(mlir::ModuleOp module, CausalVerdict &verdict);
/// Proves generation from the proof of @evaluate; rejects a module in which generation samples any
/// other prediction.
bool provesGeneration(mlir::ModuleOp module, CausalVerdict &verdict);

} // namespace sluice
