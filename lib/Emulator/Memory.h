// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shadow memory: for every byte that a kernel may touch, whether it is initialized, who may write
// it, and who has accessed it.
#pragma once

#include "Blocks.h"
#include "Program.h"

#include <functional>

namespace sluice::emulator {

/// Bytes that lie together, and their shadow.
struct Region {
  uint64_t begin = 0, bytes = 0;
  bool shared = false;
  bool written = false; ///< some byte may be written: only then can accesses conflict
  std::vector<Buffer> buffers;

  enum Flag : uint8_t {
    Initialized = 1,
    Writable = 2,
    AtMostOnce = 4,
    Must = 8,
    Written = 16,
    Barrier = 32, ///< part of an mbarrier object
    Read = 64
  };
  template <typename T> using Shadow = std::unique_ptr<T[], void (*)(void *)>;
  Shadow<uint8_t> flags{nullptr, std::free};
  Shadow<uint32_t> history{nullptr, std::free};
  Shadow<uint32_t> past{nullptr, std::free}; ///< of global memory: what earlier blocks did

  bool contains(uint64_t address, uint64_t size) const {
    return address - begin < bytes && size <= bytes - (address - begin);
  }
};

/// One access of one thread.
struct Touch {
  uint64_t address = 0, bytes = 0, align = 1;
  bool reads = false, writes = false, atomic = false;
  bool strong = false;  ///< an atomic that other blocks see as one
  bool barrier = false; ///< an mbarrier instruction, on its object
  bool copy = false;    ///< by the thread's asynchronous copies, at time `copyTime`
  Time copyTime = 0;
  uint32_t site = 0;
};

class Memory {
public:
  /// `report(kind, touch, message)`. Of kinds out of bounds and misaligned it does not return.
  using Complaint = std::function<void(Kind, const Touch &, const std::string &)>;

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
  void checkBlocks(Region &region, unsigned thread, const Touch &touch, uint64_t offset);
  void remember(Region &region, uint64_t offset, uint64_t bytes);

  const Program &program;
  const Clocks &clocks;
  Histories histories;
  Blocks blocks;
  Complaint complain;
  std::vector<Region> regions;  ///< by address
  std::vector<Region *> nearby; ///< a site's last region
  /// Bytes of global memory that this block has touched.
  struct Run {
    Region *region;
    uint64_t offset, bytes;
  };
  std::vector<Run> touched;
  uint32_t block = 0;
  bool severalBlocks = false;
};

} // namespace sluice::emulator
