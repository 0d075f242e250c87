// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Signals.h"

#include <csignal>

namespace sluice::cli {

static volatile std::sig_atomic_t caught = 0;

void catchSignals() {
  struct sigaction action{};
  action.sa_handler = [](int signal) { caught = signal; };
  action.sa_flags = static_cast<int>(SA_RESETHAND); // a second signal meets the default
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) { // nohup's job goes on
    sigaction(SIGHUP, &action, nullptr);
  }
}

int caughtSignal() { return caught; }

} // namespace sluice::cli
