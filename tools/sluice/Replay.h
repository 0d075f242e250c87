// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows a leak with the compiled program.
#pragma once

#include "sluice/Driver/Driver.h"

#include <string>

namespace sluice::cli {

/// Compiles the checked spec into a temporary folder as if its leak were allowed, runs it twice on
/// the witness, with the token changed or the sequence continued to it, and sets the witness's
/// replay. Returns false and leaves the witness unchanged if that is impossible: a mode without
/// losses, a too short context, or a machine or model that cannot run it. Takes about as long as
/// `sluice compile`.
bool replayCompiled(const driver::CheckRequest &checked, const CausalVerdict &refused,
                    CausalWitness &witness);

} // namespace sluice::cli
