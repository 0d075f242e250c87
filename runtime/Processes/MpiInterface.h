// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The binary interface between the runtime and libsluice_mpi.so, which alone is compiled with
// mpi.h.
#pragma once

#include <cstdint>

extern "C" {

/// Functions return a negative number or null on failure.
struct SluiceMpi {
  int64_t version; ///< sluiceMpiVersion
  int64_t (*initialize)();
  int64_t (*rank)();
  int64_t (*size)();
  void *(*send)(const uint8_t *bytes, int64_t count, int64_t to, int64_t tag);
  void *(*receive)(uint8_t *bytes, int64_t count, int64_t from, int64_t tag);
  int64_t (*test)(void *request); ///< 1: complete, and the request is released
  int64_t (*finish)();
};

using SluiceMpiGetter = const SluiceMpi *();
}

constexpr int64_t sluiceMpiVersion = 2;
constexpr const char *sluiceMpiSymbol = "sluice_mpi";
