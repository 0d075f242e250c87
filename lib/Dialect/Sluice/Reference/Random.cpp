// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2,
// 3" (2011).
#include "sluice/Dialect/Sluice/Reference.h"

#include <algorithm>

namespace sluice::reference {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * counter[0];
    uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9; // the golden ratio
    key[1] += 0xBB67AE85; // sqrt(3) - 1
  }
  return counter;
}

bool isDrawnPair(uint32_t key, int64_t p, int64_t q) {
  auto [lower, upper] = std::minmax(static_cast<uint32_t>(p), static_cast<uint32_t>(q));
  return lower != upper && (philox({lower, upper, 0, 0}, {key, 0})[0] >> 31) != 0;
}

double uniform(uint64_t seed, uint64_t step, uint64_t id, uint64_t element) {
  uint64_t block = element / 4;
  std::array<uint32_t, 4> counter = {static_cast<uint32_t>(block),
                                     static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(id),
                                     static_cast<uint32_t>(step)};
  std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  return (philox(counter, key)[element % 4] >> 8) * 0x1p-24;
}

} // namespace sluice::reference
