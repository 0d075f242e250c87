// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows a leak with the compiled program.
#pragma once

#include "sluice/Driver/Driver.h"

#include <string>

namespace sluice::cli {

/// Compiles the spec that was checked into a temporary folder as if its leak were allowed, runs it
/// twice on the witness, the token changed or the sequence continued to it, and sets the witness's
/// replay. False, with the witness as it was, where that cannot be: a mode that has no losses, a
/// context too short, a machine or a model that cannot run it. Takes about as long as `sluice
/// compile`.
bool replayCompiled(const driver::CheckRequest &checked, const CausalVerdict &refused,
                    CausalWitness &witness);

} // namespace sluice::cli
