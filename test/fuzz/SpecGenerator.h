// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random valid specs: every stage and setting of docs/spec.md, streams, skips, side branches,
// nested composites, odd factors. In half of them every decision preserves causality; the others
// make mistakes.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::fuzz {

/// Returns the spec of a seed, one stage per line; the same on every machine. With `replaces`, rows
/// of streams are replaced too.
std::string generateSpec(uint64_t seed, bool replaces = false);

} // namespace sluice::fuzz
