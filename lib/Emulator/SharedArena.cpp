// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SharedArena.h"

#include <sys/mman.h>

using namespace sluice::emulator;

llvm::Expected<std::unique_ptr<SharedArena>> SharedArena::create() {
  for (uint64_t address = 1ull << 28; address < 0xf0000000; address += bytes) {
    void *wanted = reinterpret_cast<void *>(address);
    void *found = mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (found == wanted) {
      return std::unique_ptr<SharedArena>(new SharedArena(address));
    }
    if (found != MAP_FAILED) {
      munmap(found, bytes);
    }
  }
  return llvm::createStringError("no 256 KB of memory below 4 GB for a block's shared memory");
}

SharedArena::~SharedArena() { munmap(reinterpret_cast<void *>(start), bytes); }
