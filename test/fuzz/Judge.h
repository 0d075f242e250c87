// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One model before every judge: the causality check, the library's walk of reads, the enumeration
// of this folder and the replay. No MLIR in this header.
#pragma once

#include "sluice/Explain/Verdict.h"

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

/// Judges a spec. Throws std::runtime_error where the reader rejects it; `file` is for locations.
Judgement judgeSpec(const std::string &text, const std::string &file, bool replay);
/// True where the reader accepts a spec.
bool isValidSpec(const std::string &text);
/// Model IR as text; `file` is for locations. Ends the program where it does not parse.
Judgement judgeIR(const std::string &text, const std::string &file, bool replay);
/// Returns the model IR of a spec. Throws std::runtime_error where the reader rejects it.
std::string importToText(const std::string &text, const std::string &file);

} // namespace sluice::fuzz
