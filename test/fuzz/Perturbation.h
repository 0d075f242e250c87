// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Witnesses that the causality check prints, held to an enumeration of paths and to numbers of the
// reference. No MLIR in this header.
#pragma once

#include <string>

namespace sluice::fuzz {

struct JudgedWitness {
  bool exists = false;
  bool isPath = false;      ///< the row depends on the token by enumeration
  bool changesRow = false;  ///< the row has other numbers with another token
  std::string message = {}; ///< of the verdict
};

/// Checks a spec without its replay and judges the witness that is printed then. Texts and weights
/// are drawn anew several times, by none of the replay's code. Throws std::runtime_error where the
/// reader rejects the spec.
JudgedWitness judgeWitness(const std::string &text);

} // namespace sluice::fuzz
