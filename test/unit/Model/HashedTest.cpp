// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled LSH attention compared with the reference: losses, gradients and logits.
#include "Harness.h"
#include "sluice/Driver/Driver.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace sluice::testing;

namespace {

/// Chunks smaller and larger than buckets, on two scales.
std::string buildSpec(const Folder &folder, const std::string &fine, const std::string &coarse) {
  return folder.write("hashed.json",
                      R"({"sluice": 1, "vocabulary": 37, "context": 67, "batch": 2, "width": 20,
      "defaults": {"heads": 3, "head_size": 6, "feed_forward": 24},
      "stages": [{"op": "embedding"}, {"op": "layer", "lsh": )" +
                          fine + R"(},
                 {"op": "hourglass", "hierarchy": "0@1 1@2 0@1", "lsh": )" +
                          coarse + R"(},
                 {"op": "head"}]})");
}

/// Without --verify-each-causality, which no such model has.
std::string compileSpecText(const std::string &spec, const std::string &target) {
  std::string artifact = spec + "." + target + ".sla";
  sluice::driver::Outcome outcome = sluice::driver::compile(
      {.spec = spec, .output = artifact, .targets = {target}, .emit = "", .generationRows = 0});
  EXPECT_EQ(outcome.status, 0) << outcome.message;
  return artifact;
}

class HashedModel : public ::testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(HashedModel, EqualsTheReference) {
  Folder folder;
  std::string spec = buildSpec(folder, GetParam().first, GetParam().second);
  ReferenceModel forward(emit(spec, "model")), gradient(emit(spec, "gradient"));
  Tensors weights = randomWeights(forward.shapes(), 2);
  std::map<std::string, std::string> artifacts;
  for (const std::string &target : targetsFor(spec)) {
    artifacts[target] = compileSpecText(spec, target);
  }
  for (int64_t length : {67, 33}) {
    Inputs inputs = randomInputs(forward.size("vocabulary"), 2, length, 7);
    ReferenceGradient exact = gradient.gradient(inputs, weights, Precision::F64);
    ReferenceGradient inFloat = gradient.gradient(inputs, weights, Precision::F32);
    for (const auto &[target, artifact] : artifacts) {
      Model model(artifact, target);
      model.setWeights(weights);
      ReferenceGradient found = model.gradient(inputs);
      Comparison comparison("hashes on " + target + ", " + std::to_string(length) + " tokens");
      comparison.expect("losses", found.losses, yardstick(exact.losses, inFloat.losses));
      for (const auto &[name, values] : found.gradients) {
        comparison.expect("gradient of " + name, values,
                          yardstick(exact.gradients.at(name), inFloat.gradients.at(name)));
      }
    }
  }
}

/// No pass is compared, so tests the program itself: rows before the one that predicts a changed
/// token, or before an appended token, do not change bitwise.
TEST(HashedProgram, LaterTokensChangeNoEarlierRow) {
  Folder folder;
  std::string spec =
      buildSpec(folder, R"({"buckets": 4, "chunk": 4})", R"({"buckets": 2, "chunk": 2})");
  std::string target = sluice::runtime::machineTargets().front();
  Model model(compileSpecText(spec, target), target);
  constexpr int64_t length = 67;
  Inputs inputs = randomInputs(37, 1, length, 7);
  model.setWeights(randomWeights(model.shapes(), 2));
  std::vector<double> before = model.evaluate(inputs);
  int changedRows = 0;
  for (int64_t token = 1; token < length; ++token) {
    Inputs other = inputs, shorter = inputs;
    other.tokens[token] = (other.tokens[token] + 5) % 37;
    shorter.length = token;
    shorter.tokens.resize(token + 1);
    std::vector<double> changed = model.evaluate(other), cut = model.evaluate(shorter);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + token - 1, changed.begin())) << token;
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + token, cut.begin())) << token;
    changedRows +=
        !std::equal(before.begin() + token + 1, before.end(), changed.begin() + token + 1);
  }
  EXPECT_GT(changedRows, 40) << "later rows do not look back";
}

INSTANTIATE_TEST_SUITE_P(Settings, HashedModel,
                         ::testing::Values(std::pair(R"({"buckets": 4, "chunk": 4})",
                                                     R"({"buckets": 2, "chunk": 1, "hashes": 3})"),
                                           std::pair(R"({"buckets": 2, "chunk": 8, "hashes": 3})",
                                                     R"({"buckets": 6, "chunk": 128})")));

} // namespace
