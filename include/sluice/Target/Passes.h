// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "mlir/Pass/Pass.h"

namespace sluice {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "sluice/Target/Passes.h.inc"

} // namespace sluice
