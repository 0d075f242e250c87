// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of the reference that demonstrate a leak.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/ReadWalk.h"

namespace sluice {

/// Runs `leak` on the reference twice, with the token changed or appended, and sets replay and
/// change. Does nothing if the module's context or the work is too large. If the numbers stay the
/// same, replaces `leak` by a slightly longer leak that changes them, if there is one.
void replayLeak(const ReadPlan &plan, FoundLeak &leak);
/// Replays a witness under given boundaries. If no row changes, searches for another leak under
/// other boundaries whose row does.
void replaySegments(FoundLeak &leak, Boundaries &boundaries);

} // namespace sluice
