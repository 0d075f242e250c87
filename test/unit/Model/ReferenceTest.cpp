// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled models against the float64 reference of their own IR, at odd sizes and run-time lengths;
// and the reference's gradient of the whole model, which sluice-differentiate wrote, against
// differences of the reference's loss.
#include "Harness.h"
#include "Specs.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace sluice::testing;

namespace {

/// The references of one spec: of its forward functions, and of what sluice-differentiate makes of
/// them.
struct References {
  explicit References(const std::string &spec)
      : forward(emit(spec, "model")), gradient(emit(spec, "gradient")) {}
  ReferenceModel forward, gradient;
};

/// A gradient that is zero exactly and in ordinary float32 too: that of queries and keys where a
/// row sees one position alone. P (dP - dO . O) is then a difference of two equal sums, whose
/// rounding is that of the values' gradient.
bool vanishes(const Yardstick &yardstick) {
  return yardstick.magnitude == 0 && yardstick.error == 0;
}

std::string valueOf(std::string name) {
  for (std::string part : {".query.", ".key."}) {
    if (size_t at = name.find(part); at != std::string::npos) {
      name.replace(at, part.size(), ".value.");
    }
  }
  return name;
}

void compareGradient(Comparison &comparison, const ReferenceModel &reference, Model &model,
                     const Inputs &inputs, const Tensors &weights) {
  std::string at = " at " + std::to_string(inputs.rows) + " x " + std::to_string(inputs.length);
  Gradient exact = reference.gradient(inputs, weights, Precision::F64);
  Gradient inFloat = reference.gradient(inputs, weights, Precision::F32);
  Gradient found = model.gradient(inputs);
  comparison.expect("losses" + at, found.losses, yardstick(exact.losses, inFloat.losses));
  comparison.expect("loss" + at, {found.loss}, yardstick({exact.loss}, {inFloat.loss}));
  ASSERT_EQ(found.gradients.size(), exact.gradients.size());
  auto measure = [&](const std::string &name) {
    return yardstick(exact.gradients.at(name), inFloat.gradients.at(name));
  };
  for (const auto &[name, values] : found.gradients) {
    Yardstick one = measure(name);
    if (vanishes(one)) {
      Yardstick ofValues = measure(valueOf(name));
      one.error = ofValues.error;
      one.magnitude = ofValues.magnitude;
    }
    comparison.expect("gradient of " + name + at, values, one);
  }
}

void comparePrediction(Comparison &comparison, const ReferenceModel &reference, Model &model,
                       const Inputs &inputs, const Tensors &weights) {
  std::vector<double> inFloat = reference.predict(inputs, weights, Precision::F32);
  std::vector<float> found = model.predict(inputs);
  comparison.expect("logits at " + std::to_string(inputs.rows) + " x " +
                        std::to_string(inputs.length),
                    {found.begin(), found.end()},
                    yardstick(reference.predict(inputs, weights, Precision::F64), inFloat));
}

class CompiledModel : public ::testing::TestWithParam<std::tuple<Family, std::string>> {};

TEST_P(CompiledModel, ComputesWhatTheReferenceComputes) {
  auto [family, target] = GetParam();
  Folder folder;
  std::string spec = folder.write(std::string(family.name) + ".json", family.text);
  References references(spec);
  Model model(compile(folder, spec, target), target);
  Tensors weights = randomWeights(model.shapes(), 7);
  model.setWeights(weights);
  Comparison comparison(std::string(family.name) + " on " + target);
  int64_t batch = model.plan().model.batch, context = model.plan().model.context;
  // Shorter inputs come after longer ones, whose values are then still in memory.
  uint64_t seed = 0;
  for (auto [rows, length] : {std::pair{batch, context},
                              {batch - 1, context - 2},
                              {batch, int64_t{5}},
                              {int64_t{1}, int64_t{1}}}) {
    if (rows < 1 || length < 1 || length > context) {
      continue;
    }
    Inputs inputs = randomInputs(model.plan().model.vocabulary, rows, length, ++seed);
    compareGradient(comparison, references.gradient, model, inputs, weights);
    comparePrediction(comparison, references.forward, model, inputs, weights);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CompiledModel,
                         ::testing::Combine(::testing::ValuesIn(families()),
                                            ::testing::ValuesIn(sluice::runtime::machineTargets())),
                         [](const auto &info) {
                           std::string name =
                               std::get<0>(info.param).name + ("_" + std::get<1>(info.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

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
TEST_P(WholeGradient, IsTheLimitOfDifferences) {
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
  Gradient gradient = references.gradient.gradient(inputs, weights, Precision::F64);
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

INSTANTIATE_TEST_SUITE_P(Families, WholeGradient, ::testing::ValuesIn(families()),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
