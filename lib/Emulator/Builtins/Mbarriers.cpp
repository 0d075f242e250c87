// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mbarrier instructions.
#include "Builtins.h"
#include "Machine.h"

using namespace sluice;
using namespace sluice::emulator;

static Mbarriers &objects() { return Machine::current().mbarriers; }

static void initialize(uint32_t site, uint64_t address, uint32_t count) {
  objects().initialize(site, address, count);
}
static void invalidate(uint32_t site, uint64_t address) { objects().invalidate(site, address); }
static uint64_t arriveOne(uint32_t site, uint64_t address) {
  return objects().arrive(site, address, 1, 0, true);
}
static uint64_t arriveMany(uint32_t site, uint64_t address, uint32_t count) {
  return objects().arrive(site, address, count, 0, true);
}
static uint64_t arriveExpecting(uint32_t site, uint64_t address, uint32_t bytes) {
  return objects().arrive(site, address, 1, bytes, true);
}
static void expectBytes(uint32_t site, uint64_t address, uint32_t bytes) {
  objects().arrive(site, address, 0, bytes, false);
}
static void completeBytes(uint32_t site, uint64_t address, uint32_t bytes) {
  objects().arrive(site, address, 0, -int64_t(bytes), false);
}
/// Waits until the phase completes, so a test succeeds whenever it can. On a GPU, a thread that
/// polls and does other work meanwhile may observe failures that do not occur here.
template <bool Parity> static uint32_t waitFor(uint32_t site, uint64_t address, uint64_t phase) {
  return objects().wait(site, address, phase, Parity, true);
}
static uint32_t waitForParity(uint32_t site, uint64_t address, uint32_t parity) {
  return objects().wait(site, address, parity, true, true);
}
static uint32_t waitForParityHinted(uint32_t site, uint64_t address, uint32_t parity, uint32_t) {
  return waitForParity(site, address, parity);
}
static void waitLoop(uint32_t site, uint64_t address, uint32_t parity, uint32_t) {
  waitForParity(site, address, parity);
}

#define CTA ".scope.cta.space.cta"

llvm::ArrayRef<Builtin> sluice::emulator::mbarrierBuiltins() {
  static const Builtin table[] = {
      makeBuiltin("mbarrier.init", initialize),
      makeBuiltin("mbarrier.init.shared", initialize),
      makeBuiltin("mbarrier.inval", invalidate),
      makeBuiltin("mbarrier.inval.shared", invalidate),
      makeBuiltin("mbarrier.arrive", arriveOne),
      makeBuiltin("mbarrier.arrive.shared", arriveOne),
      makeBuiltin("mbarrier.arrive" CTA, arriveMany),
      makeBuiltin("mbarrier.arrive.expect.tx" CTA, arriveExpecting),
      makeBuiltin("mbarrier.expect.tx" CTA, expectBytes),
      makeBuiltin("mbarrier.complete.tx" CTA, completeBytes),
      makeBuiltin("mbarrier.test.wait", waitFor<false>),
      makeBuiltin("mbarrier.test.wait.shared", waitFor<false>),
      makeBuiltin("mbarrier.test.wait" CTA, waitFor<false>),
      makeBuiltin("mbarrier.try.wait" CTA, waitFor<false>),
      makeBuiltin("mbarrier.test.wait.parity" CTA, waitForParity),
      makeBuiltin("mbarrier.try.wait.parity" CTA, waitForParity),
      makeBuiltin("mbarrier.try.wait.parity.tl" CTA, waitForParityHinted),
      makeBuiltin("asm.mbarrier.wait.parity", waitLoop),
  };
  return table;
}
