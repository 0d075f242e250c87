// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/mman.h>

namespace sluice::runtime {

/// Pages that take memory only when they are touched, for the host's copy of an arena that may be
/// larger than the host's memory.
class Mirror {
public:
  explicit Mirror(size_t bytes) : bytes(std::max<size_t>(bytes, 1)) {
    memory = ::mmap(nullptr, this->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      throw UserError("cannot reserve " + std::to_string(bytes) +
                      " bytes of address space for the host's copy of the arena");
    }
  }
  ~Mirror() { ::munmap(memory, bytes); }
  Mirror(const Mirror &) = delete;
  Mirror &operator=(const Mirror &) = delete;
  uint8_t *get() const { return static_cast<uint8_t *>(memory); }

private:
  void *memory = nullptr;
  size_t bytes;
};

} // namespace sluice::runtime
