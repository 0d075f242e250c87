// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random specs with segments, judged by the causality check and by all boundaries of short texts.
#pragma once

#include "sluice/Explain/Verdict.h"

#include <string>

namespace sluice::fuzz {

/// A spec that cuts tokens, or groups of two, into segments, and with two `levels` these again, by
/// stages or by a composite one. One in two makes mistakes. The same on every machine.
std::string generateSegmentedSpec(uint64_t seed, int levels);

struct SegmentJudgement {
  CausalVerdict verdict;
  bool leaks = false;  ///< under some boundaries, by enumeration
  std::string problem; ///< proved although it leaks; empty where there is none
};
/// Texts of up to `longest` tokens are enumerated, under all their boundaries.
SegmentJudgement judgeSegments(const std::string &spec, int64_t longest);
/// The same of a spec or model IR in a file.
SegmentJudgement judgeSegmentSpec(const std::string &path, int64_t longest);

} // namespace sluice::fuzz
