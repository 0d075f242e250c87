// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the files of test/causality.
#pragma once

#include "Checkers.h"

#include <string>
#include <vector>

namespace sluice::fuzz {

/// Returns the sorted specs and model IR files of a folder of the sources.
std::vector<std::string> corpus(const std::string &folder);
std::string readText(const std::string &path);
CheckerResults runCheckersOnFile(const std::string &path, bool replay);
/// Returns the model IR of a spec or of a model IR file.
std::string modelIR(const std::string &path);

/// A ".expected" file: the line to change, words of the message, then optionally "verdict"
/// (default: leak), "mode" (default: any) and "replay" (default: changed for a leak), one per line.
struct Expected {
  unsigned line = 0;
  std::string words, verdict = "leak", mode, replay = "changed";
  bool isDefault = false; ///< the line is the line of `defaults`, which no path contains
};
Expected readExpected(const std::string &path);

} // namespace sluice::fuzz
