// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shadow memory: for every byte that a kernel may access, whether it is initialized, which writes
// are permitted, and the history of accesses.
#pragma once

#include "EarlierBlocks.h"
#include "Program.h"
#include "Region.h"

namespace sluice::emulator {

class Memory {
public:
  Memory(const Program &program, const Clocks &clocks, const Order &order, Complaint complain);

  /// Buffers, tables of constants and shared memory of `launch`.
  void prepare(const EmulatedLaunch &launch, llvm::ArrayRef<Buffer> tables);
  /// Clears shared memory for a block; `block` counts from 1.
  void startBlock(uint32_t block);
  /// Ends a block, and adds its accesses to the histories.
  void endBlock();

  /// Reports every violation of the access. `thread` is the thread whose clock applies.
  void touch(unsigned thread, const Touch &touch);

  /// Marks the bytes of an mbarrier object at `address`, or unmarks them.
  void markBarrier(uint64_t address, bool present);

  /// Returns the region that contains all of the bytes, or null.
  Region *find(uint64_t address, uint64_t bytes);
  /// Describes an address: "'name' + 12", or relative to the nearest name.
  std::string describe(uint64_t address) const;
  /// Reports bytes that the launch had to write and did not.
  void finish();
  /// Counts the bytes of the launch's buffers that were touched.
  void countDistinct(Counters &counters) const;

private:
  void addGlobal(std::vector<Buffer> buffers);
  void addShared(const SharedGlobal &global, uint64_t bytes);
  void outOfBounds(const Touch &touch);
  void checkFlags(Region &region, const Touch &touch, uint64_t offset);
  void reportConflict(const Touch &at, unsigned thread, const AccessEvent &other);
  void checkThreads(Region &region, unsigned thread, const Touch &touch, uint64_t offset);

  const Program &program;
  const Clocks &clocks;
  Histories histories;
  Complaint complain;
  EarlierBlocks earlier;
  std::vector<Region> regions;  ///< sorted by address
  std::vector<Region *> nearby; ///< the last region of each site
  bool severalBlocks = false;
};

} // namespace sluice::emulator
