// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements vector clocks and histories of accesses.
#include "Clocks.h"

#include <algorithm>
#include <mutex>
#include <tuple>

using namespace sluice::emulator;

void Clocks::reset(unsigned threads) {
  auto nothing = std::make_shared<const std::vector<Time>>(2 * countAgents(threads));
  owners.assign(threads, Owner{nothing});
}

void Clocks::learnCopies(unsigned thread, Time time) {
  Owner &owner = owners[thread];
  if (time > owner.copies) {
    owner.copies = time;
    ++owner.now;
  }
}

void Clocks::learnProducts(unsigned thread, Time time) {
  Owner &owner = owners[thread];
  if (time > owner.products) {
    owner.products = time;
    ++owner.now;
  }
}

void Clocks::fenceProducts(unsigned thread) {
  std::vector<Time> sum = *owners[thread].base;
  addTo(sum, thread);
  std::copy_n(sum.begin(), agents(), sum.begin() + static_cast<ptrdiff_t>(agents()));
  owners[thread].base = std::make_shared<const std::vector<Time>>(std::move(sum));
  ++owners[thread].now;
}

static void takeLater(std::vector<Time> &sum, const std::vector<Time> &other) {
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] = std::max(sum[i], other[i]);
  }
}

/// Adds the thread's own components; the caller adds its base, once for all threads that share it.
void Clocks::addTo(std::vector<Time> &sum, unsigned thread) const {
  sum[thread] = std::max(sum[thread], owners[thread].now);
  sum[thread + threads()] = std::max(sum[thread + threads()], owners[thread].copies);
  sum[getProducts(thread)] = std::max(sum[getProducts(thread)], owners[thread].products);
}

void Clocks::join(llvm::ArrayRef<unsigned> from, llvm::ArrayRef<unsigned> into) {
  std::vector<Time> sum(2 * agents());
  const std::vector<Time> *last = nullptr;
  for (unsigned thread : from) {
    if (owners[thread].base.get() != last) {
      last = owners[thread].base.get();
      takeLater(sum, *last);
    }
  }
  for (unsigned thread : from) {
    addTo(sum, thread);
    ++owners[thread].now;
  }
  auto base = std::make_shared<const std::vector<Time>>(std::move(sum));
  for (unsigned thread : into) {
    owners[thread].base = base;
  }
}

void Clocks::release(unsigned thread, Knowledge &into) {
  std::vector<Time> sum = *owners[thread].base;
  if (into) {
    takeLater(sum, *into);
  }
  addTo(sum, thread);
  into = std::make_shared<const std::vector<Time>>(std::move(sum));
  ++owners[thread].now;
}

void Clocks::releaseCopies(unsigned thread, Time time, Knowledge &into) const {
  std::vector<Time> sum = into ? *into : std::vector<Time>(2 * agents());
  sum[thread + threads()] = std::max(sum[thread + threads()], time);
  into = std::make_shared<const std::vector<Time>>(std::move(sum));
}

void Clocks::acquire(unsigned thread, const Knowledge &from) {
  if (!from) {
    return;
  }
  std::vector<Time> sum = *owners[thread].base;
  takeLater(sum, *from);
  owners[thread].base = std::make_shared<const std::vector<Time>>(std::move(sum));
  ++owners[thread].now;
}

namespace {
/// Memory of finished launches, for the next ones.
struct IdleMemory {
  std::mutex mutex;
  std::vector<std::pair<std::vector<AccessEvent>, std::vector<size_t>>> idle;
};
} // namespace

/// Never destroyed: a launch may end while the program exits.
static IdleMemory &getIdleMemory() {
  static auto *memory = new IdleMemory;
  return *memory;
}

Histories::Histories(const Clocks &clocks) : clocks(clocks) {
  IdleMemory &memory = getIdleMemory();
  {
    std::lock_guard lock(memory.mutex);
    if (!memory.idle.empty()) {
      std::tie(events, starts) = std::move(memory.idle.back());
      memory.idle.pop_back();
    }
  }
  reset();
}

Histories::~Histories() {
  IdleMemory &memory = getIdleMemory();
  std::lock_guard lock(memory.mutex);
  memory.idle.emplace_back(std::move(events), std::move(starts));
}

void Histories::reset() {
  first += count;
  count = 0;
  events.clear();
  starts.assign(1, 0);
  std::fill(recent.begin(), recent.end(), Recent{});
}

/// Returns true if accesses of two threads of a block conflict.
static bool conflicts(Access one, Access other) {
  return (writes(one) || writes(other)) && !(isAtomic(one) && isAtomic(other));
}

Histories::Step Histories::compute(uint32_t history, AccessEvent event, unsigned thread) {
  Step step;
  bool isProduct = event.agent() >= 2 * clocks.threads();
  if (history != 0) {
    size_t end = starts[history - first + 1];
    for (size_t i = starts[history - first]; i < end; ++i) {
      AccessEvent earlier = events[i];
      bool known = clocks.knows(thread, earlier.agent(), earlier.time());
      bool visible =
          isProduct ? clocks.knowsFenced(thread, earlier.agent(), earlier.time()) : known;
      if (!visible && !step.conflict && conflicts(earlier.access(), event.access())) {
        step.conflict = earlier;
      }
      bool same = earlier.agent() == event.agent();
      if (!((known || same) && covers(event.access(), earlier.access()))) {
        events.push_back(earlier);
      }
    }
  }
  events.push_back(event);
  starts.push_back(events.size());
  step.next = first + count++;
  return step;
}
