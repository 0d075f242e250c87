// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files of test/causality.
#pragma once

#include "Judge.h"

#include <string>
#include <vector>

namespace sluice::fuzz {

/// Specs and model IR in a folder of the sources, sorted.
std::vector<std::string> corpus(const std::string &folder);
std::string readText(const std::string &path);
Judgement judgeFile(const std::string &path, bool replay);
/// Model IR of a spec or model IR file.
std::string modelIR(const std::string &path);

/// A ".expected" file: the line that is to be changed, words of the message, then any of "verdict"
/// (leak), "mode" (any) and "replay" (changed for a leak), a line each.
struct Expected {
  unsigned line = 0;
  std::string words, verdict = "leak", mode, replay = "changed";
  bool isDefault = false; ///< the line is the line of `defaults`, through which no path goes
};
Expected readExpected(const std::string &path);

} // namespace sluice::fuzz
