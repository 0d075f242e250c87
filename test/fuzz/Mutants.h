// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutants of causal models: typical mistakes of users.
#pragma once

#include "Checkers.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice::fuzz {

struct Mutant {
  std::string mutation; ///< "shift one less"
  std::string text;     ///< a spec or model IR; the mutant may still be causal
};

/// Returns every mutation of a spec at every stage to which it applies, if the reader accepts the
/// result.
std::vector<Mutant> mutateSpec(const std::string &text);

/// Runs every checker on every mutation of model IR at every op to which it applies: in @evaluate,
/// @predict and @train together, and, with the suffix "in training", in @train alone. Skips a
/// mutation for which `wanted`, if given, returns false.
void runCheckersOnMutants(const std::string &text, const std::string &file, bool replay,
                          const std::function<void(const Mutant &, const CheckerResults &)> &visit,
                          const std::function<bool(const std::string &mutation)> &wanted = {});

} // namespace sluice::fuzz
