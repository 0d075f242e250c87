// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Specs.h"

#include <cmath>
#include <sstream>

using namespace sluice::spec;

namespace {

std::vector<Tensor> tensorsOf(const Model &model) { return tensors(model, expand(model)); }

/// One line a tensor: "name [shape]", a star where weight decay applies. `drop` is cut from the
/// names.
std::string show(const Model &model, const std::string &only, const std::string &drop) {
  std::ostringstream out;
  for (const Tensor &tensor : tensorsOf(model)) {
    if (!tensor.name.starts_with(only)) {
      continue;
    }
    out << tensor.name.substr(drop.size()) << " [";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      out << (i ? ", " : "") << tensor.shape[i];
    }
    out << "]" << (tensor.decay ? " *" : "") << "\n";
  }
  return out.str();
}

TEST(Tensors, OfALayer) {
  Model model = readGood(specText(R"({ "op": "layer", "feed_forward": 7 },)"));
  EXPECT_EQ(show(model, "stages.1.", "stages.1."), "attention.norm.weight [12]\n"
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

TEST(Tensors, OfAGatedLayerWithSharedHeads) {
  Model model = readGood(specText(R"({ "op": "layer", "heads": 4, "key_value_heads": 2,
      "head_size": 5, "activation": "swiglu", "norm": "rms" },)"));
  EXPECT_EQ(show(model, "stages.1.", "stages.1."), "attention.norm.weight [12]\n"
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

TEST(Tensors, OfALayerWithoutBiases) {
  Model model = readGood(specText(R"({ "op": "layer", "bias": false },)"));
  EXPECT_EQ(show(model, "stages.1.", "stages.1."), "attention.norm.weight [12]\n"
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

TEST(Tensors, OfTheOtherStages) {
  Model model =
      readGood(specText(R"({ "op": "norm" }, { "op": "shift", "by": 2 },
    { "op": "shorten", "factor": 3, "method": "linear" },
    { "op": "upsample", "factor": 3, "method": "linear" },
    { "op": "shorten", "factor": 2 }, { "op": "upsample", "factor": 2 },
    { "op": "dropout", "rate": 0 },)",
                        "\"heads\": 2", R"(, "positions": "learned")", R"(, "bias": true)"));
  EXPECT_EQ(show(model, "", ""), "stages.0.token.weight [11, 12]\n"
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

TEST(Tensors, ATiedHeadHasNoMatrix) {
  Model model =
      readGood(specText("", "\"heads\": 2", R"(, "positions": "sinusoidal")", R"(, "tied": true)"));
  EXPECT_EQ(show(model, "", ""), "stages.0.token.weight [11, 12]\n");
}

TEST(Tensors, OfWindows) {
  Model model =
      readGood(specText(R"({ "op": "shorten", "factor": 2, "window": 5, "method": "convolution" },
    { "op": "shorten", "factor": 1, "window": 2, "method": "convolution" },
    { "op": "upsample", "factor": 2, "window": 6, "method": "transposed" },)"));
  EXPECT_NE(show(model, "", "")
                .find("stages.1.weight [12, 60] *\n"
                      "stages.1.bias [12]\n"
                      "stages.2.weight [12, 24] *\n"
                      "stages.2.bias [12]\n"
                      "stages.3.weight [24, 36] *\n"
                      "stages.3.bias [24]\n"),
            std::string::npos)
      << show(model, "", "");
}

TEST(Tensors, Initialization) {
  Model model = readGood(specText(R"({ "op": "layers", "count": 8, "feed_forward": 16 },
    { "op": "shorten", "factor": 3, "method": "linear" },
    { "op": "upsample", "factor": 3, "method": "linear" },)"));
  auto deviation = [&](const std::string &name) {
    for (const Tensor &tensor : tensorsOf(model)) {
      if (tensor.name == "stages." + name) {
        EXPECT_EQ(tensor.initial.kind, InitialKind::Normal) << name;
        return tensor.initial.deviation;
      }
    }
    ADD_FAILURE() << "no tensor " << name;
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
  for (const Tensor &tensor : tensorsOf(model)) {
    bool norm = tensor.name.ends_with("norm.weight"), bias = tensor.name.ends_with("bias");
    InitialKind expected = norm   ? InitialKind::Ones
                           : bias ? InitialKind::Zeros
                                  : InitialKind::Normal;
    EXPECT_EQ(tensor.initial.kind, expected) << tensor.name;
  }
}

TEST(Tensors, MatricesThatBeginOtherwise) {
  Model model = readGood(specText(R"({ "op": "project", "initial": "zeros" },
    { "op": "project", "with": "wide", "initial": "identity" },
    { "op": "boundaries", "name": "routed", "ratio": 3, "at": "start" },)",
                                  "\"heads\": 2", R"(, "to": "wide")"));
  std::map<std::string, InitialKind> expected = {
      {"stages.1.weight", InitialKind::Zeros},
      {"stages.2.weight", InitialKind::Identity},
      {"stages.2.with.weight", InitialKind::Identity},
      {"stages.3.own.weight", InitialKind::Identity},
      {"stages.3.previous.weight", InitialKind::Identity}};
  for (const Tensor &tensor : tensorsOf(model)) {
    if (auto found = expected.find(tensor.name); found != expected.end()) {
      EXPECT_EQ(tensor.initial.kind, found->second) << tensor.name;
      expected.erase(found);
    }
  }
  EXPECT_TRUE(expected.empty()) << "no tensor " << expected.begin()->first;
}

TEST(Tensors, ParameterCountIsTheirSum) {
  // A layer of width d with biases has 12 d^2 + 13 d; then a norm of 2 d, embedding and head of V
  // d.
  Model model = readGood(specText(R"({ "op": "hourglass", "hierarchy": "3@1" },)"));
  EXPECT_EQ(parameterCount(model), 3 * (12 * 144 + 13 * 12) + 24 + 2 * 11 * 12);
}

TEST(Tensors, NameTheirStage) {
  Model model = readGood(specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@1" },)"));
  auto primitives = expand(model);
  for (const Tensor &tensor : tensors(model, primitives)) {
    std::string prefix = primitives.at(static_cast<size_t>(tensor.stage)).prefix + ".";
    EXPECT_TRUE(tensor.name.starts_with(prefix)) << tensor.name << " in " << prefix;
  }
}

} // namespace
