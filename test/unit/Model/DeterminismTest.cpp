// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bitwise equality: between runs, for any number of threads, for a prefix, between compilations.
#include "Harness.h"
#include "Specs.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>

using namespace sluice::testing;

namespace {

/// With dropout, several items of the head and several items in most launches.
const char *const spec =
    R"json({"sluice": 1, "vocabulary": 96, "context": 70, "batch": 3, "width": 32,
  "defaults": {"heads": 4, "rotary": true, "feed_forward": 64, "dropout": 0.1, "attention_dropout": 0.1},
  "stages": [{"op": "embedding", "dropout": 0.1},
             {"op": "hourglass", "hierarchy": "1@1 1@3 1@1"},
             {"op": "head"}],
  "training": {"learning_rate": 0.003}})json";

class SameBits : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    folder = new Folder;
    target = sluice::runtime::machineTargets().front();
    source = folder->write("model.json", spec);
    artifact = compile(*folder, source, target, /*allowLeak=*/false, someGenerationRows);
  }
  static void TearDownTestSuite() {
    delete folder;
    folder = nullptr;
  }

  static Folder *folder;
  static std::string target, source, artifact;
};
Folder *SameBits::folder = nullptr;
std::string SameBits::target, SameBits::source, SameBits::artifact;

/// Metrics of 20 steps from the initial weights, then the weights: every number in hexadecimal.
std::string trace(const std::string &artifact, const std::string &target, int threads) {
  Model model(artifact, target, threads);
  model.executor().scalarI64("seed") = 42;
  model.executor().run("initialize");
  std::ostringstream text;
  text << std::hexfloat;
  for (uint64_t step = 1; step <= 20; ++step) {
    Inputs inputs = randomInputs(96, 3, step % 4 == 0 ? 41 : 70, step);
    inputs.seed = 42;
    inputs.step = step;
    text << model.train(inputs).loss << ' ' << model.executor().scalarF32("grad_norm") << '\n';
  }
  for (const auto &[name, values] : model.weights()) {
    for (double value : values) {
      text << value << ' ';
    }
  }
  return text.str();
}

/// Matrices of more numbers than a flat row, and of fewer, next to parameters with another
/// initialization.
TEST(Initialization, SetsZerosIdentitiesAndUniformNumbers) {
  Folder folder;
  std::string target = sluice::runtime::machineTargets().front();
  Model model(compile(folder, folder.write("model.json", R"json({"sluice": 1, "vocabulary": 20,
      "context": 9, "batch": 2, "width": 37, "stages": [{"op": "embedding"},
      {"op": "project", "initial": "identity"}, {"op": "project", "initial": "zeros", "width": 3},
      {"op": "boundaries", "name": "routed", "ratio": 2, "at": "start"}, {"op": "norm"},
      {"op": "recurrence", "width": 16}, {"op": "head", "tied": false}]})json"),
                      target),
              target);
  model.executor().scalarI64("seed") = 42;
  model.executor().run("initialize");
  auto weights = model.weights();
  for (auto [name, columns] :
       {std::pair("stages.1.weight", 37), std::pair("stages.3.own.weight", 3),
        std::pair("stages.3.previous.weight", 3)}) {
    const std::vector<double> &matrix = weights.at(name);
    for (size_t i = 0; i < matrix.size(); ++i) {
      ASSERT_EQ(matrix[i], i % static_cast<size_t>(columns + 1) == 0 ? 1 : 0) << name << " " << i;
    }
  }
  for (double number : weights.at("stages.2.weight")) {
    EXPECT_EQ(number, 0);
  }
  for (double number : weights.at("stages.4.weight")) {
    EXPECT_EQ(number, 1);
  }
  double squares = 0;
  for (double number : weights.at("stages.0.token.weight")) {
    squares += number * number;
  }
  // 740 numbers of deviation 0.02: the mean square is off by its relative deviation sqrt(2 / 740),
  // times 5 at most.
  EXPECT_NEAR(squares / (20 * 37) / (0.02 * 0.02), 1, 5 * std::sqrt(2.0 / 740));
  squares = 0;
  for (double number : weights.at("stages.5.state.weight")) {
    EXPECT_LE(std::abs(number), 0.25);
    squares += number * number;
  }
  // Likewise 64 x 16 numbers uniform in +-1/4, with a relative deviation of sqrt(0.8 / 1024).
  EXPECT_NEAR(squares / (64 * 16) * 3 * 16, 1, 5 * std::sqrt(0.8 / 1024));
  EXPECT_NE(weights.at("stages.5.input.bias").front(), 0);
}

TEST_F(SameBits, BetweenRunsAndThreadCounts) {
  std::string one = trace(artifact, target, 1);
  EXPECT_EQ(one.find("nan"), std::string::npos);
  EXPECT_TRUE(one == trace(artifact, target, 1)) << "a second run differs";
  EXPECT_TRUE(one == trace(artifact, target, 2)) << "two threads differ from one";
  EXPECT_TRUE(one == trace(artifact, target, 5)) << "five threads differ from one";
}

/// No row depends on the presence of later rows, bit for bit: losses of a prefix are the first
/// losses of the complete text, and its logits give its last loss.
TEST_F(SameBits, OfEveryPrefix) {
  Model model(artifact, target);
  model.setWeights(randomWeights(model.shapes(), 2));
  Inputs whole = randomInputs(96, 2, 70, 8);
  std::vector<double> all = model.evaluate(whole);
  for (int64_t length : {1, 2, 3, 4, 31, 32, 33, 69}) {
    Inputs prefix = whole;
    prefix.length = length;
    prefix.tokens.clear();
    for (int64_t row = 0; row < 2; ++row) {
      auto begin = whole.tokens.begin() + row * 71;
      prefix.tokens.insert(prefix.tokens.end(), begin, begin + length + 1);
    }
    std::vector<double> some = model.evaluate(prefix);
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t p = 0; p < length; ++p) {
        ASSERT_EQ(some[static_cast<size_t>(row * length + p)],
                  all[static_cast<size_t>(row * 70 + p)])
            << "length " << length << ", row " << row << ", position " << p;
      }
    }
  }
}

std::string readFileBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(SameBits, BetweenCompilations) {
  std::string first = readFileBytes(artifact);
  ASSERT_FALSE(first.empty());
  EXPECT_TRUE(first == readFileBytes(compile(*folder, source, target, /*allowLeak=*/false,
                                             someGenerationRows)));
}

/// Arena offsets must not depend on addresses in the compiler, which allocations between two
/// compilations change.
TEST_F(SameBits, OfThePlanForAnyAllocationOrder) {
  std::string first = emit(source, "plan");
  std::vector<std::string> ballast;
  for (size_t i = 0; i < 5; ++i) {
    ballast.insert(ballast.end(), 200, std::string(40 + 1000 * i, 'x'));
    EXPECT_TRUE(first == emit(source, "plan")) << "compilation " << i + 2;
  }
}

} // namespace
