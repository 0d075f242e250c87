// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Specs.h"

using namespace sluice;
using namespace sluice::spec;

namespace {

LayerOp getLayer(const ParsedSpec &spec) { return getStage<LayerOp>(spec, 1); }

TEST(Reader, FillsInEveryDefaultOfTheDocumentation) {
  ParsedSpec spec = readGood(specText(R"({ "op": "layer" },)"));
  EXPECT_EQ(spec.getModel().getName(), "test");
  EXPECT_EQ(spec.getModel().getSeed(), 0u);
  LayerOp layer = getLayer(spec);
  EXPECT_EQ(layer.getHeads(), 2);
  EXPECT_EQ(layer.getKeyValueHeads(), 2);
  EXPECT_EQ(layer.getHeadSize(), 6);
  EXPECT_EQ(layer.getNorm(), NormFunction::layer);
  EXPECT_EQ(layer.getPlacement(), NormPlacement::pre);
  EXPECT_EQ(layer.getEpsilon(), 1e-5);
  EXPECT_EQ(layer.getActivation(), ActivationFunction::gelu);
  EXPECT_EQ(layer.getFeedForward(), 48);
  EXPECT_EQ(layer.getDropout(), 0);
  EXPECT_EQ(layer.getAttentionDropout(), 0);
  EXPECT_EQ(layer.getMask().getShape(), MaskShape::causal);
  EXPECT_FALSE(layer.getRotary());
  EXPECT_TRUE(layer.getBias());
  auto training = getOnly<TrainingOp>(spec);
  EXPECT_EQ(training.getOptimizer(), OptimizerKind::adamw);
  EXPECT_EQ(training.getLearningRate(), 3e-4);
  EXPECT_EQ(training.getBetas()[0], 0.9);
  EXPECT_EQ(training.getBetas()[1], 0.95);
  EXPECT_EQ(training.getEpsilon(), 1e-8);
  EXPECT_EQ(training.getWeightDecay(), 0.1);
  EXPECT_EQ(training.getClip(), 1);
  auto schedule = getOnly<ScheduleOp>(spec);
  EXPECT_EQ(schedule.getKind(), ScheduleShape::cosine);
  EXPECT_EQ(schedule.getWarmupOrDefault(), 100);
  EXPECT_EQ(schedule.getSteps(), 1000);
  EXPECT_EQ(schedule.getFloor(), 0.1);
}

TEST(Reader, ReadsEveryLayerSetting) {
  ParsedSpec spec = readGood(specText(R"({ "op": "layer", "heads": 6, "key_value_heads": 3,
      "head_size": 8, "norm": "rms", "placement": "post", "epsilon": 1e-6, "activation": "swiglu",
      "feed_forward": 7, "dropout": 0.25, "attention_dropout": 0.5, "mask": { "window": [2, 5] },
      "rotary": { "base": 500 }, "bias": false },)"));
  LayerOp layer = getLayer(spec);
  EXPECT_EQ(layer.getHeads(), 6);
  EXPECT_EQ(layer.getKeyValueHeads(), 3);
  EXPECT_EQ(layer.getHeadSize(), 8);
  EXPECT_EQ(layer.getNorm(), NormFunction::rms);
  EXPECT_EQ(layer.getPlacement(), NormPlacement::post);
  EXPECT_EQ(layer.getEpsilon(), 1e-6);
  EXPECT_EQ(layer.getActivation(), ActivationFunction::swiglu);
  EXPECT_EQ(layer.getFeedForward(), 7);
  EXPECT_EQ(layer.getDropout(), 0.25);
  EXPECT_EQ(layer.getAttentionDropout(), 0.5);
  EXPECT_EQ(layer.getMask(), MaskAttr::get(&getContext(), MaskShape::window, 2, 5));
  EXPECT_EQ(layer.getRotary(), 500);
  EXPECT_FALSE(layer.getBias());
}

TEST(Reader, ReadsTrainingSettings) {
  std::string text = specText("");
  text.replace(text.find("\"defaults\""), 0, R"("training": { "optimizer": "adam",
    "learning_rate": 1, "betas": [0, 0.5], "epsilon": 1e-9, "weight_decay": 0, "clip": 0,
    "schedule": { "kind": "constant", "warmup": 0, "steps": 7, "floor": 0 } }, )");
  ParsedSpec spec = readGood(text);
  auto training = getOnly<TrainingOp>(spec);
  EXPECT_EQ(training.getOptimizer(), OptimizerKind::adam);
  EXPECT_EQ(training.getLearningRate(), 1);
  EXPECT_EQ(training.getBetas()[0], 0);
  EXPECT_EQ(training.getBetas()[1], 0.5);
  EXPECT_EQ(training.getEpsilon(), 1e-9);
  EXPECT_EQ(training.getWeightDecay(), 0);
  EXPECT_EQ(training.getClip(), 0);
  auto schedule = getOnly<ScheduleOp>(spec);
  EXPECT_EQ(schedule.getKind(), ScheduleShape::constant);
  EXPECT_EQ(schedule.getWarmup(), 0);
  EXPECT_EQ(schedule.getSteps(), 7);
  EXPECT_EQ(schedule.getFloor(), 0);
}

TEST(Reader, StagesOverrideDefaults) {
  ParsedSpec spec =
      readGood(specText(R"({ "op": "layer", "heads": 3, "rotary": false },
    { "op": "norm" }, { "op": "norm", "norm": "layer" },)",
                        R"("heads": 2, "rotary": true, "norm": "rms", "epsilon": 0.5)"));
  EXPECT_EQ(getLayer(spec).getHeads(), 3);
  EXPECT_FALSE(getLayer(spec).getRotary());
  EXPECT_EQ(getLayer(spec).getNorm(), NormFunction::rms);
  EXPECT_EQ(getStage<spec::NormOp>(spec, 2).getNorm(), NormFunction::rms);
  EXPECT_EQ(getStage<spec::NormOp>(spec, 2).getEpsilon(), 0.5);
  EXPECT_EQ(getStage<spec::NormOp>(spec, 3).getNorm(), NormFunction::layer);
}

/// Distances in rows set by defaults apply where distances are counted.
TEST(Reader, InheritedDistancesHoldWhereTheyApply) {
  ParsedSpec spec = readGood(specText(R"({ "op": "layer" }, { "op": "layer", "relative": "none" },
    { "op": "layer", "relative": { "bias": 4 }, "rotary": true },)",
                                      R"("heads": 2, "relative": "xl", "distances": "rows")"));
  EXPECT_EQ(getLayer(spec).getDistances(), DistanceUnit::rows);
  EXPECT_EQ(getStage<LayerOp>(spec, 2).getDistances(), DistanceUnit::tokens);
  EXPECT_EQ(getStage<LayerOp>(spec, 3).getDistances(), DistanceUnit::tokens);
}

TEST(Reader, DefaultsDoNotReachStagesWithKeysOfTheSameName) {
  ParsedSpec spec = readGood(specText("", R"("heads": 2, "dropout": 0.5, "bias": true)"));
  EXPECT_EQ(getStage<EmbeddingOp>(spec, 0).getDropout(), 0);
  EXPECT_FALSE(getStage<HeadOp>(spec, 1).getBias());
}

TEST(Reader, ReadsTheOtherStages) {
  ParsedSpec spec = readGood(specText(
      R"({ "op": "dropout", "rate": 0.1, "to": "x" },
    { "op": "shift", "by": 2 }, { "op": "shorten", "factor": 3, "method": "linear" },
    { "op": "upsample", "factor": 3, "method": "linear" }, { "op": "add", "with": "x", "from": "x" },)",
      R"("heads": 2)", R"(, "positions": "sinusoidal", "dropout": 0.2)",
      R"(, "tied": true, "bias": true)"));
  EXPECT_EQ(getStage<EmbeddingOp>(spec, 0).getPositions(), PositionTable::sinusoidal);
  EXPECT_EQ(getStage<EmbeddingOp>(spec, 0).getDropout(), 0.2);
  auto dropped = getStage<DropoutOp>(spec, 1);
  EXPECT_EQ(dropped.getRate(), 0.1);
  EXPECT_EQ(dropped.getTo(), "x");
  EXPECT_EQ(getStage<spec::ShiftOp>(spec, 2).getBy(), 2u);
  EXPECT_FALSE(getStage<spec::ShiftOp>(spec, 2).getTo());
  EXPECT_EQ(getStage<spec::ShortenOp>(spec, 3).getFactor(), 3);
  EXPECT_EQ(getStage<spec::ShortenOp>(spec, 3).getMethod(), ShortenMethod::linear);
  EXPECT_EQ(getStage<spec::UpsampleOp>(spec, 4).getFactor(), 3);
  EXPECT_EQ(getStage<spec::UpsampleOp>(spec, 4).getMethod(), UpsampleMethod::linear);
  EXPECT_EQ(getStage<AddOp>(spec, 5).getWith(), dropped.getResult());
  EXPECT_EQ(getStage<AddOp>(spec, 5).getInput(), dropped.getResult());
  EXPECT_TRUE(getStage<HeadOp>(spec, 6).getTied());
  EXPECT_TRUE(getStage<HeadOp>(spec, 6).getBias());
}

/// A loss reads the stage before it, and the stage after it reads the same one.
TEST(Reader, ReadsLosses) {
  ParsedSpec spec = readGood(specText(R"({ "op": "shorten", "factor": 3, "to": "x" },
    { "op": "loss", "name": "bag", "factor": 0.5, "tied": true, "label_smoothing": 0.25 },
    { "op": "loss", "name": "soon_2", "shift": 0, "from": "x", "bias": true },
    { "op": "upsample", "factor": 3 },)",
                                      R"("heads": 2)", "", R"(, "label_smoothing": 0.1)"));
  auto bag = getStage<LossOp>(spec, 2);
  EXPECT_EQ(bag.getName(), "bag");
  EXPECT_EQ(bag.getFactor(), 0.5);
  EXPECT_FALSE(bag.getShift());
  EXPECT_EQ(bag.getShiftOrDefault(), 2);
  EXPECT_TRUE(bag.getTied());
  EXPECT_EQ(bag.getLabelSmoothing(), 0.25);
  EXPECT_EQ(getStage<LossOp>(spec, 3).getShift(), 0);
  EXPECT_EQ(getStage<HeadOp>(spec, 5).getLabelSmoothing(), 0.1);
  mlir::Value shortened = getStage<spec::ShortenOp>(spec, 1).getResult();
  EXPECT_EQ(bag.getInput(), shortened);
  EXPECT_EQ(getStage<LossOp>(spec, 3).getInput(), shortened);
  EXPECT_EQ(getStage<spec::UpsampleOp>(spec, 4).getInput(), shortened);
  ParsedSpec expanded = spec.expand(0);
  std::vector<std::string> names;
  for (auto weight : expanded.getModel().getBody().getOps<WeightOp>()) {
    names.push_back(weight.getSymName().str());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"stages.0.token.weight", "stages.3.weight",
                                             "stages.3.bias", "stages.5.weight"}));
}

TEST(Reader, HasLocationsOfStagesAndValues) {
  ParsedSpec spec = readGood(specText(R"(    { "op": "shift",
      "by":	12 },
    { "op": "layer" },)"));
  auto shift = getStage<spec::ShiftOp>(spec, 1);
  EXPECT_EQ(showPlace(shift, ""), "dir/test.json:7:5");
  EXPECT_EQ(showPlace(shift, "op"), "dir/test.json:7:13");
  EXPECT_EQ(showPlace(shift, "by"), "dir/test.json:8:13") << "a tab is one column";
  EXPECT_EQ(showPlace(shift, "factor"), "dir/test.json:7:5") << "not given: the stage";
  EXPECT_EQ(showPlace(getStage<LayerOp>(spec, 2), "heads"), "dir/test.json:4:26") << "inherited";
  EXPECT_EQ(toString(spec.getPlace("width")), "dir/test.json:3:56");
  EXPECT_EQ(toString(spec.getPlace("seed")), "dir/test.json:1:1") << "not given: the model";
}

TEST(Reader, CountsLinesThatEndInCarriageReturns) {
  std::string text = specText(R"({ "op": "norm" },)"), windows;
  for (char c : text) {
    windows += c == '\n' ? "\r" : "";
    windows += c;
  }
  ParsedSpec spec = readGood(windows);
  EXPECT_EQ(showPlace(getStage<spec::NormOp>(spec, 1), ""), "dir/test.json:7:1");
  EXPECT_EQ(spec.text, windows);
}

// Each kind of token must leave the position at its end, or later locations are wrong.
TEST(Reader, LocationsFollowEveryKindOfToken) {
  for (std::string value : {"0", "-0.5e+3", "10", "true", "false", "null", "\"\\u00e9\\\"\"",
                            "\"\xc3\xa9\"", "[]", "{}", "[ [ 1,2 ] , {\"a\" : 1E5} ]"}) {
    for (std::string between : {" , ", ","}) {
      std::string start = "{\"sluice\":" + value + between;
      Diagnostic error = readBad(start + "\"bad\" : 1}");
      EXPECT_EQ(error.format().substr(0, error.format().find(':', 4)),
                "f:1:" + std::to_string(start.size() + 1))
          << error.format() << " after " << value;
    }
  }
}

// Any input gives one message and no crash: every truncation of a valid spec, and every single byte
// replaced by characters that JSON uses.
TEST(Reader, ReportsOneErrorForDamagedSpecs) {
  std::string good = specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@1", "bias": true },)",
                              R"("heads": 2, "epsilon": 1.5e-3)");
  readGood(good);
  std::string trimmed = good.substr(0, good.size() - 1);
  for (size_t i = 0; i < trimmed.size(); ++i) {
    Diagnostic error = readBad(good.substr(0, i));
    EXPECT_NE(error.message.find("expected "), std::string::npos) << error.message;
  }
  size_t refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (char c : std::string("\"\\{}[]:,0-.ex \n\0\xff\xc3", 20)) {
      std::string damaged = good;
      damaged[i] = c;
      Diagnostic error;
      if (!parseSpec(getContext(), damaged, "f", error)) {
        ++refused;
        EXPECT_GE(error.location.line, 1u);
        EXPECT_GE(error.location.column, 1u);
        EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
      }
    }
  }
  EXPECT_GT(refused, good.size() * 10);
}

// The search for duplicate keys must not take quadratic time.
TEST(Reader, ReportsOneOfManyUnknownKeys) {
  std::string text = "{\"sluice\": 1";
  for (int i = 0; i < 200000; ++i) {
    text += ",\"k" + std::to_string(i) + "\":0";
  }
  Diagnostic error = readBad(text + "}");
  EXPECT_EQ(error.format().substr(0, 49), "f:1:14: expected a key of the spec, found \"k0\"; k");
  error = readBad(text + ",\"k199999\":0}");
  EXPECT_NE(error.message.find("found \"k199999\" again"), std::string::npos) << error.message;
}

TEST(Reader, AcceptsAContextSmallerThanAFactor) {
  readGood(specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@1000 1@1" },)"));
}

TEST(Reader, HeadSizeNeedNotDivideTheWidth) {
  ParsedSpec spec = readGood(specText(R"({ "op": "layer", "heads": 5, "head_size": 4 },)"));
  EXPECT_EQ(*getLayer(spec).getHeads() * *getLayer(spec).getHeadSize(), 20);
}

TEST(Reader, ShorterScheduleShortensTheDefaultWarmUp) {
  std::string text = specText("");
  text.replace(text.find("\"defaults\""), 0, R"("training": { "schedule": { "steps": 10 } }, )");
  ParsedSpec spec = readGood(text);
  EXPECT_EQ(getOnly<ScheduleOp>(spec).getWarmupOrDefault(), 10);
}

} // namespace
