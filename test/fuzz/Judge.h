// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One model before every judge: the causality check, the library's walk of reads, the enumeration
// of this folder and the replay. No MLIR in this header.
#pragma once

#include "sluice/Analysis/Verdict.h"
#include "sluice/Spec/Spec.h"

#include <string>
#include <vector>

namespace sluice::fuzz {

struct Judgement {
  CausalVerdict verdict;
  bool leaks = false;      ///< some row breaks the theorem at some length, by enumeration
  bool misaligned = false; ///< refused for its targets or for what generation samples: no leak
  int64_t longest = 0;     ///< length up to which was enumerated
  std::vector<std::string> disagreements;

  bool isKilled() const { return !verdict.isProved(); }
};

/// Lengths beyond are not enumerated, to bound the time.
constexpr int64_t mostEnumerated = 260;

Judgement judgeModel(const spec::Model &model, bool replay);
/// Model IR as text; `file` is for locations. Ends the program where it does not parse.
Judgement judgeIR(const std::string &text, const std::string &file, bool replay);
/// Model IR of a valid spec, with the locations of its stages where `locations`.
std::string importToText(const spec::Model &model, bool locations);

} // namespace sluice::fuzz
