// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory for batches of few segments: the batch determines it, and results do not depend on it.
#include "Harness.h"
#include "sluice/Support/Error.h"
#include "sluice/Transforms/PackMemory.h"

#include <gtest/gtest.h>
#include <random>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Layers on segments whose backward pass has dropout, rows by distance and gradients of gains.
std::string wordsSpec(const Folder &folder, const std::string &stages, bool shifts = true) {
  std::string shift = shifts ? R"({"op": "shift", "by": 1, "start": "null"},)" : "";
  return folder.write("words.json", R"({"sluice": 1, "vocabulary": 48, "context": 64, "batch": 3,
      "width": 24, "defaults": {"heads": 2, "relative": "xl_shared", "dropout": 0.2},
      "stages": [{"op": "embedding"}, {"op": "layer", "to": "fine"},
        {"op": "boundaries", "name": "words", "rule": "whitespace"},
        {"op": "shorten", "segments": "words"},)" +
                                        shift + stages + R"(
        {"op": "upsample", "segments": "words", "by": )" +
                                        (shifts ? "0" : "1") + R"(},
        {"op": "add", "with": "fine"}, {"op": "layer"}, {"op": "head"}]})");
}

/// Every `step`-th token of the first row ends a segment, and every `step` + 3-th of the others.
Inputs spaced(int64_t step) {
  Inputs inputs = randomInputs(48, 3, 64, 9);
  for (size_t i = 0; i < inputs.tokens.size(); ++i) {
    int32_t &token = inputs.tokens[i];
    auto every = static_cast<size_t>(i < 65 ? step : step + 3), at = i % 65;
    token = at % every == every - 1                       ? ' '
            : token == ' ' || (token >= 9 && token <= 13) ? 40
                                                          : token;
  }
  return inputs;
}

void expectSame(const ReferenceGradient &found, const ReferenceGradient &expected) {
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.gradients, expected.gradients);
}

/// Row capacity of the memory after each of some batches.
void followBatches(Model &model, const std::vector<std::pair<int64_t, int64_t>> &rooms) {
  for (auto [step, room] : rooms) {
    SCOPED_TRACE("a segment of " + std::to_string(step) + " tokens");
    Inputs inputs = spaced(step);
    ReferenceGradient found = model.gradient(inputs);
    EXPECT_EQ(model.executor().room(), room);
    std::vector<double> losses = model.evaluate(inputs);
    std::vector<float> logits = model.predict(inputs);
    Model whole(model.executor().artifact().path(), model.executor().target());
    whole.setWeights(model.weights());
    whole.gradient(spaced(1));
    ASSERT_EQ(whole.executor().room(), 0);
    expectSame(found, whole.gradient(inputs));
    EXPECT_EQ(losses, whole.evaluate(inputs));
    EXPECT_EQ(logits, whole.predict(inputs));
  }
}

/// Compared with a search byte by byte.
TEST(SegmentMemory, RunsBetweenOtherTensors) {
  std::mt19937 random(5);
  auto below = [&](int64_t most) { return static_cast<int64_t>(random() % uint64_t(most)); };
  for (int turn = 0; turn < 300; ++turn) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    std::vector<bool> isTaken(1000);
    for (int64_t i = below(12); i > 0; --i) {
      int64_t begin = below(200), end = begin + 1 + below(20);
      taken.push_back({begin, end});
      std::fill(isTaken.begin() + begin, isTaken.begin() + end, true);
    }
    int64_t bytes = 1 + below(12);
    Runs runs{1 + below(4), bytes + below(30), bytes};
    auto fits = [&](int64_t offset) {
      for (int64_t i = 0; i < runs.count * runs.bytes; ++i) {
        if (isTaken[offset + i / runs.bytes * runs.stride + i % runs.bytes]) {
          return false;
        }
      }
      return true;
    };
    int64_t expected = 0;
    for (; !fits(expected); expected += 4) {
    }
    EXPECT_EQ(lowestOffset(taken, runs, 4), expected);
  }
}

TEST(SegmentMemory, IsTheMaximumOfTheBatches) {
  Folder folder;
  std::string target = runtime::machineTargets().front();
  Model model(compile(folder, wordsSpec(folder, R"({"op": "layers", "count": 2},)"), target),
              target);
  int64_t before = 0;
  ASSERT_EQ(model.plan().memoryBuckets.size(), 3);
  for (const runtime::Bucket &bucket : model.plan().memoryBuckets) {
    EXPECT_GT(bucket.temporaryBytes, before);
    EXPECT_LT(bucket.arenaBytes, model.plan().memory.arenaBytes);
    before = bucket.temporaryBytes;
  }
  followBatches(model, {{8, 16}, {4, 21}, {8, 21}, {2, 0}, {8, 0}});
}

/// Groups on segments are computed completely, and segments of segments have their own number of
/// rows.
TEST(SegmentMemory, FitsGroupsAndSegmentsOfSegments) {
  Folder folder;
  std::string spec = wordsSpec(folder, R"({"op": "layer", "to": "word"},
      {"op": "boundaries", "name": "groups", "rule": "every", "factor": 2},
      {"op": "shorten", "segments": "groups"}, {"op": "layer"},
      {"op": "upsample", "segments": "groups"}, {"op": "add", "with": "word", "to": "mixed"},
      {"op": "shift", "by": 2}, {"op": "shorten", "factor": 3}, {"op": "layer"},
      {"op": "upsample", "factor": 3}, {"op": "add", "with": "mixed"},)",
                               /*shifts=*/false);
  std::string target = runtime::machineTargets().front();
  Model model(compile(folder, spec, target, /*allowLeak=*/false, someGenerationRows), target);
  followBatches(model, {{8, 15}, {4, 21}, {2, 0}});
}

/// The axis with the most rows determines the memory; one with fewer may be full earlier.
TEST(SegmentMemory, IsRequiredOfEachAxis) {
  Folder folder;
  std::string spec = wordsSpec(folder, R"({"op": "layer", "to": "word"},
      {"op": "boundaries", "name": "pairs", "rule": "every", "factor": 2, "capacity": 0.06},
      {"op": "shorten", "segments": "pairs"}, {"op": "layer"},
      {"op": "upsample", "segments": "pairs"}, {"op": "add", "with": "word"},)",
                               /*shifts=*/false);
  std::string target = runtime::machineTargets().front();
  Model model(compile(folder, spec, target, /*allowLeak=*/false, someGenerationRows), target);
  model.gradient(spaced(8)); // 8 words, 4 pairs
  ASSERT_GT(model.executor().room(), 0);
  try {
    model.gradient(spaced(6)); // 10 words
    FAIL() << "segments were cut";
  } catch (const JobError &error) {
    EXPECT_NE(std::string(error.what())
                  .find("needs 5 rows for the segments of \"pairs\", "
                        "expected at most 4"),
              std::string::npos)
        << error.what();
  }
  EXPECT_GT(model.executor().room(), 0);
}

} // namespace
