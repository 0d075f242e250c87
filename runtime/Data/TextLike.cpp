// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/TextLike.h"

#include "sluice/Support/Hash.h"

#include <algorithm>
#include <vector>

namespace sluice::runtime {
namespace {

struct TokenShare {
  int32_t byte, count;
};

/// Frequencies per 10,000 of the bytes of the GNU Collaborative International Dictionary of English
/// (Debian's dict-gcide, 40 MB, the training data of the demo). Rarer bytes are omitted.
constexpr TokenShare dictionary[] = {
    // clang-format off
    {10, 301}, {32, 2380}, {34, 37}, {38, 4}, {39, 6}, {40, 26}, {41, 26}, {42, 30}, {43, 5},
    {44, 127}, {45, 62}, {46, 255}, {48, 1}, {49, 118}, {50, 8}, {51, 57}, {52, 2}, {53, 4},
    {54, 1}, {55, 1}, {56, 1}, {57, 54}, {58, 6}, {59, 55}, {61, 3}, {63, 6}, {65, 28}, {66, 12},
    {67, 21}, {68, 9}, {69, 10}, {70, 12}, {71, 10}, {72, 9}, {73, 11}, {74, 5}, {75, 1}, {76, 14},
    {77, 12}, {78, 9}, {79, 14}, {80, 16}, {81, 1}, {82, 8}, {83, 37}, {84, 28}, {85, 5}, {86, 2},
    {87, 62}, {89, 1}, {90, 3}, {91, 97}, {92, 66}, {93, 97}, {94, 5}, {96, 12}, {97, 459},
    {98, 141}, {99, 192}, {100, 186}, {101, 748}, {102, 134}, {103, 116}, {104, 210}, {105, 405},
    {106, 7}, {107, 39}, {108, 250}, {109, 134}, {110, 407}, {111, 456}, {112, 139}, {113, 8},
    {114, 440}, {115, 388}, {116, 485}, {117, 159}, {118, 59}, {119, 68}, {120, 14}, {121, 88},
    {122, 7}, {123, 35}, {125, 34}, {126, 1},
    // clang-format on
};

/// Returns the prefix sums of the ids' shares.
std::vector<double> sumShares(int64_t vocabulary) {
  std::vector<double> sums(static_cast<size_t>(vocabulary), 0);
  if (vocabulary == 256) {
    for (const TokenShare &share : dictionary) {
      sums[static_cast<size_t>(share.byte)] = share.count;
    }
  } else {
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = 1 / (static_cast<double>(i) + 1);
    }
  }
  for (size_t i = 1; i < sums.size(); ++i) {
    sums[i] += sums[i - 1];
  }
  return sums;
}

} // namespace

void fillTextLike(std::span<int32_t> tokens, int64_t vocabulary) {
  std::vector<double> sums = sumShares(vocabulary);
  for (size_t i = 0; i < tokens.size(); ++i) {
    double drawn = static_cast<double>(mix64(i) >> 11) * 0x1p-53 * sums.back();
    auto found = std::upper_bound(sums.begin(), sums.end() - 1, drawn);
    tokens[i] = static_cast<int32_t>(found - sums.begin());
  }
}

} // namespace sluice::runtime
