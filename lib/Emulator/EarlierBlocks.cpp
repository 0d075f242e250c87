// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "EarlierBlocks.h"

using namespace sluice;
using namespace sluice::emulator;

void EarlierBlocks::addTouched(Region &region, uint64_t offset, uint64_t bytes) {
  if (!touched.empty() && touched.back().region == &region &&
      touched.back().offset + touched.back().bytes == offset) {
    touched.back().bytes += bytes;
  } else {
    touched.push_back({&region, offset, bytes});
  }
}

void EarlierBlocks::addBlock(const Histories &histories) {
  for (const ByteRun &run : touched) {
    uint32_t *past = run.region->past.get() + run.offset;
    const uint32_t *history = run.region->history.get() + run.offset;
    for (uint64_t i = 0; i < run.bytes;) {
      uint32_t before = past[i], mine = history[i];
      uint32_t after = blocks.fold(before, mine, histories.getEvents(mine), block);
      for (; i < run.bytes && past[i] == before && history[i] == mine; ++i) {
        past[i] = after;
      }
    }
  }
  touched.clear();
}

void EarlierBlocks::check(Region &region, unsigned thread, const Touch &touch, uint64_t offset) {
  uint32_t *past = region.past.get() + offset;
  Access access = makeAccess(touch.writes, touch.atomic, touch.strong);
  bool isReported = false;
  for (uint64_t i = 0; i < touch.bytes;) {
    uint32_t before = past[i];
    if (before == 0) {
      ++i;
      continue;
    }
    // A copy's bytes may become known without the knowledge of the issuing thread, and atomics of
    // this block do not conflict with each other.
    bool keeps = touch.copy || touch.atomic;
    Blocks::Step step = blocks.add(before, thread, access, keeps);
    if (step.conflict && !isReported) {
      isReported = true;
      Touch at = touch;
      at.address += i;
      complain(ViolationKind::BlockConflict, at,
               "expected a byte that no other block of the launch touches, or to be ordered after "
               "block " +
                   std::to_string(step.conflict->block - 1) + ", which " +
                   (writes(step.conflict->access) ? "wrote it" : "read it") + " at '" +
                   program.sites[step.conflict->site].text +
                   "': no release of it at device scope that was acquired here is between");
    }
    for (; i < touch.bytes && past[i] == before; ++i) {
      past[i] = step.next;
    }
  }
}
