// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of global memory between the blocks of a launch. Blocks run one after the other here and
// in any order on a GPU: a result that depends on their order is an error, unless atomics and
// fences enforce the order.
#pragma once

#include "Blocks.h"
#include "Program.h"
#include "Region.h"

namespace sluice::emulator {

class EarlierBlocks {
public:
  EarlierBlocks(const Program &program, const Order &order, const Complaint &complain)
      : program(program), complain(complain), blocks(order) {}

  void startLaunch() { blocks.startLaunch(); }
  /// `number` counts from 1.
  void startBlock(uint32_t number) {
    block = number;
    blocks.startBlock();
  }
  /// Adds bytes that this block accesses for the first time.
  void addTouched(Region &region, uint64_t offset, uint64_t bytes);
  /// Adds the accesses of this block to the histories of its bytes, when the block ends.
  void addBlock(const Histories &histories);
  /// Checks an access of this block against the accesses of earlier blocks to the same bytes.
  void check(Region &region, unsigned thread, const Touch &touch, uint64_t offset);

private:
  struct ByteRun {
    Region *region;
    uint64_t offset, bytes;
  };

  const Program &program;
  const Complaint &complain;
  Blocks blocks;
  std::vector<ByteRun> touched; ///< bytes of global memory that this block has touched
  uint32_t block = 0;
};

} // namespace sluice::emulator
