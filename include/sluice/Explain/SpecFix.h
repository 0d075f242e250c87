// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for an edit of a rejected spec that makes it causal.
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

/// Operations (WorkBudget.h) that a search may take, a few seconds. The limit counts operations
/// instead of time, so that every machine prints the same advice.
inline constexpr int64_t mostFixOperations = 120'000'000;

/// Tries the edits of docs/causality.md on the text of a rejected model, alone and in pairs, and
/// sets `fix` of its verdict to the best edit after which the spec is proved, else `noFix`. Edits
/// of keys and shifts precede edits of streams, which precede removals of stages. Within these
/// kinds, edits are ordered by the number of hidden tokens, the number of edits, the delay, the
/// kind of edit, the distance of a move, and the position in the file.
void findFix(const ParsedSpec &spec, CausalVerdict &verdict,
             int64_t operations = mostFixOperations);

} // namespace sluice
