// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Target/Artifact.h"
#include "llvm/Support/JSON.h"

namespace sluice {

/// Returns an element of the plan's "kernels" (docs/plan-and-artifact.md).
llvm::json::Object kernelToJson(const KernelRecord &record);

} // namespace sluice
