// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shadow of adjacent bytes, and an access to them.
#pragma once

#include "Clocks.h"
#include "sluice/Emulator/Emulator.h"

#include <functional>

namespace sluice::emulator {

/// Adjacent bytes, and their shadow.
struct Region {
  uint64_t begin = 0, bytes = 0;
  bool shared = false;
  bool written = false; ///< true if some byte may be written; accesses conflict only then
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
  /// Histories of accesses of earlier blocks, for global memory.
  Shadow<uint32_t> past{nullptr, std::free};

  bool contains(uint64_t address, uint64_t size) const {
    return address - begin < bytes && size <= bytes - (address - begin);
  }
};

/// One access of one thread.
struct Touch {
  uint64_t address = 0, bytes = 0, align = 1;
  bool reads = false, writes = false, atomic = false;
  bool strong = false;  ///< an atomic that is atomic for other blocks too
  bool barrier = false; ///< an mbarrier instruction accesses its object
  bool copy = false;    ///< an asynchronous copy of the thread accesses the bytes, at `agentTime`
  bool product = false; ///< a product of the thread's warp reads the bytes, at `agentTime`
  Time agentTime = 0;
  uint32_t site = 0;
};

/// Reports a violation: `complaint(kind, touch, message)`. Does not return for accesses that are
/// out of bounds or misaligned.
using Complaint = std::function<void(ViolationKind, const Touch &, const std::string &)>;

} // namespace sluice::emulator
