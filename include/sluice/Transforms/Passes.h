// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from the model dialect to the plan.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sluice {

#define GEN_PASS_DECL
#include "sluice/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "sluice/Transforms/Passes.h.inc"

} // namespace sluice
