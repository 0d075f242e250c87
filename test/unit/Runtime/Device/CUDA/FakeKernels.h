// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code that the fake of NVIDIA's driver runs in place of a GPU kernel: CPU code.
#pragma once

#include <cstdint>
#include <string>

struct FakeKernel {
  using HostKernel = void (*)(uint8_t *arena, const int64_t *arguments, int64_t item,
                              uint8_t *scratch);
  HostKernel code = nullptr;
  int64_t items = -1; // -1: as many as the launch has blocks
  int64_t scratchBytes = 0;
};

/// The kernel of this symbol in the library that FAKE_CUDA_KERNELS names; null where there is none.
/// Either the library has a function of that name (the bigram model), or it is a compiled artifact
/// with CPU code in addition to the GPU's: then the first stage of a kernel does all that the CPU's
/// does, and later ones do nothing.
const FakeKernel *findFakeKernel(const std::string &symbol);
