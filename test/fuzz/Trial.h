// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs one random spec.
#pragma once

#include "Checkers.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice::fuzz {

/// Runs every checker on a generated spec, with the replay. Throws std::runtime_error if the reader
/// rejects it.
CheckerResults runCheckersWithReplay(const std::string &text);

struct Trained {
  enum Kind {
    Done,    ///< every number is finite
    Refused, ///< bad input to the compiler, which reports it
    Failed   ///< any other failure
  } kind = Done;
  std::string message;
};
/// Compiles the spec for this machine, leaky or not, and runs a training step and an evaluation.
Trained tryTraining(const std::string &text, uint64_t seed);

enum class Certified { NotTried, Agreed, Disagreed };
/// Lets `sluice check --certificate` write a certificate and `sluice-certify` read it, both
/// programs in `programs`; skipped if one is missing. They must agree with `proved`.
Certified tryCertificate(const std::string &text, bool proved, const std::string &programs);

/// Returns the spec with as many stages removed as possible while `fails` still holds.
std::string reduce(const std::string &text, const std::function<bool(const std::string &)> &fails);

} // namespace sluice::fuzz
