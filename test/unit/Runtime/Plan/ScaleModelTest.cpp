// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The bigram model's plan counts 32832 operations of the forward pass, 2 times 16384 of the
// backward pass and 197888 of the update, for 4 rows.
#include "sluice/Runtime/Plan/ScaleModel.h"
#include "Fixture.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// A million operations and 100,000 bytes a second, 10 ms a message.
constexpr ScaleMachine slow = {1e6, 0, 1e5, 0.01};

/// The gradients of the table, 65536 bytes, and of the bias, 512 bytes.
Plan twoBuckets() {
  nlohmann::json json = bigramPlan();
  json["gradients"]["buckets"] = {0, 65536};
  return parsePlan(json.dump(), "plan");
}

TEST(ScaleModel, OneProcessTakesTheCountedOperations) {
  Plan plan = twoBuckets();
  ScalePoint point = ScaleModel(plan, slow, {}).predict(1);
  EXPECT_EQ(point.rows, 4);
  EXPECT_NEAR(point.compute, 0.0656, 1e-12);
  EXPECT_NEAR(point.update, 0.197888, 1e-12);
  EXPECT_NEAR(point.step, 0.263488, 1e-12);
  EXPECT_NEAR(point.tokensPerSecond, 4 * 16 / 0.263488, 1e-9);
  EXPECT_EQ(point.efficiency, 1);
  EXPECT_EQ(point.shardedStep, point.step);
  EXPECT_EQ(point.allReduce + point.exposed + point.agreement + point.sentBytes, 0);
}

TEST(ScaleModel, TwoProcessesByHand) {
  Plan plan = twoBuckets();
  ScaleModel model(plan, slow, {});
  ASSERT_EQ(model.buckets().size(), 2u);
  EXPECT_EQ(model.buckets()[0].bytes, 65536);
  EXPECT_NEAR(model.buckets()[0].ready, 0.5,
              1e-12); // the table's gradient, the first of 2 launches
  EXPECT_EQ(model.buckets()[1].bytes, 512);
  EXPECT_NEAR(model.buckets()[1].ready, 1, 1e-12);
  ScalePoint point = model.predict(2);
  EXPECT_EQ(point.rows, 2);
  EXPECT_NEAR(point.compute, 0.0328, 1e-12);
  // A process sends half of each bucket, 10 ms + 327.68 ms and 10 ms + 2.56 ms, and half of the
  // sums, 10 ms + 330.24 ms.
  EXPECT_NEAR(point.allReduce, 0.33768 + 0.01256 + 0.34024, 1e-12);
  EXPECT_EQ(point.exposed, point.allReduce);
  EXPECT_NEAR(point.agreement, 0.02, 1e-12); // before the step, and before its exchange
  EXPECT_NEAR(point.step, 0.0328 + 0.197888 + 0.69048 + 0.02, 1e-12);
  EXPECT_NEAR(point.efficiency, 0.263488 / (2 * 0.941168), 1e-9);
  // Half of the update, and a message for the norm.
  EXPECT_NEAR(point.shardedStep, point.step - 0.098944 + 0.01, 1e-12);
  EXPECT_EQ(point.sentBytes, 66048);
  EXPECT_EQ(point.memoryBytes, 300352 + 2 * 66048); // received parts and sums
  EXPECT_EQ(point.savedBytes, 66048 + 33024);       // half of two moments and of the sums

  ScaleOptions options;
  options.overlaps = true;
  // The table's bucket begins at half of the 16.384 ms of the backward pass.
  ScalePoint hidden = ScaleModel(plan, slow, options).predict(2);
  EXPECT_NEAR(hidden.exposed, 0.5 * 0.016384 + 0.69048 - 0.016384, 1e-12);
  EXPECT_NEAR(hidden.shardedStep, hidden.step - 0.098944 + 0.01, 1e-12);
  // On a fast network only the bias, which is complete last, and the gathered sums are exposed.
  ScaleMachine fast{1e6, 0, 1e9, 0};
  EXPECT_NEAR(ScaleModel(plan, fast, options).predict(2).exposed, (256 + 33024) / 1e9, 1e-15);
}

/// Each process computes two batches of two: their gradients are exchanged twice, the sums once.
TEST(ScaleModel, RoundsOfBatches) {
  Plan plan = twoBuckets();
  ScaleOptions options;
  options.rows = 16;
  ScalePoint point = ScaleModel(plan, slow, options).predict(2);
  EXPECT_EQ(point.rows, 8);
  EXPECT_NEAR(point.allReduce, 2 * 0.35024 + 0.34024, 1e-12);
  EXPECT_EQ(point.exposed, point.allReduce);
  EXPECT_EQ(point.sentBytes, 3 * 33024);
  EXPECT_NEAR(point.agreement, 0.03, 1e-12);
  EXPECT_NEAR(point.shardedStep, point.step - 0.098944 + 0.01, 1e-12);
  EXPECT_NEAR(ScaleModel(plan, slow, options).predict(8).allReduce, // one round of 8 batches of 2
              7 * (3 * 0.01 + 2 * 0.66048 / 8), 1e-12);
  options.overlaps = true;
  // Each backward pass has 32.768 ms, half of them after the table's gradient.
  EXPECT_NEAR(ScaleModel(plan, slow, options).predict(2).exposed,
              2 * 0.35024 + 0.34024 - 2 * 0.016384, 1e-12);
}

TEST(ScaleModel, WeakScalingKeepsTheRowsOfAProcess) {
  Plan plan = twoBuckets();
  ScaleOptions options;
  options.isWeak = true;
  options.rows = 3;
  ScalePoint point = ScaleModel(plan, slow, options).predict(4);
  EXPECT_EQ(point.rows, 3);
  EXPECT_NEAR(point.compute, 0.0492, 1e-12);
  EXPECT_NEAR(point.tokensPerSecond, 12 * 16 / point.step, 1e-9);
  EXPECT_NEAR(point.efficiency, (0.0492 + 0.197888) / point.step, 1e-12);
  EXPECT_NEAR(point.agreement, 0.06, 1e-12); // two of three messages
}

/// Memory slows launches, and the sums of received parts.
TEST(ScaleModel, LaunchesTakeTheTimeOfTheirBytes) {
  Plan plan = twoBuckets();
  ScaleMachine machine = slow;
  machine.memory = 1e5;
  ScaleModel model(plan, machine, {});
  // 165.120 ms of operations and 660.48 ms of bytes; 32.768 and 5.12 ms of the norm.
  EXPECT_NEAR(model.costs().update, 0.66048 + 0.032768, 1e-12);
  // A process adds its half of both batches to the sums, which are read and written.
  EXPECT_NEAR(model.predict(2).compute - model.predict(1).compute / 2, 3 * 0.66048, 1e-12);
}

/// Neither a faster network, nor overlap, nor more processes of weak scaling may break these.
TEST(ScaleModel, Invariants) {
  Plan plan = twoBuckets();
  for (bool overlaps : {false, true}) {
    for (int64_t buckets : {0, 1, 5}) {
      ScaleOptions options;
      options.isWeak = true;
      options.overlaps = overlaps;
      options.buckets = buckets;
      ScaleMachine fast = slow, quick = slow;
      fast.bandwidth *= 10;
      quick.latency /= 10;
      ScaleModel model(plan, slow, options), wide(plan, fast, options), near(plan, quick, options);
      options.overlaps = false;
      ScaleModel serial(plan, slow, options);
      double before = 0;
      int64_t bytes = 0;
      for (const ScaleBucket &bucket : model.buckets()) {
        bytes += bucket.bytes;
      }
      EXPECT_EQ(bytes, plan.gradientsBytes);
      for (int64_t processes = 1; processes <= 1024; processes *= 2) {
        ScalePoint point = model.predict(processes);
        EXPECT_EQ(point.allReduce + point.agreement > 0, processes > 1);
        EXPECT_LE(before, point.step);
        before = point.step;
        EXPECT_LE(wide.predict(processes).step, point.step);
        EXPECT_LE(near.predict(processes).step, point.step);
        EXPECT_LE(point.step, serial.predict(processes).step);
        EXPECT_LE(point.exposed, point.allReduce);
        EXPECT_LE(point.efficiency, 1);
        EXPECT_LE(point.savedBytes, static_cast<double>(model.stateBytes() + plan.gradientsBytes));
      }
    }
  }
}

ScaleModel calibrated(const Plan &plan, std::vector<MeasuredStep> steps) {
  ScaleOptions options;
  options.steps = std::move(steps);
  return {plan, slow, options};
}

TEST(ScaleModel, MeasuredStepsAreMet) {
  Plan plan = twoBuckets();
  ScaleModel one = calibrated(plan, {{4, 0.526976}}); // twice the counted time
  EXPECT_NEAR(one.costs().efficiency, 0.5, 1e-12);
  EXPECT_NEAR(one.costs().update, 2 * 0.197888, 1e-12);
  EXPECT_NEAR(one.predict(1).step, 0.526976, 1e-12);

  ScaleModel two = calibrated(plan, {{2, 1.0}, {4, 1.1}});
  ScalePoint whole = two.predict(1), half = two.predict(2);
  EXPECT_NEAR(whole.step, 1.1, 1e-12);
  EXPECT_NEAR(half.compute + half.update, 1.0, 1e-12);
  // The plan counts 230.688 and 263.488 ms: the factor of least squares.
  double factor = (0.230688 * 1.0 + 0.263488 * 1.1) / (0.230688 * 0.230688 + 0.263488 * 0.263488);
  EXPECT_NEAR(two.costs().update, 0.197888 * factor, 1e-12);
  EXPECT_NEAR(two.costs().update + two.costs().other, 0.9, 1e-12);
  // A line that begins below the update: all parts have the factor.
  ScaleModel steep = calibrated(plan, {{1, 0.1}, {2, 0.4}});
  factor = (0.214288 * 0.1 + 0.230688 * 0.4) / (0.214288 * 0.214288 + 0.230688 * 0.230688);
  EXPECT_EQ(steep.costs().other, 0);
  EXPECT_NEAR(steep.predict(1).step, 0.263488 * factor, 1e-12);
  EXPECT_NE(userError([&] { calibrated(plan, {{2, 1.0}, {4, 0.9}}); }).find("--step"),
            std::string::npos);
}

/// A layer on rows of 4 tokens whose heads share keys: 4 rows of a text, 8 columns, keys and values
/// of 4.
TEST(ScaleModel, BytesOfBlocks) {
  Plan plan = twoBuckets();
  EXPECT_TRUE(ScaleModel(plan, slow, {}).listBlocks().empty());
  plan.facts = SpecFacts();
  plan.facts->compute = "bf16";
  plan.facts->residual = "f32";
  plan.facts->streams = {{"stages.1", StreamFacts::RowAxis::tokens, "", 4, "", ""}};
  auto add = [&](const char *name, std::vector<int64_t> shape) {
    plan.tensors.push_back({name, std::move(shape), 0, 0, {}, false, false});
  };
  add("stages.1.attention.key.weight", {4, 8});
  add("stages.1.attention.value.weight", {4, 8});
  add("stages.1.attention.output.weight", {8, 8});
  add("stages.1.feed_forward.out.weight", {8, 32});
  add("stages.10.attention.output.weight", {8, 8}); // of no stream
  ScaleModel model(plan, slow, {});
  std::vector<ScaleBlocks> blocks = model.listBlocks();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].rows, 4);
  EXPECT_EQ(blocks[0].attention, 1);
  EXPECT_EQ(blocks[0].feedForward, 1);
  EXPECT_EQ(blocks[0].tensorBytes, 4 * 8 * 4);
  EXPECT_EQ(blocks[0].sequenceBytes, 4 * (4 + 4) * 2);
  // Four texts: four all-reduces of 512 bytes, half of which are sent twice; 256 bytes of keys and
  // values.
  ScaleTraffic tensor = model.predictTensorParallel(2), sequence = model.predictSequenceParallel(2);
  EXPECT_EQ(tensor.sentBytes, 4 * 512);
  EXPECT_NEAR(tensor.seconds, 4 * 2 * (0.01 + 0.00256), 1e-12);
  EXPECT_EQ(sequence.sentBytes, 256);
  EXPECT_NEAR(sequence.seconds, 2 * (0.01 + 0.00128), 1e-12);
}

TEST(ScaleModel, RejectsWhatItCannotPredict) {
  Plan plan = twoBuckets();
  EXPECT_NE(
      userError([&] { ScaleModel(plan, slow, {}).predict(3); }).find("4 rows of a step, found 3"),
      std::string::npos);
  plan.entries.erase("gradient");
  EXPECT_NE(userError([&] { ScaleModel(plan, slow, {}); }).find("a spec that trains"),
            std::string::npos);
}

} // namespace
