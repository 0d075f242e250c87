// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Token ids that come as often as in text, for benchmarks: how long a scatter of embeddings takes
// depends on how many rows have the same token.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::runtime {

/// Fills `tokens` with ids below `vocabulary` (at least 1), each drawn alone, the same in every
/// run. Of 256 the ids are bytes, as often as in an English dictionary: the space is 24% of them.
/// Of any other vocabulary id i has a share of 1 / (i + 1), as words have by Zipf's law.
void fillTextLike(std::span<int32_t> tokens, int64_t vocabulary);

} // namespace sluice::runtime
