// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instruction sets of CPU kernels.
#include "sluice/Target/CPU/Kernel.h"

using namespace sluice;
using namespace sluice::cpu;

const Target &Target::amx() {
  static const Target target = [] {
    Target target = avx512Bf16();
    target.name = "cpu-amx";
    target.features = "-prefer-256-bit,+avx512bf16,+avx512vnni,+amx-tile,+amx-bf16";
    target.tiles = true;
    return target;
  }();
  return target;
}

const Target &Target::avx512Bf16() {
  static const Target target = [] {
    Target target = avx512Vnni();
    target.name = "cpu-avx512-bf16";
    target.features = "-prefer-256-bit,+avx512bf16,+avx512vnni";
    target.bf16Dots = true;
    return target;
  }();
  return target;
}

const Target &Target::avx512Vnni() {
  static const Target target = [] {
    Target target = avx512();
    target.name = "cpu-avx512-vnni";
    target.features = "-prefer-256-bit,+avx512vnni";
    return target;
  }();
  return target;
}

const Target &Target::avx512() {
  static const Target target{.name = "cpu-avx512",
                             .cpu = "x86-64-v4",
                             .features = "-prefer-256-bit",
                             .lanes = 16,
                             .registers = 32,
                             .l2Bytes = 1 << 20,
                             .bf16Dots = false,
                             .tiles = false};
  return target;
}

const Target &Target::avx2() {
  static const Target target{.name = "cpu-avx2",
                             .cpu = "x86-64-v3",
                             .features = "",
                             .lanes = 8,
                             .registers = 16,
                             .l2Bytes = 512 << 10,
                             .bf16Dots = false,
                             .tiles = false};
  return target;
}
