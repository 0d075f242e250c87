// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10, one element at a time, as dispatch.random describes it: the reference of tests.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::test {

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0], second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(second >> 32) ^ counter[1] ^ key[0], uint32_t(second),
               uint32_t(first >> 32) ^ counter[3] ^ key[1], uint32_t(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

inline float philoxUniform(uint64_t element, uint32_t id, uint64_t step, uint64_t seed) {
  uint64_t block = element / 4;
  auto words = philox({uint32_t(block), uint32_t(block >> 32), id, uint32_t(step)},
                      {uint32_t(seed), uint32_t(seed >> 32)});
  return float(words[element % 4] >> 8) * 0x1p-24f;
}

} // namespace sluice::test
