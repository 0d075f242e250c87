// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fibers and the order in which they run.
#include "Threads.h"

#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"
#include <sys/mman.h>

using namespace sluice::emulator;
using namespace boost::context::detail;

Threads::Threads(const Options &options)
    : schedule(options.schedule), generator(options.seed * 0x9e3779b97f4a7c15u + 1) {}

Stacks::~Stacks() {
  if (start) {
    munmap(start, count * each);
  }
}

/// Returns the stacks of earlier launches of this thread, because new stacks cost a system call and
/// two page faults each.
static Stacks &unusedStacks() {
  static thread_local Stacks stacks;
  return stacks;
}

Threads::~Threads() {
  if (stacks.count > unusedStacks().count) {
    std::swap(stacks, unusedStacks());
  }
}

/// Allocates stacks. The system provides pages when they are first accessed; the lowest page of
/// every stack is a guard.
void Threads::growStacks(unsigned count) {
  if (count > stacks.count) {
    std::swap(stacks, unusedStacks());
  }
  if (count <= stacks.count) {
    return;
  }
  constexpr uint64_t stackBytes = Stacks::each;
  void *memory = mmap(nullptr, count * stackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    llvm::report_bad_alloc_error("no memory for the stacks of a block's threads");
  }
  Stacks grown(static_cast<char *>(memory), count);
  std::swap(stacks, grown);
  for (uint64_t i = 0; i < count; ++i) {
    mprotect(stacks.start + i * stackBytes, 4096, PROT_NONE);
  }
}

void Threads::start(unsigned count, std::function<void()> function) {
  growStacks(count);
  body = std::move(function);
  stopping = false;
  contexts.resize(count);
  done.assign(count, 0);
  ready.assign(llvm::divideCeil(count, lanes), 0);
  warp = 0;
  for (unsigned i = 0; i < count; ++i) {
    contexts[i] = make_fcontext(stacks.start + (i + 1) * Stacks::each, Stacks::each - 4096, enter);
    wake(i);
  }
}

void Threads::enter(transfer_t transfer) {
  auto *threads = static_cast<Threads *>(transfer.data);
  threads->scheduler = transfer.fctx;
  threads->body();
  threads->finish();
}

void Threads::leave() { scheduler = jump_fcontext(scheduler, nullptr).fctx; }

void Threads::suspend() { leave(); }

void Threads::stop() {
  stopping = true;
  leave();
  llvm_unreachable("a stopped block continues");
}

void Threads::finish() {
  done[current] = 1;
  leave();
  llvm_unreachable("a finished thread continues");
}

void Threads::wake(unsigned thread) { ready[thread / lanes] |= 1u << thread % lanes; }

/// Returns the next warp; a number past the last warp if no thread is ready.
unsigned Threads::pick() {
  auto warps = static_cast<unsigned>(ready.size());
  if (schedule == Schedule::WarpAlone && ready[warp]) {
    return warp;
  }
  unsigned first = schedule == Schedule::InOrder ? 0 : generator() % warps;
  for (unsigned i = 0; i < warps; ++i) {
    unsigned candidate = (first + i) % warps;
    if (ready[candidate]) {
      return candidate;
    }
  }
  return warps;
}

void Threads::run() {
  while (!stopping) {
    unsigned next = pick();
    if (next == ready.size()) {
      return;
    }
    warp = next;
    uint32_t mask = ready[warp];
    if (schedule == Schedule::Random) {
      for (unsigned skip = generator() % unsigned(llvm::popcount(mask)); skip > 0; --skip) {
        mask &= mask - 1;
      }
    }
    unsigned lane = static_cast<unsigned>(llvm::countr_zero(mask));
    ready[warp] &= ~(1u << lane);
    current = warp * lanes + lane;
    contexts[current] = jump_fcontext(contexts[current], this).fctx;
  }
}
