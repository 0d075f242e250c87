// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Specs.h"

#include <sstream>

using namespace sluice::spec;

namespace {

/// One line a stage: "id op <- input[, second] @factor prefix".
std::string show(const Model &model) {
  std::ostringstream out;
  for (const Primitive &p : expand(model)) {
    out << p.id << " " << name(p.op()) << " <- " << p.input;
    if (p.second >= 0) {
      out << ", " << p.second;
    }
    out << " @" << p.factor << " " << p.prefix.substr(p.prefix.find('.') + 1) << "\n";
  }
  return out.str();
}

std::string expandHourglass(const std::string &settings) {
  return show(readGood(specText("    { \"op\": \"hourglass\", " + settings + " },")));
}

TEST(Expansion, PlainStackEndsInANorm) {
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

TEST(Expansion, NestedLevelsAreNestedNames) {
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
}

TEST(Expansion, MasksAndNormsOfResamplers) {
  auto resampler = [](const std::string &settings) {
    for (const Primitive &p :
         expand(readGood(specText("{ \"op\": \"hourglass\", \"hierarchy\": \"0@1 0@4 0@1\", "
                                  "\"mask\": {\"window\": [0, 2]}, "
                                  "\"shorten\": \"attention\", " +
                                  settings + " },")))) {
      if (const auto *layer = std::get_if<Layer>(&p.settings)) {
        return *layer;
      }
    }
    return Layer();
  };
  EXPECT_EQ(resampler(R"("shorten_keys": "all")").mask.kind, MaskKind::Causal);
  Mask group = resampler(R"("shorten_keys": "group")").mask;
  EXPECT_EQ(group.kind, MaskKind::Window);
  EXPECT_EQ(group.begin, 0);
  EXPECT_EQ(group.end, 4);
  EXPECT_FALSE(resampler(R"("placement": "pre")").attentionNorm);
  EXPECT_TRUE(resampler(R"("placement": "post")").attentionNorm);
}

TEST(Expansion, HierarchiesThatDifferAtBothEnds) {
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

TEST(Expansion, ShiftsByTheRelativeFactorLessOneUnlessTold) {
  auto shifts = [](const std::string &settings) {
    std::vector<int64_t> result;
    for (const Primitive &p : expand(readGood(specText("{ \"op\": \"hourglass\", \"hierarchy\": "
                                                       "\"1@1 1@2 1@10 1@2 1@1\"" +
                                                       settings + " },")))) {
      if (const Shift *shift = std::get_if<Shift>(&p.settings)) {
        result.push_back(shift->by);
      }
    }
    return result;
  };
  EXPECT_EQ(shifts(""), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(shifts(", \"shift\": 0"), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(shifts(", \"shift\": 7"), (std::vector<int64_t>{7, 7}));
}

TEST(Expansion, LayersMakesLayersAndNoNorm) {
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
  auto primitives = expand(readGood(specText(
      R"({ "op": "shorten", "factor": 2 },
         { "op": "top_down", "hierarchy": "1@4 0@2 1@1", "bags": 0.5,
           "projection_activation": "gelu", "shorten": "linear", "upsample": "linear" },)",
      R"("heads": 2)", "", R"(, "first": 7)")));
  ASSERT_EQ(primitives.size(), 17u);
  EXPECT_EQ(std::get<Layer>(primitives[3].settings).first, 0);
  const auto &bag = std::get<Loss>(primitives[5].settings);
  EXPECT_EQ(bag.name, "bag_4");
  EXPECT_EQ(bag.factor, 0.5);
  EXPECT_EQ(primitives[5].factor, 8);
  EXPECT_EQ(bag.head.firstOf(8), 7);
  EXPECT_EQ(primitives[6].input, 4);
  EXPECT_EQ(std::get<Shift>(primitives[7].settings).by, 1);
  EXPECT_EQ(primitives[8].input, 1);
  EXPECT_EQ(std::get<Project>(primitives[9].settings).activation, Activation::Gelu);
  EXPECT_EQ(std::get<Loss>(primitives[10].settings).name, "bag_2");
  EXPECT_EQ(primitives[11].input, 9); // a level without layers has no norm
  EXPECT_EQ(primitives[13].input, 1);
  EXPECT_EQ(primitives[13].second, 12);
  EXPECT_EQ(std::get<Layer>(primitives[14].settings).first, 3);
}

TEST(Expansion, MethodsAndSettingsReachTheStages) {
  auto primitives = expand(readGood(specText(R"({ "op": "hourglass", "hierarchy": "1@1 1@4 1@1",
      "shorten": "linear", "upsample": "linear", "norm": "rms", "epsilon": 0.25, "dropout": 0.5 },)")));
  ASSERT_EQ(primitives.size(), 12u);
  EXPECT_EQ(std::get<Layer>(primitives[1].settings).dropout, 0.5);
  EXPECT_EQ(std::get<Norm>(primitives[2].settings).norm, NormKind::Rms);
  EXPECT_EQ(std::get<Norm>(primitives[2].settings).epsilon, 0.25);
  EXPECT_EQ(std::get<Shift>(primitives[3].settings).by, 3);
  EXPECT_EQ(std::get<Shorten>(primitives[4].settings).factor, 4);
  EXPECT_EQ(std::get<Shorten>(primitives[4].settings).method, Shortening::Linear);
  EXPECT_EQ(std::get<Upsample>(primitives[7].settings).factor, 4);
  EXPECT_EQ(std::get<Upsample>(primitives[7].settings).method, Upsampling::Linear);
}

TEST(Expansion, PlacesAreTheHierarchysAndTheShifts) {
  for (bool overridden : {false, true}) {
    auto primitives = expand(readGood(specText(std::string("    { \"op\": \"hourglass\",\n") +
                                               (overridden ? "      \"shift\": 5,\n" : "\n") +
                                               "      \"hierarchy\": \"1@1 1@2 1@1\" },")));
    for (const Primitive &p : primitives) {
      bool inside = p.prefix.find("inside") != std::string::npos;
      std::string expected = !inside                             ? ""
                             : p.op() == Op::Shift && overridden ? "dir/test.json:8:16"
                                                                 : "dir/test.json:9:20";
      if (inside) {
        EXPECT_EQ(toString(p.location), expected) << p.prefix;
      }
    }
  }
}

} // namespace
