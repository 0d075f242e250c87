// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mistakes that people make, put into models that are causal.
#pragma once

#include "Judge.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice::fuzz {

struct Mutant {
  std::string mutation; ///< "shift one less"
  std::string text;     ///< a spec or model IR; the mutant may still be causal
};

/// Every mutation at every stage that it fits. Of the results only those that the reader takes.
std::vector<Mutant> mutateSpec(const std::string &text);

/// Judges every mutation of model IR at every op that it fits: in @evaluate, @predict and @train
/// together, and, under a name that ends so, "in training" alone. A mutant whose mutation `wanted`,
/// if given, returns false for is not judged.
void judgeMutantsOfIR(const std::string &text, const std::string &file, bool replay,
                      const std::function<void(const Mutant &, const Judgement &)> &visit,
                      const std::function<bool(const std::string &mutation)> &wanted = {});

} // namespace sluice::fuzz
