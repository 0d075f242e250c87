// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for an edit of a rejected spec that makes it causal.
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/Verdict.h"

namespace sluice {

/// Operations (WorkBudget.h) that a search may take: some seconds. Counted and not timed, so that
/// every machine prints the same advice.
inline constexpr int64_t mostFixOperations = 120'000'000;

/// Tries the edits of docs/causality.md on the text of a refused model, alone and two together, and
/// sets `fix` of its verdict to the best of those after which the spec is proved, else `noFix`.
/// Keys and shifts come before other streams, and these before fewer stages. Among them the order
/// is: fewer tokens hidden from rows; fewer edits; less delay; the kind of edit; shorter moves; the
/// file's.
void findFix(const ParsedSpec &spec, CausalVerdict &verdict,
             int64_t operations = mostFixOperations);

} // namespace sluice
