// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks a graph by walking its reads.
#pragma once

#include "Graph.h"

namespace certify {

/// Walks every read at every length up to twice the product of the factors plus the largest shift
/// or window. Throws Refusal where a row reads its target, changes as the sequence grows, or needs
/// a token beyond its bound, if bounds are given; BadInput where that would take more than some
/// seconds, or has segments. Returns the longest length.
int64_t enumerate(const ModelGraph &graph, const std::vector<Bound> &bounds);

} // namespace certify
