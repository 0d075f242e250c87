// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The entry `accumulate` over a range of the sums, which one of several processes computes.
#include "Harness.h"
#include "sluice/Runtime/Device/CPU/CpuDevice.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

using namespace sluice::testing;
using sluice::runtime::Artifact;
using sluice::runtime::Device;
using sluice::runtime::Launch;
using sluice::runtime::Plan;

namespace {

/// The sums of gradients of a model of two batches, whose number of rows `vocabulary` determines.
struct Sums {
  explicit Sums(int64_t vocabulary) {
    std::string spec = R"({"sluice": 1, "vocabulary": )" + std::to_string(vocabulary) +
                       R"(, "context": 8, "batch": 1, "width": 1024,
        "stages": [{"op": "embedding"}, {"op": "head", "tied": true, "bias": false}],
        "training": {"accumulate": 2}})";
    artifact =
        Artifact::load(compile(folder, folder.write("sums.json", spec), "cpu-avx2"), "cpu-avx2");
    device = makeCpuDevice(artifact, 2);
    const Plan &plan = device->plan();
    launch = &plan.entries.at("accumulate").front();
    items = artifact->kernels()[static_cast<size_t>(launch->kernel)].items;
    count = plan.gradientsBytes / 4;
    std::fill_n(getFloats(plan.gradientsOffset), count, 2.0F);
    *reinterpret_cast<int64_t *>(device->host() + plan.scalars.at("first_row").offset) = 1;
  }

  float *getFloats(int64_t offset) { return reinterpret_cast<float *>(device->host() + offset); }

  /// Adds the gradients, 2, to sums of 1 for at least the floats [first, last).
  std::span<const float> add(int64_t first, int64_t last) {
    return add(std::vector<std::pair<int64_t, int64_t>>{{first, last}});
  }
  /// Adds them for at least all of these ranges of floats.
  std::span<const float> add(const std::vector<std::pair<int64_t, int64_t>> &ranges) {
    float *sums = getFloats(*device->plan().gradientSumsOffset);
    std::fill_n(sums, count, 1.0F);
    sluice::runtime::ResultParts parts{{}, 4 * count};
    for (auto [first, last] : ranges) {
      parts.ranges.push_back({4 * first, 4 * (last - first)});
    }
    device->launch(*launch, parts);
    return {sums, static_cast<size_t>(count)};
  }

  Folder folder;
  std::shared_ptr<const Artifact> artifact;
  std::unique_ptr<Device> device;
  const Launch *launch = nullptr;
  int64_t items = 0, count = 0;
};

/// Rows of the sums that divide into equal items, into a smaller last item, and into a single item.
TEST(LaunchItems, ComputesTheRangeAndLittleMore) {
  for (int64_t vocabulary : {3, 8, 9, 65, 300}) {
    Sums sums(vocabulary);
    SCOPED_TRACE(std::to_string(sums.count) + " floats, " + std::to_string(sums.items) + " items");
    for (int64_t parts : {1, 2, 3, 7, 64, 1000}) {
      for (int64_t part : {int64_t(0), parts / 2, parts - 1}) {
        int64_t first = sums.count * part / parts, last = sums.count * (part + 1) / parts;
        std::span<const float> found = sums.add(first, last);
        auto added = std::ranges::count(found, 3.0F), untouched = std::ranges::count(found, 1.0F);
        ASSERT_EQ(added + untouched, sums.count);
        auto range = found.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
        EXPECT_EQ(std::ranges::count(range, 3.0F), last - first) << part << " of " << parts;
        // One item more on each side, and one because the size of an item is known by bounds.
        int64_t each = sums.items > 1 ? sums.count / (sums.items - 1) + 1 : sums.count;
        EXPECT_LE(added, last - first + 3 * each) << part << " of " << parts;
      }
    }
    EXPECT_EQ(std::ranges::count(sums.add(0, 0), 1.0F), sums.count) << "an empty range";
  }
}

/// The optimizer and the sums are in place: an item that ran twice would be wrong.
TEST(LaunchItems, RunsAnItemOfSeveralRangesOnce) {
  Sums sums(300);
  int64_t each = sums.count / sums.items, few = each / 8;
  ASSERT_GT(few, 0);
  // Two ranges of one item, none, and ranges on both sides of the bound of two items.
  std::vector<std::pair<int64_t, int64_t>> ranges = {{few, 2 * few},
                                                     {4 * few, 5 * few},
                                                     {6 * few, 6 * few},
                                                     {3 * each - few, 3 * each},
                                                     {3 * each, 3 * each + few}};
  std::span<const float> found = sums.add(ranges);
  EXPECT_EQ(std::ranges::count(found, 3.0F) + std::ranges::count(found, 1.0F), sums.count);
  for (auto [first, last] : ranges) {
    auto range = found.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
    EXPECT_EQ(std::ranges::count(range, 3.0F), last - first) << first;
  }
}

} // namespace
