// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled models compared with another framework: losses, gradients, logits of every row, ten
// training steps. test/golden/README.md derives the bound.
#include "Harness.h"
#include "Safetensors.h"

#include <cmath>
#include <fnmatch.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace sluice::testing;

namespace {

const std::string goldens = std::string(SLUICE_SOURCE_DIR) + "/test/golden/";

/// Expected results of one spec.
class Golden {
public:
  explicit Golden(const std::string &name)
      : weights(readSafetensors(goldens + "expected/" + name + ".weights.safetensors")),
        results(readSafetensors(goldens + "expected/" + name + ".results.safetensors")) {
    std::ifstream bounds(goldens + "expected/" + name + ".errors.json"),
        text(goldens + name + ".json");
    errors = nlohmann::json::parse(bounds);
    nlohmann::json spec = nlohmann::json::parse(text);
    seed = spec.value("seed", uint64_t{0});
    training = spec.at("training");
  }

  /// A bias whose gradient is zero in theory also has the noise of the input of its map's weight:
  /// one evaluation's noise is a poor measure of another's, so uses the weight's error if it is
  /// larger.
  Yardstick yardstick(const std::string &what) const {
    const nlohmann::json &entry = errors.at(what);
    double error = entry.at("error").get<double>(), magnitude = entry.at("magnitude").get<double>();
    constexpr std::string_view bias = ".bias";
    if (magnitude < error && what.ends_with(bias)) {
      std::string weight = what.substr(0, what.size() - bias.size()) + ".weight";
      error = std::max(error, errors.at(weight).at("error").get<double>());
    }
    return {.exact = results.at(what), .error = error, .magnitude = magnitude, .slack = {}};
  }
  /// Batch `index`, complete rows.
  Inputs batch(const sluice::runtime::Plan &plan, int64_t index) const {
    int64_t size = plan.model.batch * (plan.model.context + 1);
    auto begin = results.at("tokens").begin() + index * size;
    Inputs inputs{.rows = plan.model.batch,
                  .length = plan.model.context,
                  .seed = seed,
                  .step = static_cast<uint64_t>(index + 1),
                  .tokens = {begin, begin + size}};
    auto part = [&](const std::string &name, auto &into) {
      int64_t each = int64_t(results.at(name).size()) / steps;
      auto from = results.at(name).begin() + index * each;
      into.assign(from, from + each);
    };
    for (const auto &[name, given] : plan.given) {
      GivenTokens &tokens = inputs.given[name];
      tokens.capacity = given.capacity;
      part("given." + name, tokens.tokens);
      part("count." + name, tokens.counts);
    }
    if (!plan.given.empty()) {
      part("scored", inputs.scored);
    }
    return inputs;
  }
  static constexpr int64_t steps = 10;

  Tensors weights, results;
  nlohmann::json errors, training;
  uint64_t seed = 0;
};

/// The first `length` + 1 tokens of each row.
Inputs prefix(const Inputs &inputs, int64_t length) {
  Inputs result = inputs;
  result.length = length;
  result.tokens.clear();
  for (int64_t row = 0; row < inputs.rows; ++row) {
    auto begin = inputs.tokens.begin() + row * (inputs.length + 1);
    result.tokens.insert(result.tokens.end(), begin, begin + length + 1);
  }
  return result;
}

/// Logits [rows, length, vocabulary], each row predicted from its own prefix; zeros if the model
/// scores no row.
std::vector<double> logitsOfEveryRow(Model &model, const Inputs &inputs) {
  size_t vocabulary = static_cast<size_t>(model.plan().model.vocabulary),
         length = static_cast<size_t>(inputs.length);
  std::vector<double> logits(static_cast<size_t>(inputs.rows) * length * vocabulary);
  for (auto t = static_cast<size_t>(model.plan().model.first); t < length; ++t) {
    std::vector<float> row = model.predict(prefix(inputs, static_cast<int64_t>(t) + 1));
    for (size_t b = 0; b < static_cast<size_t>(inputs.rows); ++b) {
      auto begin = row.begin() + static_cast<std::ptrdiff_t>(b * vocabulary);
      std::copy_n(begin, vocabulary,
                  logits.begin() + static_cast<std::ptrdiff_t>((b * length + t) * vocabulary));
    }
  }
  return logits;
}

/// The rate of a weight in the last step.
double getRate(Model &model, const sluice::runtime::Tensor &tensor) {
  double rate = model.executor().scalarF32("learning_rate");
  for (const auto &group : model.plan().groups) {
    if (::fnmatch(group.match.c_str(), tensor.name.c_str(), 0) == 0) {
      return rate * group.factor;
    }
  }
  return rate;
}

/// The maximum effect of one step of Adam, rate m / (sqrt(v) + epsilon), on gradients that are off
/// by `bound`: as much of m and, as |m| <= sqrt(v) or nearly so, as much of sqrt(v). An element
/// whose gradients are no larger than their rounding moves as far as any other, so the error of one
/// float32 run does not show how far off it may be.
void addSlack(std::vector<double> &slack, const Golden &golden, Model &model,
              const sluice::runtime::Tensor &tensor, int64_t step) {
  double beta =
      golden.training.contains("betas") ? golden.training["betas"][1].get<double>() : 0.95;
  double epsilon = golden.training.value("epsilon", 1e-8);
  double rate = getRate(model, tensor);
  double bound = golden.yardstick("gradient." + tensor.name).bound();
  std::span<float> squares = model.executor().state(tensor, "adam.v");
  slack.resize(squares.size());
  for (size_t i = 0; i < slack.size(); ++i) {
    double root = std::sqrt(squares[i] / (1 - std::pow(beta, static_cast<double>(step))));
    slack[i] += 2 * rate * bound / (root + epsilon);
  }
}

void compareTraining(Comparison &comparison, const Golden &golden, Model &model) {
  std::vector<double> losses, norms, rates;
  std::map<std::string, std::vector<double>> slack;
  for (int64_t step = 0; step < 10; ++step) {
    losses.push_back(model.train(golden.batch(model.plan(), step)).loss);
    norms.push_back(model.executor().scalarF32("grad_norm"));
    rates.push_back(model.executor().scalarF32("learning_rate"));
    for (const sluice::runtime::Tensor &tensor : model.plan().tensors) {
      addSlack(slack[tensor.name], golden, model, tensor, step + 1);
    }
  }
  comparison.expect("train.loss", losses, golden.yardstick("train.loss"));
  comparison.expect("train.grad_norm", norms, golden.yardstick("train.grad_norm"));
  comparison.expect("train.learning_rate", rates, golden.yardstick("train.learning_rate"));
  for (const auto &[name, values] : model.weights()) {
    Yardstick yardstick = golden.yardstick("final." + name);
    yardstick.slack = slack.at(name);
    comparison.expect("final." + name, values, yardstick);
  }
}

void compareFirstBatch(Comparison &comparison, const Golden &golden, Model &model, bool leaks) {
  Inputs inputs = golden.batch(model.plan(), 0);
  ReferenceGradient gradient = model.gradient(inputs);
  auto getLosses = [&](const std::string &what) {
    Yardstick losses = golden.yardstick(what);
    clearUnscored(losses.exact, inputs);
    return losses;
  };
  comparison.expect("losses", gradient.losses, getLosses("losses"));
  for (const auto &[tensor, values] : gradient.gradients) {
    comparison.expect("gradient." + tensor, values, golden.yardstick("gradient." + tensor));
  }
  std::string evaluated = golden.results.contains("evaluated") ? "evaluated" : "losses";
  comparison.expect(evaluated, model.evaluate(inputs), getLosses(evaluated));
  if (!leaks) { // a prefix's logits equal the complete row's only if no row looks ahead
    comparison.expect("logits", logitsOfEveryRow(model, inputs), golden.yardstick("logits"));
  }
}

class GoldenTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, EqualsPyTorch) {
  const std::string name = GetParam();
  bool leaks = name == "bidirectional";
  Folder folder;
  Golden golden(name);
  auto [target, artifact] = compileForOne(folder, goldens + name + ".json", leaks);
  Model model(artifact, target);
  ASSERT_EQ(model.plan().tensors.size(), golden.weights.size());
  model.setWeights(golden.weights);
  Comparison comparison(name + " on " + target);
  compareFirstBatch(comparison, golden, model, leaks);
  compareTraining(comparison, golden, model);
}

INSTANTIATE_TEST_SUITE_P(Specs, GoldenTest,
                         ::testing::Values("vanilla", "hourglass", "nested", "resample", "streams",
                                           "convolution", "bidirectional", "top-down", "bottomup",
                                           "retina", "attention", "dynamic", "begun", "blocks",
                                           "widths", "groups", "blt", "attend", "flow", "pairs",
                                           "signed", "graph", "lsh-causal", "drawn", "taught",
                                           "spikes", "shared", "trax", "umst", "umst-code",
                                           "umst-pooling", "umst-linear", "gat", "multi-stage",
                                           "recurrent", "hred", "contrast", "contrast-lines"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

} // namespace
