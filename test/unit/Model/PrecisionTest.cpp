// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models with bf16 storage. The oracle is the float64 reference of the model's own IR, in which
// nothing is rounded; the yardstick is the same arithmetic with every value of element type bf16
// rounded as it is made. As for f32 models (test/golden/README.md), the compiled model may be off
// by 8 times the error of the yardstick in the worst element of a tensor: kernels round no value
// that the yardstick does not round, but other sums come before each rounding.
#include "Harness.h"
#include "Specs.h"
#include "sluice/Runtime/Train/Checkpoint.h"

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iostream>
#include <iterator>
#include <sstream>

using namespace sluice::testing;

namespace {

struct Mixed {
  const char *name;
  const char *residual;
  const char *body; ///< of the spec after "sluice": 1
};

/// Between them: both placements, every method of shortening and upsampling, tied and untied heads,
/// learned positions, grouped heads, rotation, windows, dropout, widths that are no multiple of a
/// vector, a stage's norm before the head and none.
const Mixed families[] = {{"vanilla", "bf16",
                           R"("vocabulary": 37, "context": 21, "batch": 3, "width": 20,
  "defaults": {"heads": 2, "key_value_heads": 1, "head_size": 6, "rotary": true, "feed_forward": 33},
  "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "2@1"}, {"op": "head", "tied": true, "bias": true}])"},
                          {"hourglass", "f32",
                           R"("vocabulary": 40, "context": 26, "batch": 2, "width": 24,
  "defaults": {"heads": 3, "activation": "gelu_tanh", "rotary": true},
  "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "1@1 1@3 1@1"}, {"op": "head"}])"},
                          {"nested", "f32",
                           R"("vocabulary": 29, "context": 31, "batch": 2, "width": 16,
  "defaults": {"heads": 2, "norm": "rms", "activation": "swiglu", "bias": false, "mask": {"window": [0, 7]}},
  "stages": [{"op": "embedding", "positions": "learned"},
             {"op": "hourglass", "hierarchy": "1@1 0@2 1@6 0@2 1@1"}, {"op": "head"}])"},
                          {"post", "f32",
                           R"("vocabulary": 33, "context": 18, "batch": 2, "width": 18,
  "defaults": {"heads": 3, "placement": "post", "activation": "swiglu"},
  "stages": [{"op": "embedding", "positions": "sinusoidal"}, {"op": "layers", "count": 2}, {"op": "head"}])"},
                          {"linear", "f32",
                           R"("vocabulary": 31, "context": 20, "batch": 3, "width": 16,
  "defaults": {"heads": 2, "placement": "post", "activation": "relu"},
  "stages": [{"op": "embedding"},
             {"op": "hourglass", "hierarchy": "1@1 1@4 1@1", "shorten": "linear", "upsample": "linear"},
             {"op": "head", "tied": true}])"},
                          {"dropout", "bf16",
                           R"("vocabulary": 31, "context": 20, "batch": 3, "width": 16,
  "defaults": {"heads": 2, "dropout": 0.1, "attention_dropout": 0.1},
  "stages": [{"op": "embedding", "dropout": 0.1},
             {"op": "hourglass", "hierarchy": "1@1 1@2 1@1", "shorten": "linear", "upsample": "linear"},
             {"op": "norm"}, {"op": "head"}])"},
                          {"widths", "bf16",
                           R"("vocabulary": 31, "context": 20, "batch": 3, "width": 12,
  "defaults": {"heads": 2, "feed_forward": 21},
  "stages": [{"op": "embedding"}, {"op": "norm", "to": "fine"},
             {"op": "shorten", "factor": 4, "method": "concatenate", "width": 96}, {"op": "layer"}, {"op": "norm", "to": "wide"},
             {"op": "upsample", "factor": 4, "method": "split", "width": 7}, {"op": "shift", "by": 3},
             {"op": "layer", "heads": 1, "over": "wide", "mask": "complete"},
             {"op": "project", "with": "fine", "width": 8}, {"op": "layer"}, {"op": "norm"}, {"op": "head"}])"}};

std::string buildSpec(const Mixed &family) {
  return std::string(R"({"sluice": 1, "precision": {"compute": "bf16", "residual": ")") +
         family.residual + "\"}, " + family.body + "}";
}

class MixedModel : public ::testing::TestWithParam<Mixed> {};

TEST_P(MixedModel, MatchesTheReferenceWithinRounding) {
  Folder folder;
  std::string spec = folder.write("model.json", buildSpec(GetParam()));
  ReferenceModel forward(emit(spec, "model")), backward(emit(spec, "gradient"));
  Tensors weights = randomWeights(forward.shapes(), 7);
  for (const auto &[target, artifact] : compileForAll(folder, spec)) {
    Model model(artifact, target);
    model.setWeights(weights);
    Comparison comparison(GetParam().name + (" on " + target));
    int64_t context = forward.size("context");
    for (int64_t length : {context, context - 3}) {
      Inputs inputs = randomInputs(forward.size("vocabulary"), 2, length, uint64_t(length));
      ReferenceGradient exact = backward.gradient(inputs, weights, Precision::F64),
                        rounded = backward.gradient(inputs, weights, Precision::Bf16),
                        found = model.gradient(inputs);
      std::string at = " at " + std::to_string(length);
      comparison.expect("losses" + at, found.losses, yardstick(exact.losses, rounded.losses));
      for (const auto &[name, values] : found.gradients) {
        comparison.expect("gradient of " + name + at, values,
                          yardstick(exact.gradients.at(name), rounded.gradients.at(name)));
      }
      std::vector<float> logits = model.predict(inputs);
      comparison.expect("logits" + at, {logits.begin(), logits.end()},
                        yardstick(forward.predict(inputs, weights, Precision::F64),
                                  forward.predict(inputs, weights, Precision::Bf16)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MixedModel, ::testing::ValuesIn(families),
                         [](const auto &info) { return std::string(info.param.name); });

//===----------------------------------------------------------------------===//
// Rematerialized maps
//===----------------------------------------------------------------------===//

double inBf16(double number) {
  uint32_t bits = std::bit_cast<uint32_t>(float(number));
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

/// Weights for which every row before the activation is an integer, exact in f32: 8 columns of an
/// embedding to 16, to 8. The second matrix is so small that losses are not saturated.
Tensors buildIntegerWeights() {
  Tensors weights;
  auto &embedding = weights["stages.0.token.weight"], &first = weights["stages.1.weight"],
       &bias = weights["stages.1.bias"], &second = weights["stages.2.weight"],
       &head = weights["stages.3.weight"];
  weights["stages.2.bias"].assign(8, 0.25);
  for (int i = 0; i < 64; ++i) {
    embedding.push_back(i * 5 % 7 - 2);
    head.push_back((i * 3 % 8 - 4) * 0.125);
  }
  for (int j = 0; j < 16; ++j) {
    bias.push_back(j * 37 + 201);
    for (int i = 0; i < 8; ++i) {
      first.push_back((j * 29 + i * 13) % 41 - 20);
    }
  }
  for (int i = 0; i < 128; ++i) {
    second.push_back((i * 11 % 17 - 8) * 0x1p-18);
  }
  return weights;
}

/// Backward results for one row: max(0, h)^2 of h as stored, rounded, and its derivative by h. In
/// bf16 257 is stored as 256, so its square is 256^2 there. The forward pass squares 257. A row's
/// weight gradients are products of two bf16 numbers, which f32 represents.
void expectRecomputedSquares(const std::string &residual,
                             const std::function<double(double)> &stored) {
  Folder folder;
  std::string spec = folder.write(
      "model.json", R"({"sluice": 1, "precision": {"compute": "bf16", "residual": ")" + residual +
                        R"("}, "vocabulary": 8, "context": 1, "batch": 1, "width": 8, "stages": [
      {"op": "embedding"}, {"op": "project", "activation": "relu_squared", "width": 16},
      {"op": "project", "width": 8}, {"op": "head"}]})");
  Tensors weights = buildIntegerWeights();
  auto at = [&](const char *name, int i) { return weights.at(name)[size_t(i)]; };
  for (const auto &[target, artifact] : compileForAll(folder, spec)) {
    Model model(artifact, target);
    model.setWeights(weights);
    int differ = 0;
    for (int token = 0; token < 8; ++token) {
      Inputs inputs{.rows = 1, .length = 1, .tokens = {token, (token + 3) % 8}};
      Tensors found = model.gradient(inputs).gradients;
      const std::vector<double> &above = found.at("stages.2.bias"),
                                &below = found.at("stages.1.bias");
      for (int j = 0; j < 16; ++j) {
        double row = at("stages.1.bias", j), sum = 0, size = 0;
        for (int i = 0; i < 8; ++i) {
          row += at("stages.1.weight", j * 8 + i) * at("stages.0.token.weight", token * 8 + i);
        }
        double kept = std::max(0.0, stored(row)), again = inBf16(kept * kept);
        differ += again != inBf16(std::max(0.0, row) * std::max(0.0, row));
        for (int i = 0; i < 8; ++i) {
          EXPECT_EQ(found.at("stages.2.weight")[size_t(i * 16 + j)], above[size_t(i)] * again)
              << target << ", token " << token << ", row " << row;
          sum += above[size_t(i)] * at("stages.2.weight", i * 16 + j);
          size += std::abs(above[size_t(i)] * at("stages.2.weight", i * 16 + j));
        }
        // Eight products and the derivative's in f32, then one rounding to bf16.
        double exact = sum * 2 * kept, bound = 16 * 0x1p-24 * size * 2 * kept;
        EXPECT_NEAR(below[size_t(j)], exact, bound + 0x1p-9 * (std::abs(exact) + bound))
            << target << ", token " << token << ", row " << row;
      }
    }
    EXPECT_EQ(differ > 0, residual == "bf16") << "rounding before the square or not is one";
  }
}

TEST(RecomputedSquares, MatchRowsRoundedToBf16) { expectRecomputedSquares("bf16", inBf16); }

/// Rows before the activation belong to a stream, so they are f32; rematerialized values are bf16.
TEST(RecomputedSquares, MatchRowsInF32) {
  expectRecomputedSquares("f32", [](double row) { return row; });
}

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

const std::string source = SLUICE_SOURCE_DIR;

std::string readFileText(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Rows of the format's own documentation, one batch a step.
Inputs buildBatch(const std::string &text, uint64_t step) {
  constexpr int64_t rows = 4, length = 64;
  Inputs inputs{.rows = rows, .length = length, .seed = 42, .step = step, .tokens = {}};
  for (int64_t row = 0; row < rows; ++row) {
    size_t start = (step * rows + uint64_t(row)) * 61 % (text.size() - length - 1);
    for (size_t i = 0; i <= length; ++i) {
      inputs.tokens.push_back(static_cast<unsigned char>(text[start + i]));
    }
  }
  return inputs;
}

std::vector<double> measureCurve(Model &model, const std::string &text, uint64_t first,
                                 uint64_t last) {
  std::vector<double> losses;
  for (uint64_t step = first; step <= last; ++step) {
    losses.push_back(model.train(buildBatch(text, step)).loss);
    EXPECT_EQ(model.executor().scalarI32("finite"), 1);
  }
  return losses;
}

void initialize(Model &model) {
  model.executor().scalarI64("seed") = 42;
  model.executor().run("initialize");
}

/// From the same initial weights both losses fall by more than a nat, and stay within one rounding
/// to bf16 of one another: a loss is a mean over rows, whose errors have either sign.
TEST(MixedTraining, FollowsF32) {
  std::string text = readFileText(source + "/docs/spec.md");
  std::string target = sluice::runtime::machineTargets().front();
  for (std::string name : {"vanilla", "hourglass"}) {
    Folder folder;
    std::vector<std::vector<double>> curves;
    for (std::string suffix : {"", "-bf16"}) {
      Model model(compile(folder, source + "/models/tiny/" + name + suffix + ".json", target),
                  target);
      initialize(model);
      curves.push_back(measureCurve(model, text, 1, 50));
      EXPECT_LT(curves.back().back(), curves.back().front() - 1) << name << suffix;
    }
    double worst = 0;
    for (size_t i = 0; i < curves[0].size(); ++i) {
      worst = std::max(worst, std::fabs(curves[1][i] - curves[0][i]) / curves[0][i]);
    }
    std::cout << name << ": f32 " << curves[0].front() << " to " << curves[0].back() << ", bf16 "
              << curves[1].front() << " to " << curves[1].back() << ", worst relative difference "
              << worst << std::endl;
    EXPECT_LT(worst, 0x1p-9) << name;
    EXPECT_GT(worst, 0) << name << " is not in bf16";
  }
}

std::string toBits(Model &model, const std::vector<double> &losses) {
  std::ostringstream text;
  text << std::hexfloat;
  for (double loss : losses) {
    text << loss << '\n';
  }
  for (const auto &[name, values] : model.weights()) {
    for (double value : values) {
      text << value << ' ';
    }
  }
  return text.str();
}

TEST(MixedTraining, DoesNotDependOnTheNumberOfThreads) {
  std::string text = readFileText(source + "/docs/spec.md");
  std::string target = sluice::runtime::machineTargets().front();
  Folder folder;
  std::string artifact = compile(folder, source + "/models/tiny/hourglass-bf16.json", target);
  std::vector<std::string> runs;
  for (int threads : {1, 2, 5}) {
    Model model(artifact, target, threads);
    initialize(model);
    std::vector<double> losses = measureCurve(model, text, 1, 8);
    runs.push_back(toBits(model, losses));
  }
  EXPECT_EQ(runs[0].find("nan"), std::string::npos);
  EXPECT_TRUE(runs[0] == runs[1]) << "two threads differ from one";
  EXPECT_TRUE(runs[0] == runs[2]) << "five threads differ from one";
}

/// A checkpoint stores only master weights: loading must rebuild the copies.
TEST(MixedTraining, ResumesExactly) {
  std::string text = readFileText(source + "/docs/spec.md");
  std::string target = sluice::runtime::machineTargets().front();
  Folder folder;
  std::string artifact = compile(folder, source + "/models/tiny/vanilla-bf16.json", target);
  Model whole(artifact, target);
  initialize(whole);
  measureCurve(whole, text, 1, 5);
  sluice::runtime::TrainingState state;
  state.step = 5;
  sluice::runtime::saveCheckpoint(folder.path("run"), whole.executor(), state, 1);
  Model resumed(artifact, target);
  sluice::runtime::loadCheckpoint(folder.path("run"), resumed.executor());
  Inputs probe = buildBatch(text, 99);
  EXPECT_EQ(resumed.evaluate(probe), whole.evaluate(probe));
  Model loaded(artifact, target);
  sluice::runtime::loadWeights(folder.path("run"), loaded.executor());
  EXPECT_EQ(loaded.evaluate(probe), whole.evaluate(probe));
  std::vector<double> expected = measureCurve(whole, text, 6, 10),
                      found = measureCurve(resumed, text, 6, 10);
  EXPECT_TRUE(toBits(resumed, found) == toBits(whole, expected));
}

/// The optimizer's copies are its rounded master weights: rebuilding them changes nothing.
TEST(MixedTraining, CopiesAreRoundedMasterWeights) {
  std::string text = readFileText(source + "/docs/spec.md");
  std::string target = sluice::runtime::machineTargets().front();
  Folder folder;
  Model model(compile(folder, source + "/models/tiny/vanilla-bf16.json", target), target);
  initialize(model);
  Inputs probe = buildBatch(text, 99);
  std::vector<double> before = model.evaluate(probe);
  model.executor().prepare();
  EXPECT_EQ(model.evaluate(probe), before) << "initialization";
  measureCurve(model, text, 1, 3);
  std::vector<double> after = model.evaluate(probe);
  EXPECT_NE(after, before);
  model.executor().prepare();
  EXPECT_EQ(model.evaluate(probe), after) << "the optimizer";
}

} // namespace
