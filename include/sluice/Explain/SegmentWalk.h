// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for a leak under all boundaries of short sequences.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Proof/Scales.h"

namespace sluice {

/// Searches a function with segments for a leak: walks every read at each short length, under all
/// boundaries. Sets `boundaries` to the boundaries that show the leak, and `longest` to the last
/// length that was walked. Skips leaks that `accepts` rejects.
std::optional<FoundLeak> findSegmentLeak(mlir::func::FuncOp function, Boundaries &boundaries,
                                         int64_t &longest,
                                         llvm::function_ref<bool(FoundLeak &)> accepts = {});
/// Returns the op on the path of a leak through segments whose row is the first to hold a later
/// token.
mlir::Operation *opOfLateRead(const Scales &scales, const FoundLeak &leak);

} // namespace sluice
