// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A matrix of bf16 in shared memory, by the 64 bits that describe it to wgmma (PTX ISA, "matrix
// descriptor"; canonical layouts).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::emulator {

struct MatrixDescriptor {
  static constexpr uint64_t inner = 16;      ///< inner elements of one product
  static constexpr uint64_t chunkBytes = 16; ///< unit of swizzles, 8 elements

  uint64_t start = 0;         ///< byte from the arena's first
  uint64_t leadingBytes = 0;  ///< distance of panels, if lines are inner
  uint64_t strideBytes = 0;   ///< distance of groups of eight lines
  uint64_t lineBytes = 0;     ///< 32, 64 or 128: the period of the swizzle's lines
  bool linesAreInner = false; ///< the transposed form ("MN-major")

  /// Returns an empty message, or a reason why the emulator does not know the form.
  std::string parse(uint64_t bits, bool linesAreInner);
  /// Returns the byte of chunk `chunk` of line `line`. A line has 16 inner elements of one outer
  /// one, or if lines are inner all outer elements of one inner one.
  uint64_t getChunk(uint64_t line, uint64_t chunk) const;
};

} // namespace sluice::emulator
