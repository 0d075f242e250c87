// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from specs to the model dialect.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace sluice {

#define GEN_PASS_DECL
#include "sluice/Conversion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "sluice/Conversion/Passes.h.inc"

} // namespace sluice
