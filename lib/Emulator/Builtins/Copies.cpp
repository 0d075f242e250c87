// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cp.async.
#include "Builtins.h"
#include "Machine.h"

using namespace sluice;
using namespace sluice::emulator;

static CopyQueues &queues() { return Machine::current().copies; }

template <uint32_t Bytes> static void copy(uint32_t site, uint64_t to, uint64_t from) {
  queues().copy(site, to, from, Bytes, Bytes);
}
template <uint32_t Bytes>
static void copyPart(uint32_t site, uint64_t to, uint64_t from, uint32_t fromBytes) {
  queues().copy(site, to, from, Bytes, fromBytes);
}
static void commit(uint32_t) { queues().commit(); }
static void waitGroup(uint32_t, uint32_t mostPending) { queues().wait(mostPending); }
static void waitAll(uint32_t) {
  queues().commit();
  queues().wait(0);
}
template <bool Counted> static void arriveLater(uint32_t site, uint64_t address) {
  queues().arriveAfter(site, address, Counted);
}

llvm::ArrayRef<Builtin> sluice::emulator::copyBuiltins() {
  static const Builtin table[] = {
      makeBuiltin("cp.async.ca.shared.global.4", copy<4>),
      makeBuiltin("cp.async.ca.shared.global.8", copy<8>),
      makeBuiltin("cp.async.ca.shared.global.16", copy<16>),
      makeBuiltin("cp.async.cg.shared.global.16", copy<16>),
      makeBuiltin("cp.async.ca.shared.global.4.s", copyPart<4>),
      makeBuiltin("cp.async.ca.shared.global.8.s", copyPart<8>),
      makeBuiltin("cp.async.ca.shared.global.16.s", copyPart<16>),
      makeBuiltin("cp.async.cg.shared.global.16.s", copyPart<16>),
      makeBuiltin("cp.async.commit.group", commit),
      makeBuiltin("cp.async.wait.group", waitGroup),
      makeBuiltin("cp.async.wait.all", waitAll),
      makeBuiltin("cp.async.mbarrier.arrive", arriveLater<true>),
      makeBuiltin("cp.async.mbarrier.arrive.shared", arriveLater<true>),
      makeBuiltin("cp.async.mbarrier.arrive.noinc", arriveLater<false>),
      makeBuiltin("cp.async.mbarrier.arrive.noinc.shared", arriveLater<false>),
  };
  return table;
}
