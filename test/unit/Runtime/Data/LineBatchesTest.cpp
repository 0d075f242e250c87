// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batches of lines by length.
#include "sluice/Runtime/Data/LineBatches.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace sluice::runtime;

namespace {

constexpr int64_t context = 1024, mostTokens = 9600, mostRows = 300;

/// Shapes of `mostRows` lines at most, and an input of the same context.
Plan makePlan() {
  Plan plan;
  plan.batchTokens = mostTokens;
  plan.model.context = context;
  for (int64_t parts = 1; plan.shapes.empty() || plan.shapes.back().rows < mostRows; parts *= 2) {
    int64_t capacity = context / parts;
    plan.shapes.push_back({std::min(mostRows, mostTokens / capacity), parts, capacity, {}});
    plan.shapes.back().given["source"] = capacity;
  }
  return plan;
}

/// LineLengths like the paragraphs of debian-handbook in English and German: the latter are a sixth
/// longer, with a deviation of an eighth.
std::vector<LineBatches::LineLengths> drawLengths(size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<double> size(5.5, 0.7), ratio(1.17, 0.125);
  std::vector<LineBatches::LineLengths> axes(2);
  for (size_t i = 0; i < count; ++i) {
    double length = std::exp(size(generator));
    for (double factor : {1.0, ratio(generator)}) {
      auto tokens = static_cast<int32_t>(std::clamp(length * factor, 1.0, double(context)));
      axes[factor == 1.0 ? 0 : 1].push_back(tokens);
    }
  }
  return axes;
}

class LineBatchesTest : public ::testing::Test {
protected:
  /// Calls `action` with each batch of an epoch, in order.
  template <typename Action> void eachBatch(int64_t epoch, const Action &action) const {
    for (int64_t index = 0; index < batches.countLines();) {
      const LineBatches::Batch *batch = batches.find({epoch, index});
      ASSERT_NE(batch, nullptr) << "at " << index;
      ASSERT_EQ(batch->first, index);
      ASSERT_EQ(std::ssize(batch->indices), batch->size.rows);
      action(*batch);
      index += batch->size.rows;
    }
  }
  int64_t getLongest(const LineBatches::Batch &batch, int64_t epoch, size_t axis) const {
    int32_t longest = 0;
    for (int64_t index : batch.indices) {
      longest = std::max(longest, axes[axis][size_t(batches.getLine(epoch, index))]);
    }
    return longest;
  }

  Plan plan = makePlan();
  std::vector<LineBatches::LineLengths> axes = drawLengths(20000);
  LineBatches batches{plan, axes, 7};
};

TEST_F(LineBatchesTest, EpochHasEachLineOnce) {
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch : {0, 1}) {
    std::vector<int64_t> lines;
    eachBatch(epoch, [&](const LineBatches::Batch &batch) {
      for (int64_t index : batch.indices) {
        lines.push_back(batches.getLine(epoch, index));
      }
    });
    orders.push_back(lines);
    std::ranges::sort(lines);
    for (int64_t line = 0; line < batches.countLines(); ++line) {
      ASSERT_EQ(lines[size_t(line)], line);
    }
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST_F(LineBatchesTest, BatchFitsItsShapeAndNoSmallerOne) {
  std::vector<int64_t> count(plan.shapes.size());
  eachBatch(0, [&](const LineBatches::Batch &batch) {
    int64_t length = getLongest(batch, 0, 0), source = getLongest(batch, 0, 1);
    EXPECT_EQ(batch.size.length, length);
    EXPECT_LE(std::max(length, source) * batch.size.rows, mostTokens);
    auto fits = [&](size_t number) {
      const BatchShape &shape = plan.shapes[number];
      return batch.size.rows <= shape.rows && length <= shape.context &&
             source <= shape.given.at("source");
    };
    EXPECT_TRUE(fits(batch.size.shape));
    EXPECT_FALSE(batch.size.shape + 1 < plan.shapes.size() && fits(batch.size.shape + 1));
    ++count[batch.size.shape];
  });
  EXPECT_GT(count.front(), 0);
  EXPECT_GT(count[3], 0);
}

// Padding to the longest line of a batch. Rows after a line's own count need not be computed.
TEST_F(LineBatchesTest, FewTokensArePadding) {
  for (size_t axis : {0, 1}) {
    int64_t tokens = 0, padded = 0;
    eachBatch(0, [&](const LineBatches::Batch &batch) {
      padded += getLongest(batch, 0, axis) * batch.size.rows;
      for (int64_t index : batch.indices) {
        tokens += axes[axis][size_t(batches.getLine(0, index))];
      }
    });
    EXPECT_LT(1 - double(tokens) / double(padded), 0.08) << "axis " << axis;
  }
}

TEST_F(LineBatchesTest, BatchesAreCountedFromAnyPosition) {
  int64_t number = 0, all = batches.count({0, 0}, 1);
  std::vector<DataPosition> positions;
  eachBatch(0, [&](const LineBatches::Batch &batch) { positions.push_back({0, batch.first}); });
  EXPECT_EQ(all, std::ssize(positions));
  for (const DataPosition &position : positions) {
    if (number % 300 == 0) {
      EXPECT_EQ(batches.count(position, 1), all - number);
      EXPECT_EQ(batches.count(position, 3), all - number + batches.count({1, 0}, 3));
    }
    ++number;
  }
  EXPECT_EQ(batches.count({3, 0}, 3), 0);
}

TEST_F(LineBatchesTest, PositionInsideABatchHasNone) {
  const LineBatches::Batch &first = *batches.find({0, 0});
  ASSERT_GT(first.size.rows, 1);
  EXPECT_EQ(batches.find({0, 1}), nullptr);
  EXPECT_EQ(batches.find({0, batches.countLines()}), nullptr);
}

// A resumed run begins at any position.
TEST_F(LineBatchesTest, BatchDependsOnItsPositionAlone) {
  std::vector<LineBatches::Batch> in;
  eachBatch(1, [&](const LineBatches::Batch &batch) { in.push_back(batch); });
  for (size_t i = in.size(); i-- > 0;) {
    if (i % 100 == 0) {
      LineBatches fresh(plan, axes, 7);
      EXPECT_EQ(fresh.find({1, in[i].first})->indices, in[i].indices);
    }
  }
}

} // namespace
