// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs upstream MLIR passes on the IR; training then gives bitwise equal results.
#include "DeviceArtifact.h"
#include "Harness.h"

#include <gtest/gtest.h>

#include <sstream>

using namespace sluice::testing;

namespace {

/// Tied weights, dropout and a coarse scale, with the optimizer and the steps of generation.
const char *const spec =
    R"json({"sluice": 1, "vocabulary": 40, "context": 24, "batch": 2, "width": 16,
  "defaults": {"heads": 2, "rotary": true, "feed_forward": 32, "dropout": 0.1},
  "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "1@1 1@3 1@1"},
             {"op": "head", "tied": true}],
  "training": {"learning_rate": 0.003}})json";

class UpstreamPasses : public ::testing::Test {
protected:
  /// Losses, norms and logits of five steps, every number in hexadecimal.
  std::string trace(const std::string &artifact) const {
    Model model(artifact, target);
    model.executor().scalarI64("seed") = 7;
    model.executor().run("initialize");
    std::ostringstream text;
    text << std::hexfloat;
    for (uint64_t step = 1; step <= 5; ++step) {
      Inputs inputs = randomInputs(40, 2, 24, step);
      inputs.seed = 7;
      inputs.step = step;
      text << model.train(inputs).loss << ' ' << model.executor().scalarF32("grad_norm") << '\n';
    }
    for (float logit : model.predict(randomInputs(40, 2, 17, 9))) {
      text << logit << ' ';
    }
    return text.str();
  }
  /// The artifact of dispatches.
  std::string lowerToArtifact(const std::string &name, const std::string &dispatches) const {
    EXPECT_EQ(sluice::test::lowerToArtifact({dispatches, {target}, folder.path(name)}), "");
    return folder.path(name);
  }

  Folder folder;
  std::string target = "cpu-avx2";
  std::string source = folder.write("model.json", spec);
};

TEST_F(UpstreamPasses, RunOnTheModelLevel) {
  std::string text = sluice::test::runUpstreamPasses(emit(source, "model"));
  ASSERT_FALSE(text.empty());
  std::string changed = folder.write("changed.mlir", text);
  auto compiled = [&](const std::string &input) {
    return compile(folder, input, target, /*allowLeak=*/false, someGenerationRows);
  };
  EXPECT_EQ(trace(compiled(changed)), trace(compiled(source)));
}

TEST_F(UpstreamPasses, RunOnTheGradientLevel) {
  std::string before = emit(source, "gradient");
  std::string after = sluice::test::runUpstreamPasses(before);
  ASSERT_FALSE(after.empty());
  std::string expected = trace(lowerToArtifact("before.sla", sluice::test::lowerGradient(before)));
  EXPECT_EQ(trace(lowerToArtifact("after.sla", sluice::test::lowerGradient(after))), expected);
}

TEST_F(UpstreamPasses, RunOnTheDispatchLevel) {
  std::string before = emit(source, "dispatches");
  std::string after = sluice::test::runUpstreamPasses(before);
  ASSERT_FALSE(after.empty());
  std::string expected = trace(lowerToArtifact("before.sla", before));
  EXPECT_EQ(expected.find("nan"), std::string::npos);
  EXPECT_EQ(trace(lowerToArtifact("after.sla", after)), expected);
}

} // namespace
