// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models whose evaluation and generation read weights in fewer bits. The weights of these tests are
// exact in bf16 and as whole numbers with a scale per row, or per group of 32 columns of a row. So
// the float64 reference of the model itself is the oracle.
#include "Harness.h"
#include "Specs.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"
#include "sluice/Runtime/Plan/Artifact.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace sluice::testing;

namespace {

/// Each of these has contractions of another kind: tied heads with biases, rotated and fused
/// queries, keys and values, widths that are no multiple of a vector, and linear shortening.
const Family families[] = {
    {"tied", R"({"sluice": 1, "vocabulary": 37, "context": 13, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "key_value_heads": 1, "head_size": 6, "rotary": true, "feed_forward": 33},
  "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "2@1"}, {"op": "head", "tied": true, "bias": true}]})"},
    {"linear", R"({"sluice": 1, "vocabulary": 31, "context": 14, "batch": 2, "width": 40,
  "defaults": {"heads": 2, "placement": "post", "activation": "swiglu"},
  "stages": [{"op": "embedding"},
             {"op": "hourglass", "hierarchy": "1@1 1@3 1@1", "shorten": "linear", "upsample": "linear"},
             {"op": "head"}]})"}};

std::string compileWith(const Folder &folder, const std::string &spec, const std::string &target,
                        const std::string &weights, bool hasGradient = false) {
  sluice::driver::CompileRequest request;
  request.spec = spec;
  request.output = folder.path(target + "-" + weights + ".sla");
  request.targets = {target};
  request.weights = weights;
  request.verifyEachCausality = true;
  request.generationRows = 5;
  request.hasGradient = hasGradient;
  sluice::driver::Outcome outcome = sluice::driver::compile(request);
  EXPECT_EQ(outcome.status, 0) << outcome.message;
  return request.output;
}

/// Whole multiples of a power of two by group of a row, of which some has the magnitude `most`. A
/// group of int8 is a row.
Tensors makeExactWeights(const std::vector<ReferenceShape> &shapes, uint64_t seed,
                         const std::string &type) {
  double most = type == "int4" ? 7 : 127;
  Tensors weights = randomWeights(shapes, seed);
  for (const ReferenceShape &tensor : shapes) {
    if (tensor.sizes.size() != 2) {
      continue;
    }
    int64_t columns = tensor.sizes[1], longest = type == "int4" ? 32 : columns;
    for (int64_t row = 0, group = 0; row < tensor.sizes[0]; ++row) {
      for (int64_t first = 0; first < columns; first += longest, ++group) {
        int64_t count = std::min(longest, columns - first);
        double *values = &weights[tensor.name][static_cast<size_t>(row * columns + first)];
        double unit = std::ldexp(1.0, static_cast<int>((type == "int4" ? -4 : -8) + group % 3));
        for (int64_t i = 0; i < count; ++i) {
          values[i] = std::clamp(std::nearbyint(values[i] / unit), -most, most) * unit;
        }
        values[group % count] = (group % 2 == 0 ? most : -most) * unit;
      }
    }
  }
  return weights;
}

/// Logits of row 0 of a batch step by step, after a prompt of `prompt` tokens.
std::map<int64_t, std::vector<double>> generateLogits(sluice::runtime::Executor &executor,
                                                      const Inputs &inputs, int64_t prompt) {
  executor.run("reset");
  std::span<int64_t> take = executor.take();
  std::ranges::fill(take, 0);
  take[0] = prompt;
  executor.scalarI64("length") = prompt;
  executor.scalarI64("rows") = 1;
  for (int64_t i = 0; i < inputs.length; ++i) {
    executor.text()[static_cast<size_t>(i)] = inputs.tokens[static_cast<size_t>(i)];
  }
  std::copy_n(inputs.tokens.begin(), prompt, executor.prompt().begin());
  executor.run("prefill");
  std::map<int64_t, std::vector<double>> logits;
  for (int64_t length = prompt + 1; length <= inputs.length; ++length) {
    take[0] = 1;
    executor.run("step");
    std::span<const float> row = executor.outputRow("next_logits", 0);
    logits[length] = {row.begin(), row.end()};
  }
  return logits;
}

class Quantized : public ::testing::TestWithParam<Family> {};

TEST_P(Quantized, MatchesTheReferenceOfExactWeights) {
  Folder folder;
  std::string spec = folder.write("model.json", GetParam().text);
  ReferenceModel reference(emit(spec, "model"));
  Inputs inputs = randomInputs(reference.size("vocabulary"), 1, reference.size("context"), 3);
  for (const std::string &target : sluice::runtime::machineTargets()) {
    for (std::string type : {"bf16", "int8", "int4"}) {
      if (target == "cpu-amx" || (target.starts_with("cpu-avx512-") && type == "bf16")) {
        continue; // has no code of its own
      }
      Model model(compileWith(folder, spec, target, type), target);
      Tensors weights = makeExactWeights(reference.shapes(), 7, type);
      model.setWeights(weights);
      Comparison comparison(GetParam().name + (" with weights in " + type + " on " + target));
      auto expect = [&](const std::string &what, const std::vector<double> &found, int64_t length,
                        bool rounds) {
        Inputs prefix = inputs;
        prefix.length = length;
        Yardstick exact = yardstick(reference.predict(prefix, weights, Precision::F64),
                                    reference.predict(prefix, weights, Precision::F32));
        // Rows of a step are rounded to whole multiples of 2^-15 of their maximum, not to 2^-24.
        exact.error *= rounds ? 512 : 1;
        exact.magnitude *= rounds ? 512 : 1;
        comparison.expect(what + " at " + std::to_string(length), found, exact);
      };
      for (const auto &[length, logits] : generateLogits(model.executor(), inputs, 5)) {
        expect("step", logits, length, type != "bf16");
      }
      std::vector<float> logits = model.predict(inputs);
      expect("predict", {logits.begin(), logits.end()}, inputs.length, false);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Quantized, ::testing::ValuesIn(families),
                         [](const auto &info) { return std::string(info.param.name); });

class QuantizedSteps : public ::testing::TestWithParam<std::string> {};

/// GPU code on the emulator, which compares every launch with float64: the weights as they are
/// stored and converted back, and the products of steps.
TEST_P(QuantizedSteps, OfAGpuOnTheEmulator) {
  Folder folder;
  std::string text = families[0].text;
  text.insert(text.find("\"vocabulary\""), R"("precision": {"compute": "bf16"}, )");
  std::string spec = folder.write("model.json", text);
  auto artifact = sluice::runtime::Artifact::load(compileWith(folder, spec, "sm_80", GetParam()));
  sluice::runtime::Executor executor(sluice::runtime::makeEmulatorDevice(artifact));
  ReferenceModel reference(emit(spec, "model"));
  Tensors weights = makeExactWeights(reference.shapes(), 7, GetParam());
  setWeights(executor, weights);
  Inputs inputs = randomInputs(reference.size("vocabulary"), 1, reference.size("context"), 3);
  std::map<int64_t, std::vector<double>> steps = generateLogits(executor, inputs, 11);
  EXPECT_EQ(steps.size(), 2);
  Comparison comparison("tied with weights in " + GetParam() + " on the emulator");
  for (const auto &[length, logits] : steps) {
    Inputs prefix = inputs;
    prefix.length = length;
    comparison.expect("step at " + std::to_string(length), logits,
                      yardstick(reference.predict(prefix, weights, Precision::F64),
                                reference.predict(prefix, weights, Precision::Bf16)));
  }
  executor.run("evaluate");
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedSteps, ::testing::Values("int8", "int4"),
                         [](const auto &info) { return info.param; });

/// Training is the same bit for bit, and the stored weights follow the parameters.
TEST(QuantizedTraining, IsUnchangedAndFollowed) {
  Folder folder;
  std::string spec = folder.write("model.json", families[1].text);
  std::string target = sluice::runtime::machineTargets().back();
  Model plain(compileWith(folder, spec, target, "", /*hasGradient=*/true), target),
      stored(compileWith(folder, spec, target, "int8", /*hasGradient=*/true), target);
  Tensors weights = randomWeights(plain.shapes(), 5);
  plain.setWeights(weights);
  stored.setWeights(weights);
  Inputs inputs = randomInputs(plain.plan().model.vocabulary, 2, plain.plan().model.context, 3);
  std::vector<double> first = stored.evaluate(inputs);
  EXPECT_NE(first, plain.evaluate(inputs));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(stored.train(inputs).gradients, plain.train(inputs).gradients);
  }
  EXPECT_EQ(stored.weights(), plain.weights());
  std::vector<double> trained = stored.evaluate(inputs);
  EXPECT_NE(trained, first);
  Model again(compileWith(folder, spec, target, "int8"), target);
  again.setWeights(plain.weights());
  EXPECT_EQ(again.evaluate(inputs), trained);
  stored.setWeights(weights);
  EXPECT_EQ(stored.evaluate(inputs), first);
}

/// Logits of all rows and a map of attention come from another compilation, without a step.
TEST(QuantizedMaps, NeedNoSteps) {
  Folder folder;
  sluice::driver::CompileRequest request;
  request.spec = folder.write("model.json", families[0].text);
  request.targets = {sluice::runtime::machineTargets().back()};
  request.weights = "int8";
  request.inMemory = true;
  request.everyRow = "";
  sluice::driver::Outcome outcome = sluice::driver::compile(request);
  EXPECT_EQ(outcome.status, 0) << outcome.message;
  request.everyRow.reset();
  request.attention = sluice::driver::AttentionRequest{.layer = "stages.1.inside.0"};
  outcome = sluice::driver::compile(request);
  EXPECT_EQ(outcome.status, 0) << outcome.message;
}

/// A weight that is not finite must not vanish in a whole number.
TEST(QuantizedTraining, KeepsNumbersThatAreNotFinite) {
  Folder folder;
  std::string spec = folder.write("model.json", families[0].text);
  std::string target = sluice::runtime::machineTargets().back();
  for (std::string type : {"int8", "int4"}) {
    Model model(compileWith(folder, spec, target, type), target);
    Tensors weights = randomWeights(model.shapes(), 5);
    Inputs inputs = randomInputs(model.plan().model.vocabulary, 1, model.plan().model.context, 3);
    for (double number : {double(NAN), HUGE_VAL}) {
      Tensors broken = weights;
      for (auto &[name, values] : broken) {
        if (name.ends_with("feed_forward.in.weight")) {
          values[3] = number;
        }
      }
      model.setWeights(broken);
      for (const auto &[length, logits] : generateLogits(model.executor(), inputs, 5)) {
        EXPECT_FALSE(std::isfinite(logits[0])) << type << " at " << length;
      }
    }
  }
}

} // namespace
