// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled models compared with the float64 reference of their own IR, at odd sizes and run-time
// lengths; and the gradient of the complete model from sluice-differentiate compared with finite
// differences of the reference's loss.
#include "Harness.h"
#include "Specs.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace sluice::testing;

namespace {

/// The references of one spec: its forward functions, and the result of sluice-differentiate.
struct References {
  explicit References(const std::string &spec)
      : forward(emit(spec, "model")), gradient(emit(spec, "gradient")) {}
  ReferenceModel forward, gradient;
};

/// A gradient that is zero exactly and in ordinary float32 too: the gradient of queries and keys,
/// of distance terms, and of values that lead only to queries, where a row sees one position
/// alone. P (dP - dO . O) is then a difference of two equal sums, with the rounding of the values'
/// gradient.
bool vanishes(const Yardstick &yardstick) {
  return yardstick.magnitude == 0 && yardstick.error == 0;
}

std::string toValue(std::string name) {
  const std::pair<std::string, std::string> parts[] = {
      {".query.", ".value."},
      {".key.", ".value."},
      {".attention.norm.", ".attention.over.norm."},
      {".relative.content.bias", ".value.weight"},
      {".relative.position.bias", ".value.weight"},
      {".relative.weight", ".value.weight"},
      {".relative.table", ".value.weight"}};
  for (const auto &[part, value] : parts) {
    if (size_t at = name.find(part); at != std::string::npos) {
      name.replace(at, part.size(), value);
    }
  }
  return name;
}

/// Results of the reference for one input.
struct ExpectedResult {
  ExpectedResult(const References &references, const Inputs &inputs, const Tensors &weights)
      : exact(references.gradient.gradient(inputs, weights, Precision::F64)),
        inFloat(references.gradient.gradient(inputs, weights, Precision::F32)),
        logits(yardstick(references.forward.predict(inputs, weights, Precision::F64),
                         references.forward.predict(inputs, weights, Precision::F32))) {}

  Yardstick getExpectedGradient(const std::string &name) const {
    Yardstick one = yardstick(exact.gradients.at(name), inFloat.gradients.at(name));
    std::string value = toValue(name);
    if (vanishes(one) && exact.gradients.contains(value)) { // a norm of keys alone only with `over`
      Yardstick other = yardstick(exact.gradients.at(value), inFloat.gradients.at(value));
      one.error = other.error;
      one.magnitude = other.magnitude;
    }
    return one;
  }

  ReferenceGradient exact, inFloat;
  Yardstick logits;
};

void compare(Comparison &comparison, const ExpectedResult &expected, Model &model,
             const Inputs &inputs) {
  std::string at = " at " + std::to_string(inputs.rows) + " x " + std::to_string(inputs.length);
  ReferenceGradient found = model.gradient(inputs);
  comparison.expect("losses" + at, found.losses,
                    yardstick(expected.exact.losses, expected.inFloat.losses));
  comparison.expect("loss" + at, {found.loss},
                    yardstick({expected.exact.loss}, {expected.inFloat.loss}));
  ASSERT_EQ(found.gradients.size(), expected.exact.gradients.size());
  for (const auto &[name, values] : found.gradients) {
    comparison.expect("gradient of " + name + at, values, expected.getExpectedGradient(name));
  }
  std::vector<float> logits = model.predict(inputs);
  comparison.expect("logits" + at, {logits.begin(), logits.end()}, expected.logits);
}

/// Rows and lengths up to the capacities; shorter inputs follow longer ones, whose values are then
/// still in memory.
std::vector<Inputs> someInputs(const ReferenceModel &model) {
  int64_t batch = model.size("batch"), context = model.size("context");
  std::vector<Inputs> inputs;
  for (auto [rows, length] : {std::pair{batch, context},
                              {batch - 1, context - 2},
                              {batch, int64_t{5}},
                              {int64_t{1}, int64_t{1}}}) {
    if (rows >= 1 && length >= 1 && length <= context) {
      inputs.push_back(randomInputs(model.size("vocabulary"), rows, length, inputs.size() + 1));
      inputs.back().given = randomGiven(model.given(), rows, inputs.size());
      // For models with named inputs, texts that end before their rows do, the last all padding.
      for (int64_t row = 0; row < rows && !model.given().empty(); ++row) {
        inputs.back().scored.push_back(row == 0 ? length - 1 : length / (2 * row));
      }
    }
  }
  return inputs;
}

class CompiledModel : public ::testing::TestWithParam<Family> {};

TEST_P(CompiledModel, EqualsTheReference) {
  Family family = GetParam();
  Folder folder;
  std::string spec = folder.write(std::string(family.name) + ".json", family.text);
  References references(spec);
  Tensors weights = randomWeights(references.forward.shapes(), 7);
  std::vector<Inputs> inputs = someInputs(references.forward);
  std::vector<ExpectedResult> expected;
  for (const Inputs &one : inputs) {
    expected.emplace_back(references, one, weights);
  }
  emit(spec, "dispatches"); // with the steps of generation, which the following tests omit
  auto [target, artifact] = compileForOne(folder, spec);
  Model model(artifact, target);
  model.setWeights(weights);
  Comparison comparison(family.name + (" on " + target));
  for (size_t i = 0; i < inputs.size(); ++i) {
    compare(comparison, expected[i], model, inputs[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, CompiledModel, ::testing::ValuesIn(familiesOfInputs()),
                         [](const auto &info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Segments, CompiledModel, ::testing::ValuesIn(familiesOfSegments()),
                         [](const auto &info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Routers, CompiledModel, ::testing::ValuesIn(familiesOfRouters()),
                         [](const auto &info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Families, CompiledModel, ::testing::ValuesIn(families()),
                         [](const auto &info) { return std::string(info.param.name); });

/// Weights moved by `step` along `direction`.
Tensors moved(const Tensors &weights, const Tensors &direction, double step) {
  Tensors result = weights;
  for (auto &[name, values] : result) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += step * direction.at(name)[i];
    }
  }
  return result;
}

Tensors randomDirection(const Tensors &weights, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  Tensors direction = weights;
  for (auto &[name, values] : direction) {
    for (double &value : values) {
      value = normal(generator);
    }
  }
  return direction;
}

class WholeGradient : public ::testing::TestWithParam<Family> {};

/// Fourth-order central differences. With directions of deviation 1 the derivative is of the
/// gradient's own norm, so a millionth of that is what rounding (2^-53 / h) and constants rounded
/// to float32 in derivatives (2^-24) leave. A small step keeps clear of most of ReLU's kinks; seeds
/// are fixed.
TEST_P(WholeGradient, MatchesFiniteDifferences) {
  constexpr double h = 2e-6;
  Family family = GetParam();
  Folder folder;
  std::string spec = folder.write("model.json", family.text);
  References references(spec);
  Tensors weights = randomWeights(references.forward.shapes(), 3);
  const ReferenceModel &forward = references.forward;
  int64_t rows = std::min<int64_t>(2, forward.size("batch")),
          length = std::min<int64_t>(11, forward.size("context"));
  Inputs inputs = randomInputs(forward.size("vocabulary"), rows, length, 5);
  inputs.given = randomGiven(forward.given(), rows, 5);
  ReferenceGradient gradient = references.gradient.gradient(inputs, weights, Precision::F64);
  ASSERT_NEAR(gradient.loss, references.forward.loss(inputs, weights), 1e-13);
  for (uint64_t seed : {1, 2}) {
    Tensors direction = randomDirection(weights, seed);
    double expected = 0, square = 0;
    for (const auto &[name, values] : gradient.gradients) {
      for (size_t i = 0; i < values.size(); ++i) {
        expected += values[i] * direction.at(name)[i];
        square += values[i] * values[i];
      }
    }
    auto at = [&](double step) {
      return references.forward.loss(inputs, moved(weights, direction, step));
    };
    double found = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    EXPECT_NEAR(found, expected, 1e-6 * std::sqrt(square)) << family.name << ", direction " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Inputs, WholeGradient, ::testing::ValuesIn(familiesOfInputs()),
                         [](const auto &info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Segments, WholeGradient, ::testing::ValuesIn(familiesOfSegments()),
                         [](const auto &info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Families, WholeGradient, ::testing::ValuesIn(families()),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
