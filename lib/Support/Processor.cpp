// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Processor.h"

#include <cpuid.h>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

static constexpr long tileData = 18; // the number of this part of a thread's state

bool sluice::hasTiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned bf16 = 1u << 22, tile = 1u << 24; // of EDX of leaf 7
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & bf16) == 0 || (d & tile) == 0) {
    return false;
  }
  constexpr long getSupported = 0x1021; // ARCH_GET_XCOMP_SUPP
  uint64_t supported = 0;
  return ::syscall(SYS_arch_prctl, getSupported, &supported) == 0 &&
         (supported >> tileData & 1) != 0;
}

bool sluice::requestTiles() {
  constexpr long requestPermission = 0x1023; // ARCH_REQ_XCOMP_PERM
  return hasTiles() && ::syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}
