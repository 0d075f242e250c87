// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Specs.h"

#include <sstream>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

/// The path of a stage.
std::string getPath(Operation *stage) {
  return stage->getAttrOfType<StringAttr>("path").getValue().str();
}

/// One line per stage: "id op <- input[, second] @factor path".
std::string show(const ParsedSpec &spec) {
  ParsedSpec expanded = spec.expand(0);
  std::ostringstream out;
  llvm::DenseMap<Value, size_t> ids;
  for (auto [id, stage] : llvm::enumerate(getStages(expanded))) {
    out << id << " " << stage->getName().stripDialect().str() << " <- "
        << (stage->getNumOperands() > 0 ? "" : "-1");
    for (Value operand : stage->getOperands()) {
      out << (operand == stage->getOperand(0) ? "" : ", ") << ids.lookup(operand);
    }
    bool isHead = isa<HeadOp>(stage);
    auto type = cast<StreamType>((isHead ? stage->getOperand(0) : stage->getResult(0)).getType());
    out << " @" << type.getFactor() << " " << getPath(stage).substr(7) << "\n";
    if (!isHead) {
      ids[stage->getResult(0)] = id;
    }
  }
  return out.str();
}

std::string expandHourglass(const std::string &settings) {
  return show(readGood(specText("    { \"op\": \"hourglass\", " + settings + " },")));
}

TEST(Expansion, PlainStackEndsWithANorm) {
  EXPECT_EQ(expandHourglass(R"("hierarchy": "2@1")"), "0 embedding <- -1 @1 0\n"
                                                      "1 layer <- 0 @1 1.inside.0\n"
                                                      "2 layer <- 1 @1 1.inside.1\n"
                                                      "3 norm <- 2 @1 1.inside.2\n"
                                                      "4 head <- 3 @1 2\n");
}

TEST(Expansion, OneLevel) {
  EXPECT_EQ(expandHourglass(R"("hierarchy": "1@1 2@4 1@1")"), "0 embedding <- -1 @1 0\n"
                                                              "1 layer <- 0 @1 1.inside.0\n"
                                                              "2 norm <- 1 @1 1.inside.1\n"
                                                              "3 shift <- 2 @1 1.inside.2\n"
                                                              "4 shorten <- 3 @4 1.inside.3\n"
                                                              "5 layer <- 4 @4 1.inside.4\n"
                                                              "6 layer <- 5 @4 1.inside.5\n"
                                                              "7 norm <- 6 @4 1.inside.6\n"
                                                              "8 upsample <- 7 @1 1.inside.7\n"
                                                              "9 add <- 8, 2 @1 1.inside.8\n"
                                                              "10 layer <- 9 @1 1.inside.9\n"
                                                              "11 norm <- 10 @1 1.inside.10\n"
                                                              "12 head <- 11 @1 2\n");
}

TEST(Expansion, NestedLevelsHaveNestedNames) {
  EXPECT_EQ(expandHourglass(R"("hierarchy": "1@1 1@2 1@6 1@2 1@1", "placement": "post")"),
            "0 embedding <- -1 @1 0\n"
            "1 layer <- 0 @1 1.inside.0\n"
            "2 shift <- 1 @1 1.inside.1\n"
            "3 shorten <- 2 @2 1.inside.2\n"
            "4 layer <- 3 @2 1.inside.3.inside.0\n"
            "5 shift <- 4 @2 1.inside.3.inside.1\n"
            "6 shorten <- 5 @6 1.inside.3.inside.2\n"
            "7 layer <- 6 @6 1.inside.3.inside.3\n"
            "8 upsample <- 7 @2 1.inside.3.inside.4\n"
            "9 add <- 8, 4 @2 1.inside.3.inside.5\n"
            "10 layer <- 9 @2 1.inside.3.inside.6\n"
            "11 upsample <- 10 @1 1.inside.4\n"
            "12 add <- 11, 1 @1 1.inside.5\n"
            "13 layer <- 12 @1 1.inside.6\n"
            "14 head <- 13 @1 2\n");
}

TEST(Expansion, AttentionResamples) {
  EXPECT_EQ(expandHourglass(
                R"("hierarchy": "1@1 1@4 0@1", "shorten": "attention", "upsample": "attention")"),
            "0 embedding <- -1 @1 0\n"
            "1 layer <- 0 @1 1.inside.0\n"
            "2 norm <- 1 @1 1.inside.1\n"
            "3 norm <- 2 @1 1.inside.2\n"
            "4 shift <- 3 @1 1.inside.3\n"
            "5 shorten <- 4 @4 1.inside.4\n"
            "6 norm <- 5 @4 1.inside.5\n"
            "7 layer <- 6, 3 @4 1.inside.6\n"
            "8 layer <- 7 @4 1.inside.7\n"
            "9 norm <- 8 @4 1.inside.8\n"
            "10 norm <- 9 @4 1.inside.9\n"
            "11 layer <- 2, 10 @1 1.inside.10\n"
            "12 norm <- 11 @1 1.inside.11\n"
            "13 add <- 12, 2 @1 1.inside.12\n"
            "14 head <- 13 @1 2\n");
  EXPECT_EQ(expandHourglass(
                R"("hierarchy": "0@1 0@2 0@1", "placement": "post", "shorten": "attention_linear",
    "upsample": "attention_linear")"),
            "0 embedding <- -1 @1 0\n"
            "1 shift <- 0 @1 1.inside.0\n"
            "2 shorten <- 1 @2 1.inside.1\n"
            "3 layer <- 2, 0 @2 1.inside.2\n"
            "4 upsample <- 3 @1 1.inside.3\n"
            "5 add <- 4, 0 @1 1.inside.4\n"
            "6 layer <- 5, 3 @1 1.inside.5\n"
            "7 add <- 6, 0 @1 1.inside.6\n"
            "8 head <- 7 @1 2\n");
  EXPECT_EQ(expandHourglass(
                R"("hierarchy": "0@1 0@2 0@1", "placement": "post", "upsample_norm": true,
    "upsample": "attention_repeat")"),
            "0 embedding <- -1 @1 0\n"
            "1 shift <- 0 @1 1.inside.0\n"
            "2 shorten <- 1 @2 1.inside.1\n"
            "3 upsample <- 2 @1 1.inside.2\n"
            "4 norm <- 3 @1 1.inside.3\n"
            "5 add <- 4, 0 @1 1.inside.4\n"
            "6 layer <- 5, 2 @1 1.inside.5\n"
            "7 add <- 6, 0 @1 1.inside.6\n"
            "8 head <- 7 @1 2\n");
}

TEST(Expansion, NormAfterUpsampling) {
  EXPECT_EQ(expandHourglass(R"("hierarchy": "0@1 0@2 0@1", "upsample_norm": true)"),
            "0 embedding <- -1 @1 0\n"
            "1 shift <- 0 @1 1.inside.0\n"
            "2 shorten <- 1 @2 1.inside.1\n"
            "3 upsample <- 2 @1 1.inside.2\n"
            "4 norm <- 3 @1 1.inside.3\n"
            "5 add <- 4, 0 @1 1.inside.4\n"
            "6 head <- 5 @1 2\n");
}

/// The stages are the same; only the first group differs.
TEST(Expansion, NormOfZerosBeforeTheFirstRow) {
  ParsedSpec expanded =
      readGood(specText(R"({ "op": "hourglass", "hierarchy": "0@1 1@4 0@1", "start": "norm",
          "shorten": "attention_linear" },)"))
          .expand(0);
  EXPECT_EQ(getOnly<spec::ShiftOp>(expanded).getStart(), StartRows::zeros);
  EXPECT_EQ(getOnly<spec::ShortenOp>(expanded).getStart(), StartRows::norm);
  EXPECT_TRUE(getOnly<spec::ShiftOp>(expanded).getInput().getDefiningOp<spec::NormOp>());
}

TEST(Expansion, MasksAndNormsOfResamplers) {
  auto expect = [](const std::string &settings, MaskAttr mask, bool hasNorm) {
    ParsedSpec expanded = readGood(specText(R"({ "op": "hourglass", "hierarchy": "0@1 0@4 0@1",
          "mask": {"window": [0, 2]}, "shorten": "attention", )" +
                                            settings + " },"))
                              .expand(0);
    auto layer = getOnly<LayerOp>(expanded);
    EXPECT_EQ(layer.getMask(), mask) << settings;
    EXPECT_EQ(layer.getAttentionNorm(), hasNorm) << settings;
  };
  auto all = MaskAttr::get(&getContext(), MaskShape::causal, 0, 0);
  expect(R"("shorten_keys": "all")", all, false);
  expect(R"("shorten_keys": "group")", MaskAttr::get(&getContext(), MaskShape::window, 0, 4),
         false);
  expect(R"("placement": "pre")", all, false);
  expect(R"("placement": "post")", all, true);
}

TEST(Expansion, HandlesHierarchiesWithDifferentEnds) {
  EXPECT_EQ(expandHourglass(R"("hierarchy": "1@1 0@2 1@4 0@1", "placement": "post")"),
            "0 embedding <- -1 @1 0\n"
            "1 layer <- 0 @1 1.inside.0\n"
            "2 shift <- 1 @1 1.inside.1\n"
            "3 shorten <- 2 @2 1.inside.2\n"
            "4 shift <- 3 @2 1.inside.3.inside.0\n"
            "5 shorten <- 4 @4 1.inside.3.inside.1\n"
            "6 layer <- 5 @4 1.inside.3.inside.2\n"
            "7 upsample <- 6 @1 1.inside.4\n"
            "8 add <- 7, 1 @1 1.inside.5\n"
            "9 head <- 8 @1 2\n");
  EXPECT_EQ(expandHourglass(R"("hierarchy": "0@1 0@4 1@2 0@1", "placement": "post")"),
            "0 embedding <- -1 @1 0\n"
            "1 shift <- 0 @1 1.inside.0\n"
            "2 shorten <- 1 @4 1.inside.1\n"
            "3 upsample <- 2 @2 1.inside.2\n"
            "4 layer <- 3 @2 1.inside.3\n"
            "5 upsample <- 4 @1 1.inside.4\n"
            "6 add <- 5, 0 @1 1.inside.5\n"
            "7 head <- 6 @1 2\n");
}

TEST(Expansion, StacksWithoutLayersHaveNoNorm) {
  EXPECT_EQ(expandHourglass(R"("hierarchy": "0@1 0@3 0@1")"), "0 embedding <- -1 @1 0\n"
                                                              "1 shift <- 0 @1 1.inside.0\n"
                                                              "2 shorten <- 1 @3 1.inside.1\n"
                                                              "3 upsample <- 2 @1 1.inside.2\n"
                                                              "4 add <- 3, 0 @1 1.inside.3\n"
                                                              "5 head <- 4 @1 2\n");
}

TEST(Expansion, ShiftsByTheRelativeFactorLessOneByDefault) {
  auto shifts = [](const std::string &settings) {
    std::vector<int64_t> result;
    ParsedSpec expanded = readGood(specText("{ \"op\": \"hourglass\", \"hierarchy\": "
                                            "\"1@1 1@2 1@10 1@2 1@1\"" +
                                            settings + " },"))
                              .expand(0);
    for (auto shift : expanded.getModel().getBody().getOps<spec::ShiftOp>()) {
      result.push_back(static_cast<int64_t>(shift.getBy()));
    }
    return result;
  };
  EXPECT_EQ(shifts(""), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(shifts(", \"shift\": 0"), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(shifts(", \"shift\": 7"), (std::vector<int64_t>{7, 7}));
}

TEST(Expansion, LayersExpandsToLayersWithoutNorm) {
  EXPECT_EQ(show(readGood(specText(R"({ "op": "layers", "count": 2 },)"))),
            "0 embedding <- -1 @1 0\n"
            "1 layer <- 0 @1 1.inside.0\n"
            "2 layer <- 1 @1 1.inside.1\n"
            "3 head <- 2 @1 2\n");
}

TEST(Expansion, StreamsByName) {
  EXPECT_EQ(show(readGood(specText(R"({ "op": "norm", "to": "fine" },
    { "op": "shift", "by": 1 }, { "op": "shorten", "factor": 6, "to": "coarse" },
    { "op": "upsample", "factor": 3 }, { "op": "upsample", "factor": 2 },
    { "op": "add", "with": "fine" }, { "op": "dropout", "rate": 0.1, "from": "fine", "to": "other" },
    { "op": "add", "with": "fine", "from": "other" },)"))),
            "0 embedding <- -1 @1 0\n"
            "1 norm <- 0 @1 1\n"
            "2 shift <- 1 @1 2\n"
            "3 shorten <- 2 @6 3\n"
            "4 upsample <- 3 @2 4\n"
            "5 upsample <- 4 @1 5\n"
            "6 add <- 5, 1 @1 6\n"
            "7 dropout <- 1 @1 7\n"
            "8 add <- 7, 1 @1 8\n"
            "9 head <- 8 @1 9\n");
}

TEST(Expansion, HourglassOnACoarseStream) {
  EXPECT_EQ(show(readGood(specText(R"({ "op": "shorten", "factor": 2 },
    { "op": "hourglass", "hierarchy": "0@1 1@3 0@1", "placement": "post" },
    { "op": "upsample", "factor": 2 },)"))),
            "0 embedding <- -1 @1 0\n"
            "1 shorten <- 0 @2 1\n"
            "2 shift <- 1 @2 2.inside.0\n"
            "3 shorten <- 2 @6 2.inside.1\n"
            "4 layer <- 3 @6 2.inside.2\n"
            "5 upsample <- 4 @2 2.inside.3\n"
            "6 add <- 5, 1 @2 2.inside.4\n"
            "7 upsample <- 6 @1 3\n"
            "8 head <- 7 @1 4\n");
}

/// The docs' example, and one on a coarse stream with a norm and losses of bags.
TEST(Expansion, TopDown) {
  EXPECT_EQ(show(readGood(specText(R"({ "op": "top_down", "hierarchy": "1@4 2@1",
                                        "placement": "post" },)",
                                   R"("heads": 2)", "", R"(, "first": 3)"))),
            "0 embedding <- -1 @1 0\n"
            "1 shorten <- 0 @4 1.inside.0\n"
            "2 layer <- 1 @4 1.inside.1\n"
            "3 upsample <- 2 @1 1.inside.2\n"
            "4 shift <- 3 @1 1.inside.3\n"
            "5 project <- 0, 4 @1 1.inside.4\n"
            "6 layer <- 5 @1 1.inside.5\n"
            "7 layer <- 6 @1 1.inside.6\n"
            "8 head <- 7 @1 2\n");
  ParsedSpec spec = readGood(specText(
                                 R"({ "op": "shorten", "factor": 2 },
         { "op": "top_down", "hierarchy": "1@4 0@2 1@1", "bags": 0.5,
           "projection_activation": "gelu", "shorten": "linear", "upsample": "linear" },)",
                                 R"("heads": 2)", "", R"(, "first": 7)"))
                        .expand(0);
  SmallVector<Operation *> stages = getStages(spec);
  ASSERT_EQ(stages.size(), 17u);
  EXPECT_EQ(cast<LayerOp>(stages[3]).getFirst(), 0);
  auto bag = cast<LossOp>(stages[5]);
  EXPECT_EQ(bag.getName(), "bag_4");
  EXPECT_EQ(bag.getFactor(), 0.5);
  EXPECT_EQ(cast<StreamType>(bag.getInput().getType()).getFactor(), 8);
  EXPECT_EQ(bag.getFirstOrDefault(), 7);
  EXPECT_EQ(stages[6]->getOperand(0), stages[4]->getResult(0));
  EXPECT_EQ(cast<spec::ShiftOp>(stages[7]).getBy(), 1);
  EXPECT_EQ(stages[8]->getOperand(0), stages[1]->getResult(0));
  EXPECT_EQ(cast<ProjectOp>(stages[9]).getActivation(), ActivationFunction::gelu);
  EXPECT_EQ(cast<LossOp>(stages[10]).getName(), "bag_2");
  // A level without layers has no norm.
  EXPECT_EQ(stages[11]->getOperand(0), stages[9]->getResult(0));
  EXPECT_EQ(cast<ProjectOp>(stages[13]).getInput(), stages[1]->getResult(0));
  EXPECT_EQ(cast<ProjectOp>(stages[13]).getWith(), stages[12]->getResult(0));
  EXPECT_EQ(cast<LayerOp>(stages[14]).getFirst(), 3);
}

TEST(Expansion, MethodsAndSettingsReachTheStages) {
  ParsedSpec spec = readGood(specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@4 1@1",
      "shorten": "linear", "upsample": "linear", "norm": "rms", "epsilon": 0.25, "dropout": 0.5 },)"))
                        .expand(0);
  SmallVector<Operation *> stages = getStages(spec);
  ASSERT_EQ(stages.size(), 12u);
  EXPECT_EQ(cast<LayerOp>(stages[1]).getDropout(), 0.5);
  EXPECT_EQ(cast<spec::NormOp>(stages[2]).getNorm(), NormFunction::rms);
  EXPECT_EQ(cast<spec::NormOp>(stages[2]).getEpsilon(), 0.25);
  EXPECT_EQ(cast<spec::ShiftOp>(stages[3]).getBy(), 3);
  EXPECT_EQ(cast<spec::ShortenOp>(stages[4]).getFactor(), 4);
  EXPECT_EQ(cast<spec::ShortenOp>(stages[4]).getMethod(), ShortenMethod::linear);
  EXPECT_EQ(cast<spec::UpsampleOp>(stages[7]).getFactor(), 4);
  EXPECT_EQ(cast<spec::UpsampleOp>(stages[7]).getMethod(), UpsampleMethod::linear);
}

TEST(Expansion, ReportsLocationsOfHierarchyAndShifts) {
  for (bool overridden : {false, true}) {
    ParsedSpec spec = readGood(specText(std::string("    { \"op\": \"hourglass\",\n") +
                                        (overridden ? "      \"shift\": 5,\n" : "\n") +
                                        "      \"hierarchy\": \"1@1 1@2 1@1\" },"))
                          .expand(0);
    for (Operation *stage : getStages(spec)) {
      if (getPath(stage).find("inside") != std::string::npos) {
        bool isOverridden = isa<spec::ShiftOp>(stage) && overridden;
        EXPECT_EQ(showPlace(stage, ""), isOverridden ? "dir/test.json:8:16" : "dir/test.json:9:20")
            << getPath(stage);
      }
    }
  }
}

/// Accepts settings of `defaults` that a composite replaces, or that its layers do not count.
TEST(Expansion, AcceptsDefaultsThatItReplaces) {
  readGood(R"({ "sluice": 1, "vocabulary": 256, "context": 16, "batch": 1, "width": 8,
    "defaults": { "heads": 2, "mask": { "window": [0, 4] }, "distances": "rows" },
    "stages": [ { "op": "embedding" }, { "op": "layer", "relative": "xl" },
                { "op": "megabyte", "layers": [1, 1], "patch": 4, "local": { "norm": "rms" } },
                { "op": "head" } ] })");
}

/// Losses of a top_down's scales score rows that other losses cannot: rows in no group of an
/// earlier top_down, or after the context.
TEST(Expansion, ScoresRowsOfEachScale) {
  std::string model = R"({ "sluice": 1, "vocabulary": 256, "context": 64, "batch": 1, "width": 8,
    "defaults": { "heads": 2 }, "stages": [ { "op": "embedding" }, )";
  readGood(model + R"({ "op": "top_down", "hierarchy": "1@16 1@1" },
    { "op": "top_down", "hierarchy": "1@4 1@1", "bags": 1 }, { "op": "head", "first": 15 } ] })");
  readGood(model + R"({ "op": "top_down", "hierarchy": "1@96 1@1", "bags": 1,
    "start": "null" }, { "op": "head" } ] })");
}

} // namespace
