// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Execute/UpdateDivision.h"

#include "sluice/Support/Error.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::runtime;

namespace {

constexpr int64_t rows = 5, rowBytes = 4096, bytes = rows * rowBytes;
constexpr int64_t sums = 0, weights = bytes, first = 2 * bytes, second = 3 * bytes,
                  copies = 4 * bytes, squares = 5 * bytes, norm = 6 * bytes;

/// Adds a kernel with these operands, and a launch of it to an entry.
void addLaunch(Plan &plan, const std::string &entry,
               const std::vector<std::pair<MemoryRange, bool>> &operands) {
  PlanKernel kernel;
  Launch launch;
  launch.kernel = std::ssize(plan.kernels);
  for (const auto &[range, isWritten] : operands) {
    kernel.operands.push_back({range.bytes, isWritten});
    launch.arguments.push_back(range.offset);
  }
  plan.kernels.push_back(kernel);
  plan.entries[entry].push_back(launch);
}

/// The update that the compiler builds: squares of rows, the norm, and the optimizer in place.
Plan makePlan(bool hasCopies) {
  Plan plan;
  plan.gradientSumsOffset = sums;
  plan.gradientsBytes = bytes;
  plan.tensors = {{"a", {1024}, weights, 0, {{"m", first}, {"v", second}}},
                  {"b", {4096}, weights + 4096, 0, {{"m", first + 4096}, {"v", second + 4096}}}};
  addLaunch(plan, "update", {{{sums, bytes}, false}, {{squares, rows * 4}, true}});
  addLaunch(plan, "update", {{{squares, rows * 4}, false}, {{norm, 4}, true}});
  std::vector<std::pair<MemoryRange, bool>> operands = {{{sums, bytes}, false},
                                                        {{norm, 4}, false},
                                                        {{weights, bytes}, true},
                                                        {{first, bytes}, true},
                                                        {{second, bytes}, true}};
  if (hasCopies) {
    operands.push_back({{copies, bytes / 2}, true});
    addLaunch(plan, "prepare", {{{weights, bytes}, false}, {{copies, bytes / 2}, true}});
  }
  addLaunch(plan, "update", operands);
  return plan;
}

std::vector<int64_t> getOffsets(const std::vector<MemoryRange> &ranges) {
  std::vector<int64_t> offsets;
  for (const MemoryRange &range : ranges) {
    offsets.push_back(range.offset);
  }
  return offsets;
}

TEST(UpdateDivision, DividesLaunchesOverTheGradients) {
  UpdateDivision division = UpdateDivision::derive(makePlan(false), "model.sla");
  ASSERT_EQ(division.launches.size(), 3U);
  EXPECT_TRUE(division.launches[0].isDivided);
  EXPECT_FALSE(division.launches[1].isDivided);
  EXPECT_TRUE(division.launches[2].isDivided);
  EXPECT_EQ(getOffsets(division.launches[0].gathered), std::vector{squares});
  EXPECT_EQ(getOffsets(division.launches[2].gathered), std::vector{weights});
  EXPECT_EQ(getOffsets(division.states), (std::vector{first, second}));
  EXPECT_EQ(division.rows, rows);
  EXPECT_FALSE(division.hasCopies);
}

TEST(UpdateDivision, LeavesComputeCopiesToPrepare) {
  UpdateDivision division = UpdateDivision::derive(makePlan(true), "model.sla");
  EXPECT_EQ(getOffsets(division.launches[2].gathered), std::vector{weights});
  EXPECT_TRUE(division.hasCopies);
}

void expectRejected(const Plan &plan) {
  try {
    UpdateDivision::derive(plan, "model.sla");
    ADD_FAILURE();
  } catch (const UserError &error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("model.sla: expected an update that processes can divide"))
        << error.what();
  }
}

TEST(UpdateDivision, RejectsOtherUpdates) {
  Plan plan = makePlan(false);
  plan.gradientSumsOffset.reset(); // one batch
  expectRejected(plan);
  plan = makePlan(false);
  addLaunch(plan, "update", {{{weights, bytes}, true}}); // of all rows, without their gradients
  expectRejected(plan);
  plan = makePlan(false);
  plan.tensors.back().states["other"] = squares + 64; // which no launch over gradients updates
  expectRejected(plan);
  plan = makePlan(false);
  plan.kernels[2].operands[4].bytes = bytes - 4; // not of complete rows
  expectRejected(plan);
  plan = makePlan(false);
  plan.kernels[0].operands.clear(); // as in artifacts of earlier versions
  expectRejected(plan);
}

} // namespace
