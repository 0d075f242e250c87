// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Deadlock.h"

#include "llvm/ADT/StringExtras.h"

using namespace sluice;
using namespace sluice::emulator;

static std::string describeThread(const Program &program, const Threads &threads,
                                  llvm::ArrayRef<Wait> waits, unsigned thread) {
  std::string who = "thread " + std::to_string(thread);
  if (threads.isDone(thread)) {
    return who + " has ended";
  }
  const Wait &wait = waits[thread];
  return who + " waits at '" + program.sites[wait.site].text + "'";
}

Deadlock emulator::explainDeadlock(const Program &program, const Threads &threads,
                                   llvm::ArrayRef<Wait> waits) {
  constexpr unsigned lanes = Threads::lanes;
  unsigned count = threads.count();
  unsigned first = 0;
  while (first < count && threads.isDone(first)) {
    ++first;
  }
  const Wait &wait = waits[first];
  auto isMissing = [&](unsigned thread) {
    const Wait &other = waits[thread];
    bool named = wait.what != Wait::For::Lanes ||
                 (thread / lanes == first / lanes && (wait.which >> thread % lanes & 1));
    return named &&
           (threads.isDone(thread) || other.what != wait.what || other.which != wait.which ||
            (wait.what == Wait::For::Lanes && other.site != wait.site));
  };
  std::string missing = "nobody";
  unsigned number = 0;
  for (unsigned thread = count; thread-- > 0;) {
    if (isMissing(thread)) {
      missing = describeThread(program, threads, waits, thread);
      ++number;
    }
  }
  ViolationKind kind = ViolationKind::BarrierDivergence;
  std::string expected = "expected all threads that barrier " + std::to_string(wait.which) +
                         " counts; the block cannot continue without";
  if (wait.what == Wait::For::Lanes) {
    kind = ViolationKind::AbsentLane;
    expected = "expected all lanes of mask 0x" + llvm::utohexstr(wait.which, true) + "; absent:";
  } else if (wait.what == Wait::For::Mbarrier) {
    kind = ViolationKind::Mbarrier;
    expected = "expected the phase to complete; no thread is left to arrive:";
  }
  return {kind, first, wait.site,
          expected + " " + std::to_string(number) +
              (number == 1 ? " thread, " : " threads, of which ") + missing};
}
