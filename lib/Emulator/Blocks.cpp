// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compact histories of bytes: an access is dropped if another access makes it redundant.
#include "Blocks.h"

#include "llvm/ADT/STLExtras.h"

using namespace sluice::emulator;

void Blocks::startLaunch() {
  accesses.clear();
  numbersOfAccesses.clear();
  sets.assign(1, {});
  numbersOfSets = {{{}, 0}};
}

uint32_t Blocks::getNumberOfSet(const PastAccess &access) {
  auto [at, isNew] = numbersOfAccesses.try_emplace(access, uint32_t(accesses.size()));
  if (isNew) {
    accesses.push_back(access);
  }
  return at->second;
}

uint32_t Blocks::getNumberOfSet(const Set &set) {
  auto [at, isNew] = numbersOfSets.try_emplace(set, uint32_t(sets.size()));
  if (isNew) {
    sets.push_back(set);
  }
  return at->second;
}

/// Returns true if every access that conflicts with `other` conflicts with `one`, and a thread that
/// is ordered after `one` is ordered after both.
static bool standsFor(const PastAccess &one, const PastAccess &other) {
  return covers(one.access, other.access) &&
         std::includes(other.covered.begin(), other.covered.end(), one.covered.begin(),
                       one.covered.end());
}

/// Returns true if accesses of two blocks conflict.
static bool conflicts(Access one, Access other) {
  return (writes(one) || writes(other)) && !(isStrong(one) && isStrong(other));
}

void Blocks::insert(Set &set, const PastAccess &access) {
  if (llvm::any_of(set, [&](uint32_t old) { return standsFor(accesses[old], access); })) {
    return;
  }
  llvm::erase_if(set, [&](uint32_t old) { return standsFor(access, accesses[old]); });
  set.push_back(getNumberOfSet(access));
  llvm::sort(set);
}

Blocks::Step Blocks::add(uint32_t past, unsigned thread, Access access, bool keeps) {
  Step step{past, nullptr};
  Set rest;
  for (uint32_t number : sets[past]) {
    const PastAccess &earlier = accesses[number];
    bool known = order.knowsAny(thread, earlier.covered);
    if (!known && !step.conflict && conflicts(access, earlier.access)) {
      step.conflict = &earlier;
    }
    if (!known || !covers(access, earlier.access)) {
      rest.push_back(number);
    }
  }
  if (!keeps && rest.size() < sets[past].size()) {
    step.next = getNumberOfSet(rest);
  }
  return step;
}

uint32_t Blocks::fold(uint32_t past, uint32_t number, llvm::ArrayRef<AccessEvent> events,
                      uint32_t block) {
  auto [at, isNew] = folded.try_emplace({past, number}, 0);
  if (isNew) {
    Set set = sets[past];
    for (AccessEvent event : events) {
      insert(set,
             {block, event.site(), event.access(), order.covering(event.agent(), event.time())});
    }
    at->second = getNumberOfSet(set);
  }
  return at->second;
}
