// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reasons for which threads of a block wait, and the explanation of a block that cannot proceed.
#pragma once

#include "Program.h"
#include "Threads.h"

namespace sluice::emulator {

/// The reason for which a thread is suspended.
struct Wait {
  enum class For { Nothing, Lanes, Barrier, Mbarrier } what = For::Nothing;
  uint32_t site = 0;
  uint64_t which = 0; ///< mask of lanes, or number or address of the barrier
};

/// A violation of the first thread that waits forever.
struct Deadlock {
  ViolationKind kind;
  unsigned thread;
  uint32_t site;
  std::string message;
};

/// Explains a block in which no thread can proceed: names the first thread that waits, and an
/// example of the threads that it waits for. `waits` has an element for each thread.
Deadlock explainDeadlock(const Program &program, const Threads &threads,
                         llvm::ArrayRef<Wait> waits);

} // namespace sluice::emulator
