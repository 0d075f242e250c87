// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels on an axis of segments, where each text has its own number of rows: on any target.
#pragma once

#include "SegmentCases.h"

namespace sluice::test {

/// Row passes, contractions, attention and scans: a text's rows are bitwise equal to the rows of a
/// launch in which all texts have that length. Sums over rows treat invalid rows as zeros. After a
/// text's rows operands hold NaN, and no result is written. Factors of products are of `element`.
void checkOwnLengths(const SegmentMake &make, const std::string &element);

} // namespace sluice::test
