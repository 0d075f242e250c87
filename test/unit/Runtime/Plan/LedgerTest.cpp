// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/Ledger.h"
#include "Fixture.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

DeviceStage stage(int64_t threads, int64_t registers, int64_t sharedBytes) {
  DeviceStage made;
  made.threads = threads;
  made.registers = registers;
  made.sharedBytes = sharedBytes;
  return made;
}

// Computed by hand from CUDA's tables of compute capabilities 8.0 and 9.0.
TEST(Ledger, OccupancyFollowsTheLimitingResource) {
  const Chip &a100 = getChip("sm_80"), &h200 = getChip("sm_90a");
  EXPECT_EQ(computeOccupancy(stage(128, 32, 0), a100), 1);     // 16 blocks of 4 warps
  EXPECT_EQ(computeOccupancy(stage(32, 32, 0), a100), 0.5);    // 32 blocks at most
  EXPECT_EQ(computeOccupancy(stage(128, 128, 0), a100), 0.25); // 4096 registers a warp: 16 warps
  EXPECT_EQ(computeOccupancy(stage(128, 97, 0), a100), 0.25);  // 3328 a warp: 4 warps a part
  EXPECT_EQ(computeOccupancy(stage(32, 97, 0), a100), 0.25);   // not 19 warps
  EXPECT_EQ(computeOccupancy(stage(128, 255, 0), a100), 0.125);
  EXPECT_EQ(computeOccupancy(stage(128, 32, 48 << 10), a100),
            12 / 64.0); // 49 KB of 164 KB: 3 blocks
  EXPECT_EQ(computeOccupancy(stage(128, 32, 48 << 10), h200), 16 / 64.0); // of 228 KB: 4
  EXPECT_EQ(computeOccupancy(stage(128, -1, 0), a100), -1);
}

TEST(Ledger, RooflineIsTheMaximumOfArithmeticAndMemoryTime) {
  PlanKernel kernel;
  kernel.kind = "matmul";
  kernel.flops = 312'000'000'000;
  kernel.bytes = 1;
  EXPECT_NEAR(rooflineSeconds(kernel, getChip("sm_80")), 1e-3, 1e-9);
  kernel.kind = "row"; // no tensor cores
  EXPECT_NEAR(rooflineSeconds(kernel, getChip("sm_80")), 16e-3, 1e-9);
  kernel.flops = 0;
  kernel.bytes = 4'800'000'000;
  EXPECT_NEAR(rooflineSeconds(kernel, getChip("sm_90a")), 1e-3, 1e-9);
}

TEST(Ledger, FindsChipsByDriverName) {
  EXPECT_EQ(findChip("NVIDIA H200")->name, "H200");
  EXPECT_EQ(findChip("NVIDIA H100 80GB HBM3")->name, "H100 SXM");
  EXPECT_EQ(findChip("NVIDIA A100-SXM4-80GB")->name, "A100 SXM 80 GB");
  EXPECT_EQ(findChip("NVIDIA GeForce RTX 4090"), nullptr);
}

TEST(Ledger, SumsStages) {
  TemporaryFolder folder;
  Plan plan = gpuBigramArtifact(folder)->plan();
  DeviceVariant &variant = plan.kernels[0].deviceVariants.at("sm_80");
  variant.stages.push_back(variant.stages[0]);
  variant.stages[0].spills = 4;
  variant.stages[1].spills = 8;
  variant.stages[1].registers = 255;
  variant.stages[1].sharedBytes = 1024;
  std::vector<LedgerLine> ledger = makeLedger(plan);
  ASSERT_EQ(ledger.size(), plan.kernels.size());
  EXPECT_EQ(ledger[0].registers, 255);
  EXPECT_EQ(ledger[0].spills, 12);
  EXPECT_EQ(ledger[0].sharedBytes, 1024);
  EXPECT_EQ(ledger[0].occupancy, 8 / 64.0);
}

} // namespace
