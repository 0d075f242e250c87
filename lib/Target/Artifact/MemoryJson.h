// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Transforms/MemoryPlan.h"
#include "llvm/Support/JSON.h"

namespace sluice {

/// Returns the plan's "memory" (docs/plan-and-artifact.md).
llvm::json::Object memoryToJson(const MemoryPlan &memory);

/// Returns the places of the gradients and, if an update has several batches, of their sums.
/// `buckets` are byte offsets in the gradients.
llvm::json::Object gradientsToJson(const MemoryPlan &memory, llvm::ArrayRef<int64_t> buckets);

} // namespace sluice
