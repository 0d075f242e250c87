// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The theorem by brute force, at all small lengths: nothing is bounded, composed or eliminated.
#pragma once

#include "Bound.h"
#include "Graph.h"

namespace certify {

/// Walks every read at every length up to twice the product of the factors plus the largest shift
/// or window. Throws Refusal where a row reads its target, changes as the sequence grows, or needs
/// a token beyond its bound; BadInput where that would take more than some seconds. Returns the
/// longest length.
int64_t enumerate(const Graph &graph, const std::vector<Bound> &bounds);

} // namespace certify
