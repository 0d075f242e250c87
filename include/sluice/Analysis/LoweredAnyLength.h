// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the reads of two graphs at every length at once.
#pragma once

#include "sluice/Analysis/LoweredCausality.h"

namespace sluice {

/// Finds rows that `after` depends on and `before` does not, like findAddedRead, but for all
/// lengths at once. Returns nothing if no map or mask differs, or if none can be compared; adds the
/// number of undecided comparisons to `undecided`, if given.
std::optional<AddedRead> findAddedAtAnyLength(const ReadGraph &before, const ReadGraph &after,
                                              int64_t *undecided = nullptr);

} // namespace sluice
