// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals that end a job in order: what it has made is saved first.
#pragma once

namespace sluice::cli {

/// From here on the first SIGINT, SIGTERM or SIGHUP (except under nohup) is only noted; a second
/// one ends the program at once.
void catchSignals();

/// The signal that was noted, or 0.
int caughtSignal();

} // namespace sluice::cli
