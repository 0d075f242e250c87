// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// wgmma: groups of products of a warpgroup. Products, and fences and waits that sums pass through,
// are inline assembly; FunctionRewriter.cpp calls these functions for it.
#include "Builtins.h"
#include "Machine.h"

using namespace sluice::emulator;

static ProductQueues &products() { return Machine::current().products; }

static void multiply(uint32_t site, uint64_t sums, uint64_t a, uint64_t b, uint32_t columns,
                     uint32_t transposed) {
  products().multiply({reinterpret_cast<float *>(sums), a, b, columns, (transposed & 1) != 0,
                       (transposed & 2) != 0, site});
}
static void fence(uint32_t site) { products().fence(site); }
static void commit(uint32_t site) { products().commit(site); }
static void wait(uint32_t site, uint64_t mostPending) { products().wait(site, mostPending); }

llvm::ArrayRef<Builtin> sluice::emulator::productBuiltins() {
  static const Builtin table[] = {
      makeBuiltin("asm.wgmma.mma_async", multiply),
      makeBuiltin("wgmma.fence.sync.aligned", fence),
      makeBuiltin("wgmma.commit_group.sync.aligned", commit),
      makeBuiltin("wgmma.wait_group.sync.aligned", wait),
  };
  return table;
}
