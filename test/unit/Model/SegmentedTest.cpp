// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segments in a model written in IR: losses and gradients of compiled code compared with the
// reference, including the straight-through gradient of the boundaries.
#include "Harness.h"
#include "Specs.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Adds three poolings of the embedded tokens, read from the next segment on. A bit is set if its
/// logit is positive; backward it is the sigmoid. `spare` rows stay unused.
std::string segmentedText(int64_t spare) {
  return R"mlir(
    %bit_weight = sluice.read @bit.weight : tensor<1x16xf32>
    %bit_bias = sluice.read @bit.bias : tensor<1xf32>
    %logits = sluice.linear %1, %bit_weight, %bit_bias : (!fine, tensor<1x16xf32>, tensor<1xf32>) -> !bit
    %bits = sluice.map(%logits) {
    ^bb0(%logit: f32):
      %none = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %positive = arith.cmpf ogt, %logit, %none : f32
      %hard = arith.select %positive, %one, %none : f32
      %minus = arith.negf %logit : f32
      %power = math.exp %minus : f32
      %sum = arith.addf %one, %power : f32
      %soft = arith.divf %one, %sum : f32
      %through = dispatch.straight_through %hard, %soft : f32
      sluice.yield %through : f32
    } : (!bit) -> !bit
    %counts, %ends = sluice.segment %bits {spare = )mlir" +
         std::to_string(spare) + R"mlir( : i64} : (!bit) -> (!counts, !ends)
    %means = sluice.pool_segments %1, %bits, %counts, %ends : (!fine, !bit, !counts, !ends) -> !coarse
    %begun = sluice.pool_segments %1, %bits, %counts, %ends {starts} : (!fine, !bit, !counts, !ends) -> !coarse
    %lasts = sluice.select_segments %1, %counts, %ends : (!fine, !counts, !ends) -> !coarse
    %pooled = sluice.map(%means, %begun, %lasts) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %ab = arith.addf %a, %b : f32
      %abc = arith.addf %ab, %c : f32
      sluice.yield %abc : f32
    } : (!coarse, !coarse, !coarse) -> !coarse
    %inner_weight = sluice.read @inner.weight : tensor<16x16xf32>
    %inner_bias = sluice.read @inner.bias : tensor<16xf32>
    %inner = sluice.linear %pooled, %inner_weight, %inner_bias : (!coarse, tensor<16x16xf32>, tensor<16xf32>) -> !coarse
    %near = sluice.spread_segments %inner, %counts, %ends by 1 : (!coarse, !counts, !ends) -> !fine
    %far = sluice.spread_segments %inner, %counts, %ends by 2 : (!coarse, !counts, !ends) -> !fine
    %rate = sluice.total %bits : (!bit) -> !bit
    %number = sluice.sum_columns %rate : (!bit) -> !number
    %share = sluice.repeat_columns %number : (!number) -> !fine
    %mixed = sluice.map(%1, %near, %far, %share) {
    ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
      %small = arith.constant 0.01 : f32
      %part = arith.mulf %d, %small : f32
      %ab = arith.addf %a, %b : f32
      %abc = arith.addf %ab, %c : f32
      %abcd = arith.addf %abc, %part : f32
      sluice.yield %abcd : f32
    } : (!fine, !fine, !fine, !fine) -> !fine
)mlir";
}

void replaceAll(std::string &text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// A model of `rows` rows for segments, of an embedding and a head.
std::string segmented(const Folder &folder, int64_t rows, int64_t spare) {
  std::string plain = folder.write("plain.json", R"({"sluice": 1, "vocabulary": 48, "context": 24,
      "batch": 3, "width": 16, "stages": [{"op": "embedding"}, {"op": "head"}]})");
  std::string text = emit(plain, "model");
  std::string embedded = "-> !sluice.seq<@s1, 16, f32>\n";
  replaceAll(text, embedded, embedded + segmentedText(spare));
  replaceAll(text, "sluice.cross_entropy %1", "sluice.cross_entropy %mixed");
  replaceAll(text, "sluice.last %1", "sluice.last %mixed");
  replaceAll(text, "  sluice.scale @last",
             "  sluice.axis @segments segments of @s1 capacity " + std::to_string(rows) + R"(
  sluice.scale @w1 on @segments factor 1
  sluice.parameter @bit.weight : tensor<1x16xf32> {decay, deviation = 0.25 : f64, initial = "normal", names = ["bit.weight"], sizes = array<i64: 1>}
  sluice.parameter @bit.bias : tensor<1xf32> {initial = "zeros", names = ["bit.bias"], sizes = array<i64: 1>}
  sluice.parameter @inner.weight : tensor<16x16xf32> {decay, deviation = 0.25 : f64, initial = "normal", names = ["inner.weight"], sizes = array<i64: 16>}
  sluice.parameter @inner.bias : tensor<16xf32> {initial = "zeros", names = ["inner.bias"], sizes = array<i64: 16>}
  sluice.scale @last)");
  return folder.write("segmented." + std::to_string(rows) + "." + std::to_string(spare) + ".mlir",
                      R"(!fine = !sluice.seq<@s1, 16, f32>
!bit = !sluice.seq<@s1, 1, f32>
!number = !sluice.seq<@s1, 0, f32>
!counts = !sluice.seq<@s1, 0, i32>
!ends = !sluice.seq<@w1, 0, i32>
!coarse = !sluice.seq<@w1, 16, f32>
)" + text);
}

/// Not checked: predictions may not read a sum over all positions.
driver::Outcome compileUnchecked(driver::CompileRequest request) {
  request.replay = {.targetOffset = 1, .batch = 3};
  driver::Outcome outcome = driver::compile(request);
  EXPECT_EQ(outcome.status, 0) << outcome.message;
  return outcome;
}

std::string compileSpecText(const std::string &source, const std::string &target) {
  std::string artifact = source + "." + target + ".sla";
  compileUnchecked({.spec = source, .output = artifact, .targets = {target}, .emit = ""});
  return artifact;
}

TEST(Segmented, GradientsEqualTheReference) {
  Folder folder;
  std::string source = segmented(folder, 24, 0);
  ReferenceModel reference(
      compileUnchecked({.spec = source, .output = "", .targets = {"cpu-avx2"}, .emit = "gradient"})
          .output);
  Tensors weights = randomWeights(reference.shapes(), 1);
  for (double &number : weights.at("stages.0.token.weight")) {
    number *= 10; // logits of either sign, far from 0
  }
  for (const std::string &target : targetsFor(source)) {
    Model model(compileSpecText(source, target), target);
    model.setWeights(weights);
    for (int64_t length : {24, 17}) {
      Inputs inputs = randomInputs(reference.size("vocabulary"), 3, length, 9);
      ReferenceGradient exact = reference.gradient(inputs, weights, Precision::F64);
      ReferenceGradient inFloat = reference.gradient(inputs, weights, Precision::F32);
      ReferenceGradient found = model.gradient(inputs);
      Comparison comparison("segments on " + target);
      comparison.expect("losses", found.losses, yardstick(exact.losses, inFloat.losses));
      for (const auto &[name, values] : found.gradients) {
        comparison.expect("gradient of " + name, values,
                          yardstick(exact.gradients.at(name), inFloat.gradients.at(name)));
      }
      double boundaries = 0;
      for (double number : found.gradients.at("bit.weight")) {
        boundaries += std::abs(number);
      }
      EXPECT_GT(boundaries, 1e-6) << "no gradient reaches the boundaries";
    }
  }
}

/// A predictor that learns labels, by tokens and by word-final tokens, in both modes.
TEST(Segmented, LabelsTrainAPredictor) {
  Folder folder;
  std::string target = runtime::machineTargets().front();
  for (std::string mode : {"paper", "reference-code"}) {
    std::string source = folder.write(mode + ".json", R"({"sluice": 1, "vocabulary": 48,
        "context": 20, "batch": 2, "width": 16,
        "stages": [{"op": "embedding", "to": "x"},
          {"op": "boundaries", "name": "words", "rule": "labels", "predictor": 6, "mode": ")" +
                                                          mode + R"("},
          {"op": "shorten", "segments": "words", "to": "w"},
          {"op": "boundaries", "name": "phrases", "rule": "labels", "predictor": 5, "weight": 0.5},
          {"op": "shorten", "segments": "phrases"}, {"op": "norm"},
          {"op": "upsample", "segments": "phrases"}, {"op": "add", "with": "w"},
          {"op": "upsample", "segments": "words"}, {"op": "add", "with": "x"}, {"op": "head"}]})");
    ReferenceModel reference(emit(source, "gradient"));
    Tensors weights = randomWeights(reference.shapes(), 1);
    Model model(compile(folder, source, target), target);
    model.setWeights(weights);
    Inputs inputs = randomInputs(48, 2, 17, 9);
    ReferenceGradient exact = reference.gradient(inputs, weights, Precision::F64);
    ReferenceGradient inFloat = reference.gradient(inputs, weights, Precision::F32);
    ReferenceGradient found = model.gradient(inputs);
    Comparison comparison("labels, " + mode);
    comparison.expect("loss", {found.loss}, yardstick({exact.loss}, {inFloat.loss}));
    for (const auto &[name, values] : found.gradients) {
      comparison.expect("gradient of " + name, values,
                        yardstick(exact.gradients.at(name), inFloat.gradients.at(name)));
    }
    EXPECT_GT(std::abs(found.gradients.at("stages.1.out.bias")[0]), 1e-4);
    // A logit of 0: log 2, or, as a probability is the logit, log(1 + e^1/2) - y / 2.
    for (const char *part : {"stages.1.out.weight", "stages.1.out.bias"}) {
      std::ranges::fill(weights.at(part), 0);
    }
    model.setWeights(weights);
    model.gradient(inputs);
    double set = 0;
    std::span<const float> labels = model.executor().inputs().labels.at("words").rows;
    for (size_t row : {0, 1}) {
      std::span<const float> own = labels.subspan(row * 20, 17);
      set += std::accumulate(own.begin(), own.end(), 0.0) / 34;
    }
    double expected = mode == "paper" ? std::log(2) : std::log1p(std::exp(0.5)) - set / 2;
    EXPECT_NEAR(model.executor().scalarF32("loss.words.labels"), expected, 1e-5);
  }
}

/// Layers on segments that white space ends, with attention by distance, wide enough for vectors.
std::string wordsSpec(const Folder &folder) {
  return folder.write("words.json", R"({"sluice": 1, "vocabulary": 48, "context": 24, "batch": 3,
      "width": 16, "defaults": {"heads": 2, "placement": "post", "relative": "xl_shared"},
      "stages": [{"op": "embedding"}, {"op": "boundaries", "name": "words", "rule": "whitespace"},
        {"op": "shorten", "segments": "words"}, {"op": "shift", "by": 1, "start": "null"},
        {"op": "layers", "count": 2}, {"op": "upsample", "segments": "words", "by": 0},
        {"op": "head"}]})");
}

/// Equal rows: the segment's maximum has the value of its first row, and its gradient flows there,
/// bitwise.
TEST(Segmented, MaximaOfEqualRowsSelectTheFirst) {
  Folder folder;
  std::string target = runtime::machineTargets().front();
  std::string source = folder.write("maxima.json", R"({"sluice": 1, "vocabulary": 48,
      "context": 9, "batch": 1, "width": 16,
      "stages": [{"op": "embedding", "positions": "learned"},
        {"op": "boundaries", "name": "threes", "rule": "every", "factor": 3},
        {"op": "shorten", "segments": "threes", "method": "max"},
        {"op": "upsample", "segments": "threes"}, {"op": "head"}]})");
  Model model(compile(folder, source, target), target);
  Tensors weights = model.weights();
  std::vector<double> &tokens = weights.at("stages.0.token.weight");
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<double>(i / 16 % 3); // of token k, k mod 3
  }
  std::ranges::fill(weights.at("stages.0.position.weight"), 0);
  std::vector<double> &head = weights.at("stages.4.weight");
  for (size_t i = 0; i < head.size(); ++i) {
    head[i] = static_cast<double>(i * 7 % 5) / 8; // so each column moves the loss
  }
  model.setWeights(weights);
  Inputs inputs = randomInputs(48, 1, 9, 9);
  inputs.tokens = {1, 4, 7, 1, 2, 5, 5, 3, 2, 0}; // rows of 1 1 1, 1 2 2 and 2 0 2
  ReferenceGradient found = model.gradient(inputs);
  const std::vector<double> &moved = found.gradients.at("stages.0.position.weight");
  std::vector<size_t> rows;
  for (size_t row = 0; row < 9; ++row) {
    if (std::ranges::any_of(std::span(moved).subspan(row * 16, 16),
                            [](double x) { return x != 0; })) {
      rows.push_back(row);
    }
  }
  EXPECT_EQ(rows, (std::vector<size_t>{0, 4, 6}));
}

/// A batch of one-token segments leaves NaN in every row. Batches of few segments then read none of
/// it.
TEST(Segmented, IgnoresRowsAfterTheLastSegment) {
  Folder folder;
  std::string target = runtime::machineTargets().front();
  std::string artifact = compileSpecText(wordsSpec(folder), target);
  Inputs inputs = randomInputs(48, 3, 24, 9), spaces = inputs;
  std::ranges::fill(spaces.tokens, ' ');
  Model fresh(artifact, target), used(artifact, target);
  Tensors weights = fresh.weights(), poison = weights;
  for (auto &[name, values] : poison) {
    std::ranges::fill(values, 3e38);
  }
  used.setWeights(poison);
  EXPECT_FALSE(std::isfinite(used.gradient(spaces).loss));
  used.setWeights(weights);
  fresh.setWeights(weights);
  ReferenceGradient expected = fresh.gradient(inputs), found = used.gradient(inputs);
  EXPECT_TRUE(std::isfinite(found.loss));
  EXPECT_EQ(found.losses, expected.losses);
  EXPECT_EQ(found.gradients, expected.gradients);
}

/// Every bit is set: 24 segments a row.
TEST(Segmented, RejectsMoreSegmentsThanRows) {
  Folder folder;
  std::string target = runtime::machineTargets().front();
  auto run = [&](int64_t rows, int64_t spare) -> std::string {
    Model model(compileSpecText(segmented(folder, rows, spare), target), target);
    Tensors weights = model.weights();
    weights.at("bit.bias") = {100};
    model.setWeights(weights);
    try {
      Inputs inputs = randomInputs(48, 3, 24, 9);
      inputs.step = 7;
      model.gradient(inputs);
    } catch (const JobError &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(run(25, 1), "");
  EXPECT_EQ(run(24, 1), "step 7: row 0 of the batch needs 25 rows for the segments of "
                        "\"segments\", expected at most 24; give them a greater capacity in the "
                        "spec, and compile it again");
}

} // namespace
