// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements wgmma. A product is an access of a separate agent, the products of its warp, at the
// time of its group. Its bytes may be overwritten by a thread that knows of that time: by a wait of
// its own, or by a barrier after the waits of all four warps. It sees writes that a
// fence.proxy.async and a barrier precede. Sums are computed when the product is issued;
// FunctionRewriter.cpp checks that nothing uses them before a wait.
#pragma once

#include "Clocks.h"
#include "MatrixDescriptor.h"

namespace sluice::emulator {

class Machine;

/// One product of a warp's thread: sums of 64 x `columns`, of which the thread has columns / 2.
struct WarpgroupProduct {
  float *sums;
  uint64_t a, b; ///< descriptors
  uint32_t columns;
  bool aLinesAreInner, bLinesAreInner;
  uint32_t site;
};

/// The products of a block. Operations apply to the running thread, and need its whole warp.
class ProductQueues {
public:
  static constexpr unsigned warps = 4; ///< of a warpgroup
  static constexpr uint64_t rows = 64;

  explicit ProductQueues(Machine &machine) : machine(machine) {}

  void startBlock(unsigned threads) { queues.assign(threads, {}); }
  void fence(uint32_t site);
  void multiply(WarpgroupProduct product);
  void commit(uint32_t site);
  void wait(uint32_t site, uint64_t mostPending);
  /// Reports products that the thread did not wait for.
  void endThread();
  /// Checks that the warps of each warpgroup issued the same products.
  void endBlock();

private:
  struct Queue {
    Time group = 1;            ///< time of the products that are not yet committed
    Time last = 0, waited = 0; ///< times of the last group with a product, and of the last wait
    uint32_t site = 0;         ///< of the last product
    bool fenced = false;       ///< since the last commit
    uint64_t issued = 0;       ///< digest of the sites of all products
  };
  static void perform(Machine &machine, void *const *lanes, uint32_t mask);
  Queue &getQueue();
  MatrixDescriptor parse(uint64_t bits, bool linesAreInner, uint32_t site);

  Machine &machine;
  std::vector<Queue> queues; ///< by thread
};

} // namespace sluice::emulator
