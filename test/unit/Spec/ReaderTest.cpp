// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Specs.h"

using namespace sluice::spec;

namespace {

const Layer &layerOf(const Model &model) { return std::get<Layer>(model.stages.at(1).settings); }

TEST(Reader, FillsInEveryDefaultOfTheDocumentation) {
  Model model = readGood(specText(R"({ "op": "layer" },)"));
  EXPECT_EQ(model.name, "test");
  EXPECT_EQ(model.seed, 0);
  const Layer &layer = layerOf(model);
  EXPECT_EQ(layer.heads, 2);
  EXPECT_EQ(layer.keyValueHeads, 2);
  EXPECT_EQ(layer.headSize, 6);
  EXPECT_EQ(layer.norm, NormKind::Layer);
  EXPECT_EQ(layer.placement, Placement::Pre);
  EXPECT_EQ(layer.epsilon, 1e-5);
  EXPECT_EQ(layer.activation, Activation::Gelu);
  EXPECT_EQ(layer.feedForward, 48);
  EXPECT_EQ(layer.dropout, 0);
  EXPECT_EQ(layer.attentionDropout, 0);
  EXPECT_EQ(layer.mask.kind, MaskKind::Causal);
  EXPECT_FALSE(layer.rotaryBase);
  EXPECT_TRUE(layer.bias);
  const Training &training = model.training;
  EXPECT_EQ(training.optimizer, Optimizer::AdamW);
  EXPECT_EQ(training.learningRate, 3e-4);
  EXPECT_EQ(training.beta1, 0.9);
  EXPECT_EQ(training.beta2, 0.95);
  EXPECT_EQ(training.epsilon, 1e-8);
  EXPECT_EQ(training.weightDecay, 0.1);
  EXPECT_EQ(training.clip, 1);
  EXPECT_EQ(training.schedule.kind, ScheduleKind::Cosine);
  EXPECT_EQ(training.schedule.warmup, 100);
  EXPECT_EQ(training.schedule.steps, 1000);
  EXPECT_EQ(training.schedule.floor, 0.1);
}

TEST(Reader, ReadsEveryLayerSetting) {
  Model model = readGood(specText(R"({ "op": "layer", "heads": 6, "key_value_heads": 3,
      "head_size": 8, "norm": "rms", "placement": "post", "epsilon": 1e-6, "activation": "swiglu",
      "feed_forward": 7, "dropout": 0.25, "attention_dropout": 0.5, "mask": { "window": [2, 5] },
      "rotary": { "base": 500 }, "bias": false },)"));
  const Layer &layer = layerOf(model);
  EXPECT_EQ(layer.heads, 6);
  EXPECT_EQ(layer.keyValueHeads, 3);
  EXPECT_EQ(layer.headSize, 8);
  EXPECT_EQ(layer.norm, NormKind::Rms);
  EXPECT_EQ(layer.placement, Placement::Post);
  EXPECT_EQ(layer.epsilon, 1e-6);
  EXPECT_EQ(layer.activation, Activation::SwiGlu);
  EXPECT_EQ(layer.feedForward, 7);
  EXPECT_EQ(layer.dropout, 0.25);
  EXPECT_EQ(layer.attentionDropout, 0.5);
  EXPECT_EQ(layer.mask.kind, MaskKind::Window);
  EXPECT_EQ(layer.mask.begin, 2);
  EXPECT_EQ(layer.mask.end, 5);
  EXPECT_EQ(layer.rotaryBase, 500);
  EXPECT_FALSE(layer.bias);
}

TEST(Reader, ReadsTrainingSettings) {
  std::string text = specText("");
  text.replace(text.find("\"defaults\""), 0, R"("training": { "optimizer": "adam",
    "learning_rate": 1, "betas": [0, 0.5], "epsilon": 1e-9, "weight_decay": 0, "clip": 0,
    "schedule": { "kind": "constant", "warmup": 0, "steps": 7, "floor": 0 } }, )");
  Training training = readGood(text).training;
  EXPECT_EQ(training.optimizer, Optimizer::Adam);
  EXPECT_EQ(training.learningRate, 1);
  EXPECT_EQ(training.beta1, 0);
  EXPECT_EQ(training.beta2, 0.5);
  EXPECT_EQ(training.epsilon, 1e-9);
  EXPECT_EQ(training.weightDecay, 0);
  EXPECT_EQ(training.clip, 0);
  EXPECT_EQ(training.schedule.kind, ScheduleKind::Constant);
  EXPECT_EQ(training.schedule.warmup, 0);
  EXPECT_EQ(training.schedule.steps, 7);
  EXPECT_EQ(training.schedule.floor, 0);
}

TEST(Reader, StagesOverrideDefaults) {
  Model model = readGood(specText(R"({ "op": "layer", "heads": 3, "rotary": false },
    { "op": "norm" }, { "op": "norm", "norm": "layer" },)",
                                  R"("heads": 2, "rotary": true, "norm": "rms", "epsilon": 0.5)"));
  EXPECT_EQ(layerOf(model).heads, 3);
  EXPECT_FALSE(layerOf(model).rotaryBase);
  EXPECT_EQ(layerOf(model).norm, NormKind::Rms);
  EXPECT_EQ(std::get<Norm>(model.stages[2].settings).norm, NormKind::Rms);
  EXPECT_EQ(std::get<Norm>(model.stages[2].settings).epsilon, 0.5);
  EXPECT_EQ(std::get<Norm>(model.stages[3].settings).norm, NormKind::Layer);
}

/// Distances in rows that defaults say hold where distances are counted.
TEST(Reader, InheritedDistancesHoldWhereTheyApply) {
  Model model = readGood(specText(R"({ "op": "layer" }, { "op": "layer", "relative": "none" },
    { "op": "layer", "relative": { "bias": 4 }, "rotary": true },)",
                                  R"("heads": 2, "relative": "xl", "distances": "rows")"));
  EXPECT_TRUE(layerOf(model).countsRows);
  EXPECT_FALSE(std::get<Layer>(model.stages[2].settings).countsRows);
  EXPECT_FALSE(std::get<Layer>(model.stages[3].settings).countsRows);
}

TEST(Reader, DefaultsDoNotReachStagesWithKeysOfTheSameName) {
  Model model = readGood(specText("", R"("heads": 2, "dropout": 0.5, "bias": true)"));
  EXPECT_EQ(std::get<Embedding>(model.stages[0].settings).dropout, 0);
  EXPECT_FALSE(std::get<Head>(model.stages[1].settings).bias);
}

TEST(Reader, ReadsTheOtherStages) {
  Model model = readGood(specText(R"({ "op": "dropout", "rate": 0.1, "to": "x" },
    { "op": "shift", "by": 2 }, { "op": "shorten", "factor": 3, "method": "linear" },
    { "op": "upsample", "factor": 3, "method": "linear" }, { "op": "add", "with": "x", "from": "x" },)",
                                  R"("heads": 2)", R"(, "positions": "sinusoidal", "dropout": 0.2)",
                                  R"(, "tied": true, "bias": true)"));
  EXPECT_EQ(std::get<Embedding>(model.stages[0].settings).positions, Positions::Sinusoidal);
  EXPECT_EQ(std::get<Embedding>(model.stages[0].settings).dropout, 0.2);
  EXPECT_EQ(std::get<Dropout>(model.stages[1].settings).rate, 0.1);
  EXPECT_EQ(std::get<Shift>(model.stages[2].settings).by, 2);
  EXPECT_EQ(std::get<Shorten>(model.stages[3].settings).factor, 3);
  EXPECT_EQ(std::get<Shorten>(model.stages[3].settings).method, Shortening::Linear);
  EXPECT_EQ(std::get<Upsample>(model.stages[4].settings).factor, 3);
  EXPECT_EQ(std::get<Upsample>(model.stages[4].settings).method, Upsampling::Linear);
  EXPECT_EQ(std::get<Add>(model.stages[5].settings).with, "x");
  EXPECT_EQ(model.stages[5].from, "x");
  EXPECT_TRUE(std::get<Head>(model.stages[6].settings).tied);
  EXPECT_TRUE(std::get<Head>(model.stages[6].settings).bias);
}

/// A loss reads what stands before it, and the stage behind it reads the same.
TEST(Reader, ReadsLosses) {
  Model model = readGood(specText(R"({ "op": "shorten", "factor": 3, "to": "x" },
    { "op": "loss", "name": "bag", "factor": 0.5, "tied": true, "label_smoothing": 0.25 },
    { "op": "loss", "name": "soon_2", "shift": 0, "from": "x", "bias": true },
    { "op": "upsample", "factor": 3 },)",
                                  R"("heads": 2)", "", R"(, "label_smoothing": 0.1)"));
  const auto &bag = std::get<Loss>(model.stages[2].settings);
  EXPECT_EQ(bag.name, "bag");
  EXPECT_EQ(bag.factor, 0.5);
  EXPECT_FALSE(bag.head.shift);
  EXPECT_TRUE(bag.head.tied);
  EXPECT_EQ(bag.head.labelSmoothing, 0.25);
  EXPECT_EQ(std::get<Loss>(model.stages[3].settings).head.shift, 0);
  EXPECT_EQ(std::get<Head>(model.stages[5].settings).labelSmoothing, 0.1);
  std::vector<Primitive> primitives = expand(model);
  EXPECT_EQ(primitives[2].input, 1);
  EXPECT_EQ(primitives[3].input, 1);
  EXPECT_EQ(primitives[4].input, 1);
  std::vector<std::string> names;
  for (const Tensor &tensor : tensors(model, primitives)) {
    names.push_back(tensor.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"stages.0.token.weight", "stages.3.weight",
                                             "stages.3.bias", "stages.5.weight"}));
}

TEST(Reader, KnowsWhereStagesAndValuesStand) {
  Model model = readGood(specText(R"(    { "op": "shift",
      "by":	12 },
    { "op": "layer" },)"));
  const Stage &shift = model.stages[1];
  EXPECT_EQ(toString(shift.location), "dir/test.json:7:5");
  EXPECT_EQ(toString(shift.at("op")), "dir/test.json:7:13");
  EXPECT_EQ(toString(shift.at("by")), "dir/test.json:8:13") << "a tab is one column";
  EXPECT_EQ(toString(shift.at("factor")), "dir/test.json:7:5") << "not given: the stage";
  EXPECT_EQ(toString(model.stages[2].at("heads")), "dir/test.json:4:26") << "inherited";
  EXPECT_EQ(toString(model.keys.at("width")), "dir/test.json:3:56");
  EXPECT_EQ(toString(model.location), "dir/test.json:1:1");
}

TEST(Reader, CountsLinesThatEndInCarriageReturns) {
  std::string text = specText(R"({ "op": "norm" },)"), windows;
  for (char c : text) {
    windows += c == '\n' ? "\r" : "";
    windows += c;
  }
  Model model = readGood(windows);
  EXPECT_EQ(toString(model.stages[1].location), "dir/test.json:7:1");
  EXPECT_EQ(model.text, windows);
}

// Each kind of token must leave the count at its end, or the places after it are wrong.
TEST(Reader, PlacesFollowEveryKindOfToken) {
  for (std::string value : {"0", "-0.5e+3", "10", "true", "false", "null", "\"\\u00e9\\\"\"",
                            "\"\xc3\xa9\"", "[]", "{}", "[ [ 1,2 ] , {\"a\" : 1E5} ]"}) {
    for (std::string between : {" , ", ","}) {
      Diagnostic error;
      std::string start = "{\"sluice\":" + value + between;
      EXPECT_FALSE(readText(start + "\"bad\" : 1}", "f", error));
      EXPECT_EQ(error.format().substr(0, error.format().find(':', 4)),
                "f:1:" + std::to_string(start.size() + 1))
          << error.format() << " after " << value;
    }
  }
}

// Whatever the input, one message and no crash: every truncation of a good spec, and every single
// byte replaced by characters that mean something to JSON.
TEST(Reader, SurvivesDamage) {
  std::string good = specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@1", "bias": true },)",
                              R"("heads": 2, "epsilon": 1.5e-3)");
  readGood(good);
  std::string trimmed = good.substr(0, good.size() - 1);
  for (size_t i = 0; i < trimmed.size(); ++i) {
    Diagnostic error;
    EXPECT_FALSE(readText(good.substr(0, i), "f", error)) << i;
    EXPECT_NE(error.message.find("expected "), std::string::npos) << error.message;
  }
  size_t refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (char c : std::string("\"\\{}[]:,0-.ex \n\0\xff\xc3", 20)) {
      std::string damaged = good;
      damaged[i] = c;
      Diagnostic error;
      if (!readText(damaged, "f", error)) {
        ++refused;
        EXPECT_GE(error.location.line, 1u);
        EXPECT_GE(error.location.column, 1u);
        EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
      }
    }
  }
  EXPECT_GT(refused, good.size() * 10);
}

// The search for a key given twice must not cost the square of their number.
TEST(Reader, TellsOfOneOfManyKeys) {
  std::string text = "{\"sluice\": 1";
  for (int i = 0; i < 200000; ++i) {
    text += ",\"k" + std::to_string(i) + "\":0";
  }
  Diagnostic error;
  EXPECT_FALSE(readText(text + "}", "f", error));
  EXPECT_EQ(error.format().substr(0, 49), "f:1:14: expected a key of the spec, found \"k0\"; k");
  EXPECT_FALSE(readText(text + ",\"k199999\":0}", "f", error));
  EXPECT_NE(error.message.find("found \"k199999\" again"), std::string::npos) << error.message;
}

TEST(Reader, AcceptsAContextSmallerThanAFactor) {
  readGood(specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@1000 1@1" },)"));
}

TEST(Reader, HeadSizeNeedNotBeAShareOfTheWidth) {
  Model model = readGood(specText(R"({ "op": "layer", "heads": 5, "head_size": 4 },)"));
  EXPECT_EQ(layerOf(model).heads * layerOf(model).headSize, 20);
}

TEST(Reader, ShorterScheduleShortensTheDefaultWarmUp) {
  std::string text = specText("");
  text.replace(text.find("\"defaults\""), 0, R"("training": { "schedule": { "steps": 10 } }, )");
  EXPECT_EQ(readGood(text).training.schedule.warmup, 10);
}

} // namespace
