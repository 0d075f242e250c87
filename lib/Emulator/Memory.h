// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shadow memory: for every byte that a kernel may touch, whether it is initialized, who may write
// it, and who has accessed it.
#pragma once

#include "EarlierBlocks.h"
#include "Program.h"
#include "Region.h"

namespace sluice::emulator {

class Memory {
public:
  Memory(const Program &program, const Clocks &clocks, const Order &order, Complaint complain);

  /// Buffers, tables of constants and shared memory of `launch`.
  void prepare(const Launch &launch, llvm::ArrayRef<Buffer> tables);
  /// Shared memory is new; `block` counts from 1.
  void startBlock(uint32_t block);
  /// The block's accesses are past from now on.
  void endBlock();

  /// Complains of whatever is wrong with the access. `thread` is the one whose clock counts.
  void touch(unsigned thread, const Touch &touch);

  /// An mbarrier object comes to lie at `address`, or no longer does.
  void markBarrier(uint64_t address, bool present);

  /// The region that holds all of the bytes, or null.
  Region *find(uint64_t address, uint64_t bytes);
  /// "'name' + 12", or the nearest name.
  std::string describe(uint64_t address) const;
  /// Complains of bytes that had to be written and were not.
  void finish();
  /// Sums up which bytes of the launch's buffers were touched.
  void countDistinct(Counters &counters) const;

private:
  void addGlobal(std::vector<Buffer> buffers);
  void addShared(const SharedGlobal &global, uint64_t bytes);
  void outOfBounds(const Touch &touch);
  void checkFlags(Region &region, const Touch &touch, uint64_t offset);
  void checkThreads(Region &region, unsigned thread, const Touch &touch, uint64_t offset);

  const Program &program;
  const Clocks &clocks;
  Histories histories;
  Complaint complain;
  EarlierBlocks earlier;
  std::vector<Region> regions;  ///< by address
  std::vector<Region *> nearby; ///< a site's last region
  bool severalBlocks = false;
};

} // namespace sluice::emulator
