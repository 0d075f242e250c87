// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the witnesses of the causality check with an enumeration of paths and with numbers of
// the reference. No MLIR in this header.
#pragma once

#include <string>

namespace sluice::fuzz {

struct WitnessResult {
  bool exists = false;
  bool isPath = false;      ///< enumeration: the row depends on the token
  bool changesRow = false;  ///< the row has other numbers with another token
  std::string message = {}; ///< of the verdict
};

/// Checks a spec without its replay and verifies the printed witness. Draws texts and weights
/// several times, with no code of the replay. Throws std::runtime_error if the reader rejects the
/// spec.
WitnessResult verifyWitness(const std::string &text);

} // namespace sluice::fuzz
