// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fourier-Motzkin elimination.
#pragma once

#include "sluice/Proof/Segments.h"

namespace sluice::segments {

/// Reduces rows to a contradiction by Fourier-Motzkin elimination with integer rounding: adds
/// positive integer multiples of rows, and divides a row by the common divisor of its coefficients.
/// Sound but incomplete. Appends the rows that the contradiction needs to `rows`, in order, with
/// their steps in `steps`; the last one is the contradiction.
bool refute(std::vector<Linear> &rows, std::vector<RefutationStep> &steps);

} // namespace sluice::segments
