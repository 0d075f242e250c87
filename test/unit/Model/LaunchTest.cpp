// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches per stage of a training step. test/Driver/launches.test has the complete list of one
// model.
#include "Harness.h"
#include "Specs.h"

#include <gtest/gtest.h>

using namespace sluice::testing;

namespace {

/// Launches of the entry `gradient`.
struct Launches {
  int64_t forward = 0, backward = 0;
  bool operator==(const Launches &) const = default;
};

std::ostream &operator<<(std::ostream &out, const Launches &launches) {
  return out << launches.forward << " forward, " << launches.backward << " backward";
}

int64_t count(const std::string &text, const std::string &word) {
  int64_t times = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++times;
  }
  return times;
}

/// An entry of plan IR, which needs no machine code.
std::string getEntryText(const std::string &plan, const std::string &name) {
  size_t begin = plan.find("plan.entry @" + name);
  EXPECT_NE(begin, std::string::npos) << "no entry " << name;
  return plan.substr(begin, plan.find("\n  }", begin) - begin);
}

Launches getLaunches(const std::string &stages) {
  Folder folder;
  std::string plan = emit(folder.write("model.json", buildStack(stages)), "plan");
  std::string entry = getEntryText(plan, "gradient");
  return {count(entry, "phase \"forward\""), count(entry, "phase \"backward\"")};
}

Launches operator-(const Launches &left, const Launches &right) {
  return {left.forward - right.forward, left.backward - right.backward};
}

const std::string layer = R"({"op": "layer"}, )", norm = R"({"op": "norm"}, )";

/// Forward: norm, qkv, attention, output, norm, in, out. Backward: two per linear map, one for
/// attention, two per norm.
TEST(Launches, PreNormLayer) {
  EXPECT_EQ(getLaunches(layer + layer + layer) - getLaunches(layer + layer), (Launches{7, 13}));
}

/// The norm's backward includes dropout's, so the last layer needs a norm after it, as in every
/// pre-norm stack.
TEST(Launches, DropoutAndActivationsAddNoLaunch) {
  EXPECT_EQ(
      getLaunches(
          R"({"op": "layer", "dropout": 0.1, "attention_dropout": 0.1, "activation": "relu", "rotary": true}, )" +
          norm),
      getLaunches(layer + norm));
}

/// An hourglass has the launches of its layers and norms on one scale.
TEST(Launches, ShiftShortenUpsampleAndSkipAddNoLaunch) {
  Launches flat = getLaunches(layer + norm + layer + layer + norm + layer + norm);
  EXPECT_EQ(getLaunches(R"({"op": "hourglass", "hierarchy": "1@1 2@3 1@1"}, )"), flat);
}

/// Two linear maps, and concatenated rows that are stored: forward the input of shortening,
/// backward the gradient of the upsampled rows.
TEST(Launches, LinearResamplingAddsItsLinearMapsAndFolds) {
  Launches plain = getLaunches(R"({"op": "hourglass", "hierarchy": "1@1 2@3 1@1"}, )");
  Launches linear = getLaunches(
      R"({"op": "hourglass", "hierarchy": "1@1 2@3 1@1", "shorten": "linear", "upsample": "linear"}, )");
  EXPECT_EQ(linear - plain, (Launches{3, 5}));
}

/// Launches of a step of a model of models/, with the update, without 20 per layer and 3 per norm
/// after an inner stack.
int64_t outsideLayers(const std::string &model, int64_t layers, int64_t innerStacks) {
  std::string plan = emit(std::string(SLUICE_SOURCE_DIR) + "/models/" + model, "plan");
  std::string step = getEntryText(plan, "gradient") + getEntryText(plan, "update");
  return count(step, "phase \"") - 20 * layers - 3 * innerStacks;
}

/// Last norm 3, head and loss 2, embedding's gradient, mean loss, gradient norm 2, optimizer.
TEST(Launches, AtMostTwelveOutsideTheLayers) {
  EXPECT_LE(outsideLayers("small/vanilla.json", 8, 0), 12);
  EXPECT_LE(outsideLayers("small/hourglass.json", 8, 2), 12);
}

/// For any number of rows in a batch.
TEST(Launches, HeadAndLossTakeTwoInTrainingAndOneInEvaluation) {
  std::string plan = emit(std::string(SLUICE_SOURCE_DIR) + "/models/small/vanilla.json", "plan");
  EXPECT_EQ(count(getEntryText(plan, "gradient"), "@cross_entropy"), 2);
  EXPECT_EQ(count(getEntryText(plan, "evaluate"), "@cross_entropy"), 1);
}

/// Parameters, their gradients and moments share one buffer each; no other tensor is near 134 x
/// 4001.
TEST(Memory, NoBufferHoldsTheLogits) {
  Folder folder;
  std::string spec = folder.write(
      "model.json", R"json({"sluice": 1, "vocabulary": 4001, "context": 67, "batch": 2, "width": 24,
    "defaults": {"heads": 2},
    "stages": [{"op": "embedding"}, {"op": "layer"}, {"op": "norm"}, {"op": "head", "bias": true}]})json");
  std::string artifact = compile(folder, spec, "cpu-avx2", /*allowLeak=*/false, someGenerationRows);
  Model model(artifact, "cpu-avx2");
  int64_t logits = int64_t(2) * 67 * 4001 * 4, largest = 0;
  ASSERT_FALSE(model.plan().buffers.empty());
  for (const auto &buffer : model.plan().buffers) {
    largest = std::max(largest, buffer.bytes);
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, logits);
}

} // namespace
