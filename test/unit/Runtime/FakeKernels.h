// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the stand-in for NVIDIA's driver runs in a GPU kernel's place: CPU code.
#pragma once

#include <cstdint>
#include <string>

struct FakeKernel {
  using Code = void (*)(uint8_t *arena, const int64_t *arguments, int64_t item, uint8_t *scratch);
  Code code = nullptr;
  int64_t items = -1; // -1: as many as the launch has blocks
  int64_t scratchBytes = 0;
};

/// The kernel of this symbol in the library that FAKE_CUDA_KERNELS names; null where there is none.
/// Either the library has a function of that name (the bigram model), or it is a compiled artifact
/// with CPU code beside the GPU's: then the first stage of a kernel does all that the CPU's does,
/// and later ones do nothing.
const FakeKernel *findFakeKernel(const std::string &symbol);
