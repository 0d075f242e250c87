// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows after the end of a line, in models with named inputs: they have no weight in any loss.
#include "Harness.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace sluice::testing;

namespace {

class Padding : public ::testing::Test {
protected:
  static constexpr int64_t rows = 3, context = 9;

  static void SetUpTestSuite() {
    Folder folder;
    std::string target = sluice::runtime::machineTargets().front();
    model = new Model(compile(folder, SLUICE_SOURCE_DIR "/test/golden/pairs.json", target), target);
    model->setWeights(randomWeights(model->shapes(), 3));
  }
  static void TearDownTestSuite() { delete model; }

  /// Texts of `scored` rows each, in rows of `length` filled with `filler`.
  static Inputs texts(std::vector<int64_t> scored, int64_t length, int32_t filler) {
    Inputs whole = randomInputs(19, rows, context, 4), inputs = whole;
    inputs.given = randomGiven({{"source", {7, 13}}}, rows, 5);
    inputs.length = length;
    inputs.tokens.clear();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t p = 0; p <= length; ++p) {
        bool isLine = p <= scored[size_t(row)];
        inputs.tokens.push_back(isLine ? whole.tokens[size_t(row * (context + 1) + p)] : filler);
      }
    }
    inputs.scored = std::move(scored);
    return inputs;
  }
  static Model *model;
};
Model *Padding::model = nullptr;

/// All lines end at the length of shorter rows: the loss is bitwise equal, and gradients differ in
/// the order of sums.
TEST_F(Padding, MatchesShorterRows) {
  ReferenceGradient padded = model->gradient(texts({4, 4, 4}, context, 7));
  ReferenceGradient shorter = model->gradient(texts({4, 4, 4}, 4, 0));
  EXPECT_EQ(padded.loss, shorter.loss);
  for (const auto &[name, found] : padded.gradients) {
    const std::vector<double> &expected = shorter.gradients.at(name);
    double most = 0, difference = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      most = std::max(most, std::fabs(expected[i]));
      difference = std::max(difference, std::fabs(found[i] - expected[i]));
    }
    EXPECT_LE(difference, 64 * 0x1p-24 * std::max(most, 1e-3)) << name;
  }
}

TEST_F(Padding, PaddingOfEachLineIsUnused) {
  ReferenceGradient one = model->gradient(texts({9, 2, 5}, context, 7));
  ReferenceGradient other = model->gradient(texts({9, 2, 5}, context, 11));
  EXPECT_EQ(one.loss, other.loss);
  EXPECT_EQ(one.gradients, other.gradients);
  EXPECT_NE(model->gradient(texts({9, 2, 4}, context, 7)).loss, one.loss);
}

TEST_F(Padding, TextOfOnlyPaddingHasZeroLoss) {
  ReferenceGradient none = model->gradient(texts({0, 0, 0}, context, 7));
  EXPECT_EQ(none.loss, 0);
  for (const auto &[name, values] : none.gradients) {
    for (double value : values) {
      ASSERT_EQ(value, 0) << name;
    }
  }
}

} // namespace
