// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MatrixDescriptor.h"

using namespace sluice::emulator;

std::string MatrixDescriptor::parse(uint64_t bits, bool areInner) {
  auto field = [&](unsigned at) { return (bits >> at & 0x3fff) << 4; };
  start = field(0);
  leadingBytes = field(16);
  strideBytes = field(32);
  linesAreInner = areInner;
  uint64_t swizzle = bits >> 62;
  if (swizzle == 0) {
    return "expected a swizzled matrix";
  }
  lineBytes = 256 >> swizzle; // 1: 128 bytes, 2: 64, 3: 32
  if (bits >> 49 & 7) {
    return "expected a matrix whose swizzle starts at its first line (base offset 0)";
  }
  if (!linesAreInner && start % lineBytes + inner * 2 > lineBytes) {
    return "expected 16 inner elements within a line";
  }
  return "";
}

// The swizzle combines bits 4 and up of the address with bits 7 and up, as many as a line has bits
// for its chunks.
uint64_t MatrixDescriptor::getChunk(uint64_t line, uint64_t chunk) const {
  uint64_t chunks = lineBytes / chunkBytes;
  uint64_t at = start + line / 8 * strideBytes + line % 8 * lineBytes;
  at += linesAreInner ? chunk / chunks * leadingBytes + chunk % chunks * chunkBytes
                      : chunk * chunkBytes;
  return at ^ (at >> 7 & (chunks - 1)) << 4;
}
