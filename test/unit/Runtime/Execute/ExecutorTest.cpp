// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Support/Error.h"

#include <cmath>
#include <cstring>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

void fillTokens(Executor &executor, int64_t length, int64_t rows) {
  std::string text = easyText(executor.tokens().size());
  std::copy(text.begin(), text.end(), executor.tokens().begin());
  executor.scalarI64("length") = length;
  executor.scalarI64("rows") = rows;
}

/// Five steps of training; then every tensor and state as bytes.
std::string trainedBytes(const std::shared_ptr<const Artifact> &artifact, int threads) {
  Executor executor(artifact, threads);
  executor.scalarI64("seed") = 3;
  executor.run("initialize");
  fillTokens(executor, 13, 3);
  for (int step = 1; step <= 5; ++step) {
    executor.scalarI64("step") = step;
    executor.run("gradient");
    executor.run("update");
  }
  std::string bytes;
  auto add = [&](std::span<const float> values) {
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size_bytes());
  };
  for (const Tensor &tensor : executor.plan().tensors) {
    add(executor.tensor(tensor));
    add(executor.gradient(tensor));
    add(executor.state(tensor, "adam.v"));
  }
  return bytes;
}

TEST(Executor, ArenaStartsZeroedWithConstants) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  for (const Tensor &tensor : executor.plan().tensors) {
    for (float value : executor.tensor(tensor)) {
      ASSERT_EQ(value, 0);
    }
  }
  executor.scalarI64("step") = 20;
  executor.run("update"); // reads its rate from the constants
  EXPECT_FLOAT_EQ(executor.scalarF32("learning_rate"), 0.05f);
}

TEST(Executor, UntrainedModelScoresUniformly) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 2);
  fillTokens(executor, 9, 3);
  executor.run("evaluate"); // all tensors are zero
  for (int64_t row = 0; row < 4; ++row) {
    for (size_t t = 0; t < 16; ++t) {
      EXPECT_NEAR(executor.outputRow("losses", row)[t], row < 3 && t < 9 ? std::log(128.0) : 0,
                  1e-4);
    }
  }
  EXPECT_NEAR(executor.scalarF32("loss"), std::log(128.0), 1e-4);
}

TEST(Executor, ResultsDoNotDependOnThreads) {
  TemporaryFolder folder;
  auto artifact = bigramArtifact(folder);
  std::string one = trainedBytes(artifact, 1);
  for (int threads : {2, 3, 4, 7}) {
    EXPECT_TRUE(trainedBytes(artifact, threads) == one) << threads << " threads";
  }
}

TEST(Executor, GuardSkipsLaunches) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 2);
  executor.run("initialize");
  fillTokens(executor, 16, 4);
  executor.scalarI64("step") = 1;
  executor.run("gradient");
  const Tensor &table = executor.plan().tensors[0];
  std::vector<float> before(executor.tensor(table).begin(), executor.tensor(table).end());
  executor.gradient(table)[5] = NAN;
  executor.run("update");
  EXPECT_EQ(executor.scalarI32("finite"), 0);
  EXPECT_EQ(std::memcmp(before.data(), executor.tensor(table).data(), before.size() * 4), 0);
  executor.gradient(table)[5] = 1;
  executor.run("update");
  EXPECT_EQ(executor.scalarI32("finite"), 1);
  EXPECT_NE(std::memcmp(before.data(), executor.tensor(table).data(), before.size() * 4), 0);
}

TEST(Executor, TimesLaunchesByKernel) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  fillTokens(executor, 16, 4);
  executor.startTiming();
  executor.run("evaluate");
  executor.run("evaluate");
  EXPECT_EQ(executor.times()[1].launches, 2);
  EXPECT_GT(executor.times()[1].seconds, 0);
  EXPECT_EQ(executor.times()[3].launches, 0);
}

TEST(Executor, NamesMissingParts) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  EXPECT_NE(userError([&] {
              executor.scalarF32("length");
            }).find("\"length\" of type f32, found type i64"),
            std::string::npos);
  EXPECT_NE(userError([&] { executor.run("prefill"); }).find("\"prefill\""), std::string::npos);
  EXPECT_NE(userError([&] { executor.outputRow("logits", 4); }).find("\"logits\""),
            std::string::npos);
}

} // namespace
