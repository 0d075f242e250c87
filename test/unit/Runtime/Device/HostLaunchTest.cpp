// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Device/HostLaunch.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace sluice::runtime;

namespace {

/// Returns the number of pages of the memory that are in use.
int64_t countPages(std::span<uint8_t> memory, size_t page) {
  std::vector<unsigned char> used(memory.size() / page);
  EXPECT_EQ(::mincore(memory.data(), memory.size(), used.data()), 0);
  return std::ranges::count_if(used, [](unsigned char each) { return (each & 1) != 0; });
}

TEST(HostLaunch, ReleasesCompletePages) {
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t pages = 1024, first = 3 * page - 5, count = 500 * page; // from and to the middle of a page
  HostMemory memory = allocateHost(pages * page);
  std::span<uint8_t> all(memory.get(), pages * page), part = all.subspan(first, count);
  std::ranges::fill(all, uint8_t(7));
  ASSERT_EQ(countPages(all, page), static_cast<int64_t>(pages));
  releasePages(part);
  EXPECT_EQ(countPages(all, page), static_cast<int64_t>(pages) - 499);
  EXPECT_EQ(all[first], 7);
  EXPECT_EQ(all[3 * page], 0);
  EXPECT_EQ(all[502 * page - 1], 0);
  EXPECT_EQ(all[502 * page], 7);
  releasePages(all.subspan(10, page)); // no complete page
  EXPECT_EQ(all[10], 7);
  releasePages({});
}

} // namespace
