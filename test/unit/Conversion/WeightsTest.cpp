// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Specs.h"

#include <cmath>
#include <map>
#include <sstream>

using namespace sluice;
using namespace sluice::spec;

namespace {

/// A spec with its weights.
class Weights {
public:
  explicit Weights(const ParsedSpec &spec) : expanded(spec.expand(0)) {}
  auto list() const { return expanded.getModel().getBody().getOps<WeightOp>(); }

  /// One line per weight: "name [shape]", with a star if weight decay applies. `drop` is removed
  /// from the names.
  std::string show(const std::string &only, const std::string &drop) const {
    std::ostringstream out;
    for (auto weight : list()) {
      if (!weight.getSymName().starts_with(only)) {
        continue;
      }
      out << weight.getSymName().substr(drop.size()).str() << " [";
      for (auto [i, size] : llvm::enumerate(weight.getShape())) {
        out << (i ? ", " : "") << size;
      }
      out << "]" << (weight.getDecay() ? " *" : "") << "\n";
    }
    return out.str();
  }

private:
  ParsedSpec expanded;
};

TEST(Weights, ParametersOfALayer) {
  Weights weights(readGood(specText(R"({ "op": "layer", "feed_forward": 7 },)")));
  EXPECT_EQ(weights.show("stages.1.", "stages.1."), "attention.norm.weight [12]\n"
                                                    "attention.norm.bias [12]\n"
                                                    "attention.query.weight [12, 12] *\n"
                                                    "attention.key.weight [12, 12] *\n"
                                                    "attention.value.weight [12, 12] *\n"
                                                    "attention.query.bias [12]\n"
                                                    "attention.key.bias [12]\n"
                                                    "attention.value.bias [12]\n"
                                                    "attention.output.weight [12, 12] *\n"
                                                    "attention.output.bias [12]\n"
                                                    "feed_forward.norm.weight [12]\n"
                                                    "feed_forward.norm.bias [12]\n"
                                                    "feed_forward.in.weight [7, 12] *\n"
                                                    "feed_forward.in.bias [7]\n"
                                                    "feed_forward.out.weight [12, 7] *\n"
                                                    "feed_forward.out.bias [12]\n");
}

TEST(Weights, ParametersOfAGatedLayerWithSharedHeads) {
  Weights weights(readGood(specText(R"({ "op": "layer", "heads": 4, "key_value_heads": 2,
      "head_size": 5, "activation": "swiglu", "norm": "rms" },)")));
  EXPECT_EQ(weights.show("stages.1.", "stages.1."), "attention.norm.weight [12]\n"
                                                    "attention.query.weight [20, 12] *\n"
                                                    "attention.key.weight [10, 12] *\n"
                                                    "attention.value.weight [10, 12] *\n"
                                                    "attention.query.bias [20]\n"
                                                    "attention.key.bias [10]\n"
                                                    "attention.value.bias [10]\n"
                                                    "attention.output.weight [12, 20] *\n"
                                                    "attention.output.bias [12]\n"
                                                    "feed_forward.norm.weight [12]\n"
                                                    "feed_forward.gate.weight [48, 12] *\n"
                                                    "feed_forward.in.weight [48, 12] *\n"
                                                    "feed_forward.gate.bias [48]\n"
                                                    "feed_forward.in.bias [48]\n"
                                                    "feed_forward.out.weight [12, 48] *\n"
                                                    "feed_forward.out.bias [12]\n");
}

TEST(Weights, ParametersOfALayerWithoutBiases) {
  Weights weights(readGood(specText(R"({ "op": "layer", "bias": false },)")));
  EXPECT_EQ(weights.show("stages.1.", "stages.1."), "attention.norm.weight [12]\n"
                                                    "attention.norm.bias [12]\n"
                                                    "attention.query.weight [12, 12] *\n"
                                                    "attention.key.weight [12, 12] *\n"
                                                    "attention.value.weight [12, 12] *\n"
                                                    "attention.output.weight [12, 12] *\n"
                                                    "feed_forward.norm.weight [12]\n"
                                                    "feed_forward.norm.bias [12]\n"
                                                    "feed_forward.in.weight [48, 12] *\n"
                                                    "feed_forward.out.weight [12, 48] *\n");
}

TEST(Weights, ParametersOfOtherStages) {
  Weights weights(
      readGood(specText(R"({ "op": "norm" }, { "op": "shift", "by": 2 },
    { "op": "shorten", "factor": 3, "method": "linear" },
    { "op": "upsample", "factor": 3, "method": "linear" },
    { "op": "shorten", "factor": 2 }, { "op": "upsample", "factor": 2 },
    { "op": "dropout", "rate": 0 },)",
                        "\"heads\": 2", R"(, "positions": "learned")", R"(, "bias": true)")));
  EXPECT_EQ(weights.show("", ""), "stages.0.token.weight [11, 12]\n"
                                  "stages.0.position.weight [9, 12]\n"
                                  "stages.1.weight [12]\n"
                                  "stages.1.bias [12]\n"
                                  "stages.3.weight [12, 36] *\n"
                                  "stages.3.bias [12]\n"
                                  "stages.4.weight [36, 12] *\n"
                                  "stages.4.bias [36]\n"
                                  "stages.8.weight [11, 12] *\n"
                                  "stages.8.bias [11]\n");
}

TEST(Weights, TiedHeadHasNoMatrix) {
  Weights weights(readGood(
      specText("", "\"heads\": 2", R"(, "positions": "sinusoidal")", R"(, "tied": true)")));
  EXPECT_EQ(weights.show("", ""), "stages.0.token.weight [11, 12]\n");
}

TEST(Weights, FirstSharingStageOwnsThem) {
  Weights weights(
      readGood(specText(R"({ "op": "project", "share": "map", "initial": "zeros" },
    { "op": "shorten", "factor": 2 }, { "op": "norm", "share": "norm" },
    { "op": "project", "share": "map", "initial": "zeros", "activation": "gelu" },
    { "op": "norm", "share": "norm" }, { "op": "upsample", "factor": 2 },
    { "op": "loss", "name": "early", "share": "tokens", "bias": true },)",
                        "\"heads\": 2", R"(, "share": "tokens")", R"(, "share": "tokens")")));
  EXPECT_EQ(weights.show("", ""), "stages.0.token.weight [11, 12]\n"
                                  "stages.1.weight [12, 12] *\n"
                                  "stages.1.bias [12]\n"
                                  "stages.3.weight [12]\n"
                                  "stages.3.bias [12]\n"
                                  "stages.7.bias [11]\n");
}

TEST(Weights, SpellingsOfSharingGiveOneTensor) {
  Weights weights(readGood(specText(R"({ "op": "layer", "relative": "xl_shared", "share": "block" },
    { "op": "embedding", "share": "tokens" }, { "op": "layer", "relative": "xl_shared" },
    { "op": "layer", "relative": "xl_shared", "share": "block" },)",
                                    "\"heads\": 2", R"(, "share": "tokens")",
                                    R"(, "tied": true, "bias": true)")));
  std::string all = weights.show("", "");
  EXPECT_EQ(weights.show("stages.2.", ""), "") << all;
  EXPECT_EQ(weights.show("stages.3.attention.relative.", "stages.3."),
            "attention.relative.weight [12, 12] *\n")
      << all;
  EXPECT_EQ(weights.show("stages.4.", ""), "") << all;
  EXPECT_EQ(weights.show("stages.5.", ""), "stages.5.bias [11]\n") << all;
}

TEST(Weights, ParametersOfWindows) {
  Weights weights(
      readGood(specText(R"({ "op": "shorten", "factor": 2, "window": 5, "method": "convolution" },
    { "op": "shorten", "factor": 1, "window": 2, "method": "convolution" },
    { "op": "upsample", "factor": 2, "window": 6, "method": "transposed" },)")));
  EXPECT_NE(weights.show("", "").find("stages.1.weight [12, 60] *\n"
                                      "stages.1.bias [12]\n"
                                      "stages.2.weight [12, 24] *\n"
                                      "stages.2.bias [12]\n"
                                      "stages.3.weight [24, 36] *\n"
                                      "stages.3.bias [24]\n"),
            std::string::npos)
      << weights.show("", "");
}

TEST(Weights, Initialization) {
  Weights weights(readGood(specText(R"({ "op": "layers", "count": 8, "feed_forward": 16 },
    { "op": "shorten", "factor": 3, "method": "linear" },
    { "op": "upsample", "factor": 3, "method": "linear" },)")));
  auto deviation = [&](const std::string &name) {
    for (auto weight : weights.list()) {
      if (weight.getSymName() == "stages." + name) {
        EXPECT_EQ(weight.getInitial(), InitialValues::normal) << name;
        return weight.getDeviation();
      }
    }
    ADD_FAILURE() << "no weight " << name;
    return 0.0;
  };
  EXPECT_EQ(deviation("0.token.weight"), 0.02);
  EXPECT_EQ(deviation("4.weight"), 0.02);
  // 8 layers: the two residual branches of each are divided by sqrt(16).
  EXPECT_DOUBLE_EQ(deviation("1.inside.7.attention.key.weight"), 1 / std::sqrt(12.0));
  EXPECT_DOUBLE_EQ(deviation("1.inside.7.attention.output.weight"), 1 / std::sqrt(12.0) / 4);
  EXPECT_DOUBLE_EQ(deviation("1.inside.0.feed_forward.in.weight"), 1 / std::sqrt(12.0));
  EXPECT_DOUBLE_EQ(deviation("1.inside.0.feed_forward.out.weight"), 1.0 / 16);
  EXPECT_DOUBLE_EQ(deviation("2.weight"), 1.0 / 6);
  EXPECT_DOUBLE_EQ(deviation("3.weight"), 1 / std::sqrt(12.0));
  for (auto weight : weights.list()) {
    llvm::StringRef name = weight.getSymName();
    InitialValues expected = name.ends_with("norm.weight") ? InitialValues::ones
                             : name.ends_with("bias")      ? InitialValues::zeros
                                                           : InitialValues::normal;
    EXPECT_EQ(weight.getInitial(), expected) << name.str();
  }
}

TEST(Weights, InitializesOtherMatrices) {
  Weights weights(readGood(specText(R"({ "op": "project", "initial": "zeros" },
    { "op": "project", "with": "wide", "initial": "identity" },
    { "op": "boundaries", "name": "routed", "ratio": 3, "at": "start" },)",
                                    "\"heads\": 2", R"(, "to": "wide")")));
  std::map<std::string, InitialValues> expected = {
      {"stages.1.weight", InitialValues::zeros},
      {"stages.2.weight", InitialValues::identity},
      {"stages.2.with.weight", InitialValues::identity},
      {"stages.3.own.weight", InitialValues::identity},
      {"stages.3.previous.weight", InitialValues::identity}};
  for (auto weight : weights.list()) {
    std::string name = weight.getSymName().str();
    if (auto found = expected.find(name); found != expected.end()) {
      EXPECT_EQ(weight.getInitial(), found->second) << name;
      expected.erase(found);
    }
  }
  EXPECT_TRUE(expected.empty()) << "no weight " << expected.begin()->first;
}

TEST(Weights, ParameterCountIsTheSum) {
  // A layer of width d with biases has 12 d^2 + 13 d; then a norm of 2 d, embedding and head of V
  // d.
  ParsedSpec spec = readGood(specText(R"({ "op": "hourglass", "hierarchy": "3@1" },)"));
  EXPECT_EQ(spec.countParameters(), 3 * (12 * 144 + 13 * 12) + 24 + 2 * 11 * 12);
}

TEST(Weights, NamesContainTheStage) {
  Weights weights(readGood(specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@1" },)")));
  for (auto weight : weights.list()) {
    EXPECT_TRUE(weight.getSymName().starts_with((weight.getPath() + ".").str()))
        << weight.getSymName().str();
  }
}

} // namespace
