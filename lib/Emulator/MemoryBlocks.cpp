// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of an access against what earlier blocks did to its bytes.
#include "Memory.h"

using namespace sluice;
using namespace sluice::emulator;

void Memory::remember(Region &region, uint64_t offset, uint64_t bytes) {
  if (!touched.empty() && touched.back().region == &region &&
      touched.back().offset + touched.back().bytes == offset) {
    touched.back().bytes += bytes;
  } else {
    touched.push_back({&region, offset, bytes});
  }
}

void Memory::endBlock() {
  for (const Run &run : touched) {
    uint32_t *past = run.region->past.get() + run.offset;
    const uint32_t *history = run.region->history.get() + run.offset;
    for (uint64_t i = 0; i < run.bytes;) {
      uint32_t before = past[i], mine = history[i];
      uint32_t after = blocks.fold(before, mine, histories.eventsOf(mine), block);
      for (; i < run.bytes && past[i] == before && history[i] == mine; ++i) {
        past[i] = after;
      }
    }
  }
  touched.clear();
}

/// Blocks run one after the other here and in any order on a GPU: whatever depends on the order is
/// wrong, unless atomics and fences make it.
void Memory::checkBlocks(Region &region, unsigned thread, const Touch &touch, uint64_t offset) {
  uint32_t *past = region.past.get() + offset;
  Access access = accessOf(touch.writes, touch.atomic, touch.strong);
  bool told = false;
  for (uint64_t i = 0; i < touch.bytes;) {
    uint32_t before = past[i];
    if (before == 0) {
      ++i;
      continue;
    }
    // A copy's bytes may become known without the thread's knowledge at the time of the copy, and
    // atomics of this block do not conflict with one another.
    bool keeps = touch.copy || touch.atomic;
    Blocks::Step step = blocks.add(before, thread, access, keeps);
    if (step.conflict && !told) {
      told = true;
      Touch at = touch;
      at.address += i;
      complain(Kind::BlockConflict, at,
               "expected a byte that no other block of the launch touches, or to be ordered after "
               "block " +
                   std::to_string(step.conflict->block - 1) + ", which " +
                   (writes(step.conflict->access) ? "wrote it" : "read it") + " at '" +
                   program.sites[step.conflict->site].text +
                   "': no release of it at device scope that was acquired here lies between");
    }
    for (; i < touch.bytes && past[i] == before; ++i) {
      past[i] = step.next;
    }
  }
}
