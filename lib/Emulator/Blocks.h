// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Accesses of earlier blocks of a launch to a byte of global memory: sets of accesses that a later
// block's could conflict with. On a GPU the blocks run in any order, so accesses that no acquired
// release orders conflict.
#pragma once

#include "Order.h"

namespace sluice::emulator {

/// Accesses of one block; equal accesses share an entry.
struct PastAccess {
  uint32_t block = 0, site = 0;
  Access access = Access::Read;
  /// A thread that acquired one of these releases is ordered after the access; empty if no block
  /// is.
  Releases covered;

  auto key() const { return std::tie(block, site, access, covered); }
  bool operator<(const PastAccess &other) const { return key() < other.key(); }
};

/// Histories of bytes over blocks. A byte stores a number; bytes with the same history share one. 0
/// is an empty history.
class Blocks {
public:
  explicit Blocks(const Order &order) : order(order) {}
  void startLaunch();
  void startBlock() { folded.clear(); }

  struct Step {
    uint32_t next = 0;
    /// An access that the new access is not ordered after; null if there is none.
    const PastAccess *conflict = nullptr;
  };
  /// Adds an access of this block. Drops entries that it is ordered after and covers, unless
  /// `keeps`.
  Step add(uint32_t past, unsigned thread, Access access, bool keeps);
  /// Adds, at the block's end, this block's accesses, history `number`, to the history of a byte.
  uint32_t fold(uint32_t past, uint32_t number, llvm::ArrayRef<AccessEvent> events, uint32_t block);

private:
  using Set = std::vector<uint32_t>; ///< indices in `accesses`
  uint32_t getNumberOfSet(const Set &set);
  uint32_t getNumberOfSet(const PastAccess &access);
  void insert(Set &set, const PastAccess &access);

  const Order &order;
  std::vector<PastAccess> accesses;
  std::map<PastAccess, uint32_t> numbersOfAccesses;
  std::vector<Set> sets;
  std::map<Set, uint32_t> numbersOfSets;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> folded; ///< cached results of this block
};

} // namespace sluice::emulator
