// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The distance between two words, for "did you mean".
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

/// Returns the number of insertions, deletions, replacements and swaps of neighbors that turn `a`
/// into `b`. Words of more than 64 bytes are no slips, and the cost is the product of the sizes:
/// for them it returns the size of the longer word.
size_t computeEditDistance(std::string_view a, std::string_view b);

} // namespace sluice
