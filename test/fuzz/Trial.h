// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The trial of one random spec.
#pragma once

#include "Judge.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice::fuzz {

/// Judges a spec that the generator made, with the replay. Throws std::runtime_error where the
/// reader rejects it.
Judgement tryCheck(const std::string &text);

struct Trained {
  enum Kind {
    Done,    ///< every number is finite
    Refused, ///< bad input to the compiler, which reports it
    Failed   ///< anything else
  } kind = Done;
  std::string message;
};
/// Compiles the spec for this machine, leaky or not, and runs a training step and an evaluation.
Trained tryTraining(const std::string &text, uint64_t seed);

enum class Certified { NotTried, Agreed, Disagreed };
/// Has `sluice check --certificate` write a certificate and `sluice-certify` read it, both programs
/// in `programs`; not tried where one is missing. They must agree with `proved`.
Certified tryCertificate(const std::string &text, bool proved, const std::string &programs);

/// The spec with as many stages left out as `fails` still holds of it.
std::string reduce(const std::string &text, const std::function<bool(const std::string &)> &fails);

} // namespace sluice::fuzz
