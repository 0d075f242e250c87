// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPU code with memory for few segments, on the emulator: a model starts in the minimum memory,
// continues in a larger one, and has the same results as in the maximum. No launch touches memory
// between the rows of its operands.
#include "Harness.h"
#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace sluice::testing;
using sluice::runtime::Access;
using sluice::runtime::Artifact;
using sluice::runtime::Device;
using sluice::runtime::Executor;
using sluice::runtime::Plan;

namespace {

constexpr int64_t context = 24, batch = 2;

/// A model with up to one segment per token.
struct RoomModel {
  const char *name;
  int64_t width;
  const char *rest; ///< of the spec
};

std::string buildSpec(const Folder &folder, const RoomModel &model) {
  return folder.write("words.json",
                      R"({"sluice": 1, "vocabulary": 48, "context": )" + std::to_string(context) +
                          R"(, "batch": )" + std::to_string(batch) + R"(, "width": )" +
                          std::to_string(model.width) + R"(, "precision": {"compute": "bf16"}, )" +
                          model.rest + "}");
}

/// Every `step`-th token of the first text ends a segment, and every `step` + 1-th of the other.
void fill(Executor &executor, int64_t step, int64_t length = context, int64_t rows = batch) {
  Inputs inputs = randomInputs(48, rows, length, 9);
  for (size_t i = 0; i < inputs.tokens.size(); ++i) {
    auto text = i / size_t(length + 1), at = i % size_t(length + 1);
    size_t every = size_t(step) + text;
    bool isSpace = inputs.tokens[i] == ' ' || (inputs.tokens[i] >= 9 && inputs.tokens[i] <= 13);
    inputs.tokens[i] = at % every == every - 1 ? ' ' : isSpace ? 40 : inputs.tokens[i];
  }
  setInputs(executor, inputs);
}

/// The results of a step.
struct Left {
  float loss = 0, norm = 0;
  std::vector<float> losses;
  std::map<std::string, std::vector<float>> gradients, weights;
  bool operator==(const Left &) const = default;
};

Left train(Executor &executor, int64_t step, int64_t length = context, int64_t rows = batch) {
  fill(executor, step, length, rows);
  executor.run("gradient");
  executor.run("update");
  Left left{executor.scalarF32("loss"), executor.scalarF32("grad_norm"), {}, {}, {}};
  for (int64_t row = 0; row < batch; ++row) {
    std::span<const float> losses = executor.outputRow("losses", row);
    left.losses.insert(left.losses.end(), losses.begin(), losses.end());
  }
  for (const sluice::runtime::Tensor &tensor : executor.plan().tensors) {
    std::span<float> gradient = executor.gradient(tensor, Access::Read),
                     weights = executor.tensor(tensor, Access::Read);
    left.gradients[tensor.name].assign(gradient.begin(), gradient.end());
    left.weights[tensor.name].assign(weights.begin(), weights.end());
  }
  return left;
}

/// Losses and logits of the second text, of the entries without training.
std::vector<float> score(Executor &executor) {
  fill(executor, 7);
  executor.run("evaluate");
  std::span<const float> losses = executor.outputRow("losses", 1);
  std::vector<float> all(losses.begin(), losses.end());
  executor.run("predict");
  std::span<const float> logits = executor.outputRow("logits", 1);
  all.insert(all.end(), logits.begin(), logits.end());
  return all;
}

void begin(Executor &executor) {
  executor.scalarI64("seed") = 3;
  executor.run("initialize");
}

/// The minimum memory for a text with a segment every `step` tokens, and the open one.
int64_t roomFor(const Plan &plan, int64_t step, int64_t length) {
  for (const sluice::runtime::Bucket &bucket : plan.memoryBuckets) {
    if (length / step + 1 <= bucket.rows) {
      return bucket.rows;
    }
  }
  return 0;
}

class GpuSegmentMemory : public ::testing::TestWithParam<RoomModel> {};

TEST_P(GpuSegmentMemory, GrowsWithoutChangingResults) {
  Folder folder;
  auto artifact = Artifact::load(
      compileForEmulator(folder, buildSpec(folder, GetParam()), "sm_80", /*generationRows=*/0));
  const Plan &plan = artifact->plan();
  ASSERT_GE(plan.memoryBuckets.size(), 2);
  Executor grows(sluice::runtime::makeEmulatorDevice(artifact)),
      whole(sluice::runtime::makeEmulatorDevice(artifact));
  fill(whole, 1);
  begin(whole);
  whole.run("evaluate"); // a batch with one segment per token
  ASSERT_EQ(whole.room(), 0);
  begin(grows);
  EXPECT_EQ(grows.room(), plan.memoryBuckets[0].rows);
  int64_t room = grows.room(), lengths[] = {context, context - 5, context};
  int64_t steps[] = {6, 3, 2}; // 4, 6 and 12 segments of a text
  for (size_t i = 0; i < std::size(steps); ++i) {
    SCOPED_TRACE("step " + std::to_string(i + 1));
    int64_t needed = roomFor(plan, steps[i], lengths[i]);
    room = room == 0 || needed == 0 ? 0 : std::max(room, needed);
    int64_t rows = i == 1 ? 1 : batch;
    Left found = train(grows, steps[i], lengths[i], rows);
    EXPECT_EQ(grows.room(), room);
    EXPECT_TRUE(found == train(whole, steps[i], lengths[i], rows));
    if (i == 0) {
      EXPECT_EQ(score(grows), score(whole));
    }
  }
}

constexpr const char *distances =
    R"("defaults": {"heads": 2, "feed_forward": 32, "relative": "xl_shared", "dropout": 0.2},
  "stages": [{"op": "embedding"}, {"op": "layer", "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "whitespace"},
    {"op": "shorten", "segments": "words"}, {"op": "shift", "by": 1, "start": "null"},
    {"op": "layer"}, {"op": "upsample", "segments": "words", "by": 0},
    {"op": "add", "with": "fine"}, {"op": "head"}])";
/// No row of a head or of a matrix is aligned to copies of 16 bytes.
constexpr const char *oddHeads =
    R"("defaults": {"heads": 5, "feed_forward": 25}, "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "whitespace"},
    {"op": "shorten", "segments": "words"}, {"op": "layer"},
    {"op": "upsample", "segments": "words"}, {"op": "add", "with": "fine"}, {"op": "head"}])";
/// Groups on segments are computed completely, and segments of segments have their own number of
/// rows.
constexpr const char *groups = R"("defaults": {"heads": 2, "feed_forward": 16},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "whitespace"},
    {"op": "shorten", "segments": "words"}, {"op": "layer", "to": "word"},
    {"op": "boundaries", "name": "parts", "rule": "every", "factor": 2},
    {"op": "shorten", "segments": "parts"}, {"op": "layer"},
    {"op": "upsample", "segments": "parts"}, {"op": "add", "with": "word", "to": "mixed"},
    {"op": "shift", "by": 2}, {"op": "shorten", "factor": 3}, {"op": "layer"},
    {"op": "upsample", "factor": 3}, {"op": "add", "with": "mixed"},
    {"op": "upsample", "segments": "words"}, {"op": "add", "with": "fine"}, {"op": "head"}])";
constexpr const char *attends = R"("defaults": {"heads": 2, "feed_forward": 16},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "words", "rule": "whitespace"},
    {"op": "shorten", "segments": "words"}, {"op": "attend", "over": "fine", "segments": "words"},
    {"op": "layer", "to": "global"},
    {"op": "attend", "from": "fine", "over": "global", "segments": "words", "parts": 2},
    {"op": "head"}])";
constexpr const char *routed = R"("defaults": {"heads": 2, "feed_forward": 16},
  "stages": [{"op": "embedding", "to": "fine"},
    {"op": "boundaries", "name": "routed", "ratio": 4, "at": "start"},
    {"op": "shorten", "segments": "routed", "method": "first"}, {"op": "layer"},
    {"op": "upsample", "segments": "routed", "method": "smooth"}, {"op": "add", "with": "fine"},
    {"op": "head"}])";

INSTANTIATE_TEST_SUITE_P(Models, GpuSegmentMemory,
                         ::testing::Values(RoomModel{"Distances", 32, distances},
                                           RoomModel{"OddHeads", 25, oddHeads},
                                           RoomModel{"Groups", 16, groups},
                                           RoomModel{"Attends", 16, attends}),
                         [](const auto &info) { return std::string(info.param.name); });

/// The first launch of an entry with runs of such an operand, with only these truncated.
std::pair<size_t, sluice::runtime::Launch> withLess(const Plan &plan, const std::string &entry,
                                                    bool isWritten) {
  const auto &launches = plan.entries.at(entry);
  for (size_t i = 0; i < launches.size(); ++i) {
    sluice::runtime::Launch launch = launches[i];
    for (sluice::runtime::Runs &runs : launch.runs) {
      const auto &kernel = plan.kernels[size_t(launch.kernel)];
      if (!launch.axis.empty() && kernel.operands[runs.operand].written == isWritten) {
        runs.bytes = 16;
        return {i, launch};
      }
    }
  }
  return {launches.size(), {}};
}

/// Memory between the rows of an operand belongs to another tensor.
TEST(GpuSegmentMemory, ReportsAccessesBetweenRuns) {
  Folder folder;
  auto artifact = Artifact::load(compileForEmulator(
      folder, buildSpec(folder, RoomModel{"Groups", 16, groups}), "sm_80", /*generationRows=*/0));
  const Plan &plan = artifact->plan();
  std::string entry = sluice::runtime::entryOfBucket("gradient", plan.memoryBuckets[0].rows);
  for (bool isWritten : {true, false}) {
    auto [number, launch] = withLess(plan, entry, isWritten);
    const auto &launches = plan.entries.at(entry);
    ASSERT_LT(number, launches.size());
    std::unique_ptr<Device> device = sluice::runtime::makeEmulatorDevice(artifact);
    auto put = [&](const char *scalar, int64_t value) {
      std::memcpy(device->host() + plan.scalars.at(scalar).offset, &value, sizeof value);
    };
    put("length", context);
    put("rows", batch);
    put("room", plan.memoryBuckets[0].rows);
    device->run("initialize", plan.entries.at("initialize"));
    device->runPart(entry, launches, 0, number); // of token 0 alone: no segment ends
    try {
      device->launch(launch);
      FAIL() << "nothing was reported";
    } catch (const sluice::JobError &error) {
      std::string message = error.what();
      EXPECT_NE(message.find("out of bounds"), std::string::npos) << message;
      EXPECT_NE(message.find(isWritten ? "'a text's rows of a result' + 16 of 16 bytes"
                                       : "'a text's rows of an operand' + 16 of 16 bytes"),
                std::string::npos)
          << message;
    }
    device->launch(launches[number]); // unchanged, there is no violation
  }
}

/// Compares bits of a router with launches of the complete capacity. The router starts as the
/// identity, and so sets no bit between equal tokens: runs of four leave space.
TEST(GpuSegmentMemory, FitsSegmentsOfARouter) {
  Folder folder;
  auto artifact = Artifact::load(compileForEmulator(
      folder, buildSpec(folder, RoomModel{"Routed", 16, routed}), "sm_80", /*generationRows=*/0));
  const Plan &plan = artifact->plan();
  Executor executor(sluice::runtime::makeEmulatorDevice(artifact));
  begin(executor);
  Inputs inputs = randomInputs(48, batch, context, 9);
  for (size_t i = 0; i < inputs.tokens.size(); ++i) {
    inputs.tokens[i] = inputs.tokens[i - i % 4];
  }
  setInputs(executor, inputs);
  executor.run("gradient");
  ASSERT_GT(executor.room(), 0) << "hardly a test";
  std::unique_ptr<Device> whole = sluice::runtime::makeEmulatorDevice(artifact);
  auto put = [&](const char *scalar, int64_t value) {
    std::memcpy(whole->host() + plan.scalars.at(scalar).offset, &value, sizeof value);
  };
  put("seed", 3);
  whole->run("initialize", plan.entries.at("initialize"));
  for (const char *scalar : {"length", "rows", "seed", "step"}) {
    put(scalar, executor.scalarI64(scalar));
  }
  std::ranges::copy(executor.tokens(),
                    reinterpret_cast<int32_t *>(whole->host() + plan.inputs.at("tokens").offset));
  whole->run("gradient", plan.entries.at("gradient"));
  auto atWhole = [&](int64_t offset, std::span<const float> found) {
    return std::memcmp(whole->host() + offset, found.data(), found.size_bytes()) == 0;
  };
  for (const sluice::runtime::Tensor &tensor : plan.tensors) {
    EXPECT_TRUE(atWhole(tensor.gradient, executor.gradient(tensor, Access::Read))) << tensor.name;
  }
  EXPECT_TRUE(atWhole(plan.outputs.at("losses").offset, executor.outputRow("losses", 0)));
}

} // namespace
