// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>

namespace sluice::emulator {

/// The addresses of shared memory, the same for every block: 256 KB, aligned to as much and below
/// 4 GB, so that 32-bit addresses and matrix descriptors have the same meaning as on a GPU.
class SharedArena {
public:
  static constexpr uint64_t bytes = 256 * 1024;
  static llvm::Expected<std::unique_ptr<SharedArena>> create();
  ~SharedArena();
  uint64_t begin() const { return start; }
  bool contains(uint64_t address) const { return address - start < bytes; }

private:
  explicit SharedArena(uint64_t start) : start(start) {}
  uint64_t start;
};

} // namespace sluice::emulator
