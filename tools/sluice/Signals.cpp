// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Signals.h"

#include <cerrno>
#include <csignal>
#include <string_view>
#include <unistd.h>

namespace sluice::cli {
namespace {

volatile std::sig_atomic_t caught = 0, count = 0, shields = 0;

/// Prints from a signal handler.
void print(std::string_view text) {
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void note(int signal) {
  constexpr int most = 3;
  int error = errno;
  caught = caught == 0 ? signal : caught;
  count = count < most ? count + 1 : count;
  if (count == most && shields == 0) {
    ::_exit(128 + caught);
  }
  if (count == 2) {
    print("\nsluice: ending: what is done is being saved; a third signal ends at once and loses "
          "it\n");
  }
  errno = error;
}

void end(int signal) { ::_exit(128 + signal); }

void handle(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (int each : {SIGINT, SIGTERM, SIGHUP}) { // one handler runs at a time
    sigaddset(&action.sa_mask, each);
  }
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) { // nohup's job continues
    sigaction(SIGHUP, &action, nullptr);
  }
}

} // namespace

void catchSignals() { handle(note); }

void endAtSignals() { handle(end); }

int caughtSignal() { return caught; }

SignalShield::SignalShield() { shields = shields + 1; }
SignalShield::~SignalShield() { shields = shields - 1; }

} // namespace sluice::cli
