// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random specs with segments, checked by the causality check and under all boundaries of short
// texts.
#pragma once

#include "sluice/Explain/Verdict.h"

#include <string>

namespace sluice::fuzz {

/// Returns a spec that cuts tokens, or groups of two, into segments, and with two `levels` these
/// again, by plain stages or by a composite one. Half of the specs make mistakes. The result is the
/// same on every machine.
std::string generateSegmentedSpec(uint64_t seed, int levels);

struct BoundaryResult {
  CausalVerdict verdict;
  bool leaks = false;  ///< enumeration: leaks under some boundaries
  std::string problem; ///< proved although it leaks; empty if there is no contradiction
};
/// Enumerates texts of up to `longest` tokens, under all their boundaries.
BoundaryResult enumerateBoundaries(const std::string &spec, int64_t longest);
/// Enumerates the texts of a spec or model IR file.
BoundaryResult enumerateFileBoundaries(const std::string &path, int64_t longest);

} // namespace sluice::fuzz
