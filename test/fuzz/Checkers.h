// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs every checker on one model: the causality check, the library's walk of reads, the
// enumeration of this folder and the replay. No MLIR in this header.
#pragma once

#include "sluice/Explain/Verdict.h"

#include <string>
#include <vector>

namespace sluice::fuzz {

struct CheckerResults {
  CausalVerdict verdict;
  bool leaks = false;      ///< enumeration: a row violates the theorem at some length
  bool misaligned = false; ///< rejected for its targets or its sampled head: no leak
  int64_t longest = 0;     ///< maximum enumerated length
  std::vector<std::string> disagreements;

  bool isKilled() const { return !verdict.isProved(); }
};

/// Maximum length to enumerate, to bound the time.
constexpr int64_t mostEnumerated = 260;

/// Runs every checker on a spec. Throws std::runtime_error if the reader rejects it; `file` is for
/// locations.
CheckerResults runCheckersOnSpec(const std::string &text, const std::string &file, bool replay);
/// Returns true if the reader accepts a spec.
bool isValidSpec(const std::string &text);
/// Runs every checker on the text of model IR; `file` is for locations. Ends the program if it does
/// not parse.
CheckerResults runCheckersOnIR(const std::string &text, const std::string &file, bool replay);
/// Returns the model IR of a spec. Throws std::runtime_error if the reader rejects it.
std::string importToText(const std::string &text, const std::string &file);

} // namespace sluice::fuzz
