// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals that end a job in order: results so far are saved first.
#pragma once

namespace sluice::cli {

/// From here on SIGINT, SIGTERM and SIGHUP (except under nohup) are recorded, for the job to end at
/// its next safe point. The second one is recorded too, as terminals and wrappers often send two; a
/// line on stderr reports that the job is ending. The third one ends the program immediately,
/// except while there is a `SignalShield`.
void catchSignals();

/// From here on the same signals end the program immediately, with status 128 + the signal's
/// number: there is nothing to save yet.
void endAtSignals();

/// The first recorded signal, or 0.
int caughtSignal();

/// While one exists, no signal ends the program: files are being written.
class SignalShield {
public:
  SignalShield();
  ~SignalShield();
  SignalShield(const SignalShield &) = delete;
  SignalShield &operator=(const SignalShield &) = delete;
};

} // namespace sluice::cli
