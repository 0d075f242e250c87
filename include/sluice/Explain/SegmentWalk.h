// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Search for a leak under all boundaries of short sequences.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Proof/Scales.h"

namespace sluice {

/// The same at the first short lengths, of a function with segments: every read is walked, for all
/// bits. `boundaries` are those that show it. The longest length that was walked is returned in
/// `longest`. Leaks that are not accepted are passed over.
std::optional<FoundLeak> findSegmentLeak(mlir::func::FuncOp function, Boundaries &boundaries,
                                         int64_t &longest,
                                         llvm::function_ref<bool(FoundLeak &)> accepts = {});
/// Of a leak through segments, the op whose row first holds a token that comes after it.
mlir::Operation *opOfLateRead(const Scales &scales, const FoundLeak &leak);

} // namespace sluice
