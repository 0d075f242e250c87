// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores written only in IR: inserts a soft cap and a linear position bias into the text of a
// model, which is then compiled unchanged; and a rectified score that reads a table in its own way.
// Forward and backward must follow with no additional launch.
#include "Harness.h"
#include "Specs.h"

#include <gtest/gtest.h>
#include <regex>

using namespace sluice::testing;

namespace {

/// Every attention's `yield s` becomes: yield cap tanh(s / cap) + slope (q - p).
std::string withCapAndBias(const std::string &model, int &regions) {
  static const std::regex region(
      R"((\^bb0\((%\w+): f32, (%\w+): i32, (%\w+): i32, (%\w+): i32\):\n[^}]*?)sluice\.yield (%\w+) : f32)");
  std::string result;
  auto rest = model.cbegin();
  for (std::smatch match; std::regex_search(rest, model.cend(), match, region);
       rest = match[0].second) {
    result.append(rest, match[0].first);
    result += match[1].str() +
              "%cap = arith.constant 1.5 : f32\n%slope = arith.constant 0.0625 : f32\n" +
              "%scaled = arith.divf " + match[6].str() +
              ", %cap : f32\n%bent = math.tanh %scaled : f32\n" +
              "%capped = arith.mulf %bent, %cap : f32\n%ahead = arith.subi " + match[4].str() +
              ", " + match[3].str() +
              " : i32\n%distance = arith.sitofp %ahead : i32 to f32\n%bias = arith.mulf %distance, "
              "%slope : f32\n" +
              "%score = arith.addf %capped, %bias : f32\nsluice.yield %score : f32";
    ++regions;
  }
  return result.append(rest, model.cend());
}

int64_t launches(const Model &model) {
  return static_cast<int64_t>(model.plan().entries.at("gradient").size());
}

/// Every attention's `yield x`, where x contains row e of a table by distance, becomes: yield
/// max(x, 0) + h tanh(e).
std::string withRectifiedTerm(const std::string &model, int &regions) {
  static const std::regex region(
      R"((\^bb0\(%\w+: f32, %\w+: i32, %\w+: i32, (%\w+): i32, (%\w+): f32\):\n[^}]*?)sluice\.yield (%\w+) : f32)");
  std::string result;
  auto rest = model.cbegin();
  for (std::smatch match; std::regex_search(rest, model.cend(), match, region);
       rest = match[0].second) {
    result.append(rest, match[0].first);
    result += match[1].str() + "%none = arith.constant 0.0 : f32\n%some = arith.maximumf " +
              match[4].str() + ", %none : f32\n%bent = math.tanh " + match[3].str() +
              " : f32\n%number = arith.sitofp " + match[2].str() +
              " : i32 to f32\n%slope = arith.mulf %bent, %number : f32\n" +
              "%score = arith.addf %some, %slope : f32\nsluice.yield %score : f32";
    ++regions;
  }
  return result.append(rest, model.cend());
}

/// Every attention's `x = s + t`, t the product of its position query with a row by distance,
/// becomes: x = s / (1 + e^-t).
std::string withGates(const std::string &model, int &regions) {
  static const std::regex sum(
      R"((\^bb0\((%\w+): f32, %\w+: i32, %\w+: i32, %\w+: i32, (%\w+): f32\):\n\s*)(%\w+) = arith\.addf \2, \3 : f32\n)");
  regions = static_cast<int>(
      std::distance(std::sregex_iterator(model.begin(), model.end(), sum), std::sregex_iterator()));
  return std::regex_replace(model, sum,
                            "$1%one = arith.constant 1.0 : f32\n%less = arith.negf $3 : f32\n"
                            "%power = math.exp %less : f32\n%all = arith.addf %one, %power : f32\n"
                            "$4 = arith.divf $2, %all : f32\n");
}

/// Compares a model of these stages with other scores, on every target, with the reference.
void expectCompiled(const std::string &stages, std::string (*change)(const std::string &, int &),
                    int expected) {
  Folder folder;
  std::string spec = folder.write("plain.json", buildStack(stages));
  int regions = 0;
  std::string source = folder.write("changed.mlir", change(emit(spec, "model"), regions));
  ASSERT_EQ(regions, expected) << "in @evaluate and in @predict";

  ReferenceModel reference(emit(source, "gradient"));
  Tensors weights = randomWeights(reference.shapes(), 1);
  Inputs inputs = randomInputs(reference.size("vocabulary"), 2, 23, 9);
  ReferenceGradient exact = reference.gradient(inputs, weights, Precision::F64);
  ReferenceGradient inFloat = reference.gradient(inputs, weights, Precision::F32);
  std::map<std::string, std::string> plainArtifacts = compileForAll(folder, spec);
  for (const auto &[target, artifact] : compileForAll(folder, source)) {
    Model changed(artifact, target), plain(plainArtifacts.at(target), target);
    EXPECT_EQ(launches(changed), launches(plain));
    changed.setWeights(weights);
    plain.setWeights(weights);
    ReferenceGradient found = changed.gradient(inputs);
    Comparison comparison("score in IR on " + target);
    comparison.expect("losses", found.losses, yardstick(exact.losses, inFloat.losses));
    for (const auto &[name, values] : found.gradients) {
      comparison.expect("gradient of " + name, values,
                        yardstick(exact.gradients.at(name), inFloat.gradients.at(name)));
    }
    // The region matters: without it the losses differ.
    Yardstick losses = yardstick(exact.losses, inFloat.losses);
    EXPECT_GT(ratio(plain.gradient(inputs).losses, losses), 100);
  }
}

TEST(ScoreRegion, DifferentiatesAndCompilesFromIR) {
  expectCompiled(R"({"op": "layer", "key_value_heads": 1},
                    {"op": "hourglass", "hierarchy": "0@1 1@3 0@1"},)",
                 withCapAndBias, 4);
}

TEST(ScoreRegion, ReadsATableByDistance) {
  expectCompiled(R"({"op": "layer", "key_value_heads": 1, "relative": {"bias": 4}},)",
                 withRectifiedTerm, 2);
}

TEST(ScoreRegion, ReadsAProductByDistance) {
  expectCompiled(R"({"op": "layer", "key_value_heads": 1, "relative": "xl"},)", withGates, 2);
}

} // namespace
