// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Outline.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::editor;

namespace {

TEST(Outline, FindsStagesAndTheirOps) {
  std::string text = R"({"width": 4, "stages": [{"op": "embedding"}, {"by": 3, "op": "shift"}]})";
  Outline outline(text);
  std::vector<int> stages = outline.stages();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(outline.findInfo(stages[1]), spec::findStage("shift"));
  EXPECT_EQ(outline.findInfo(stages[0])->word, "embedding");
  EXPECT_EQ(outline.node(stages[1]).index, 1u);
  EXPECT_EQ(outline.contents(outline.node(outline.member(stages[1], "by"))), "3");
  EXPECT_EQ(outline.getStageId(outline.member(stages[1], "by")), stages[1]);
  EXPECT_EQ(outline.getStageId(0), -1);
}

TEST(Outline, ContinuesAfterErrors) {
  // A missing comma, a key without value, an unterminated string, unclosed brackets.
  std::string text =
      "{\"width\": 4 \"name\": \"x\n \"seed\", \"stages\": [{\"op\": \"layer\" \"hea";
  Outline outline(text);
  ASSERT_EQ(outline.stages().size(), 1u);
  EXPECT_EQ(outline.findInfo(outline.stages()[0]), spec::findStage("layer"));
  EXPECT_EQ(outline.contents(outline.node(outline.member(0, "name"))), "x");
  EXPECT_EQ(outline.node(outline.member(0, "seed")).kind, Node::Missing);
  Outline::Spot spot = outline.at(text.size());
  EXPECT_TRUE(spot.onKey);
  EXPECT_EQ(outline.key(outline.node(spot.node)), "hea");
  EXPECT_EQ(spot.container, outline.stages()[0]);
}

TEST(Outline, FindsTheEnclosingObject) {
  std::string text = R"({"defaults": {"rotary": {}}, "training": {"schedule": {}, "groups": [{}]},)"
                     R"("stages": [{"op": "layer", "mask": {}}, {"op": "lair"}, {"op": "hnet",)"
                     R"("local": {"over": [{"mask": {}}]}}], "schedule": {}})";
  Outline outline(text);
  auto firstKey = [&](int object) {
    const auto *keys = outline.getKeyList(object);
    return keys ? std::string(keys->front().name) : "";
  };
  int defaults = outline.member(0, "defaults"), training = outline.member(0, "training");
  std::vector<int> stages = outline.stages();
  EXPECT_EQ(firstKey(0), "sluice");
  EXPECT_EQ(firstKey(defaults), "heads");
  EXPECT_EQ(firstKey(outline.member(defaults, "rotary")), "base");
  EXPECT_EQ(firstKey(training), "optimizer");
  EXPECT_EQ(firstKey(outline.member(training, "schedule")), "kind");
  int groups = outline.member(training, "groups");
  EXPECT_EQ(firstKey(outline.children(groups)[0]), "match");
  EXPECT_EQ(firstKey(stages[0]), "op");
  EXPECT_EQ(firstKey(outline.member(stages[0], "mask")), "window");
  ASSERT_NE(outline.getKeyList(stages[1]), nullptr); // no known op: that is the only key to offer
  EXPECT_EQ(outline.getKeyList(stages[1])->size(), 1u);
  int sources = outline.member(outline.member(stages[2], "local"), "over");
  EXPECT_EQ(firstKey(outline.member(outline.children(sources)[0], "mask")), "window");
  EXPECT_EQ(firstKey(outline.member(0, "schedule")), "");
}

TEST(Outline, ClassifiesKeysValuesAndBrackets) {
  std::string text = R"({ "name": "x" })";
  Outline outline(text);
  EXPECT_TRUE(outline.at(3).onKey);
  EXPECT_FALSE(outline.at(11).onKey);
  EXPECT_EQ(outline.at(11).node, 1);
  EXPECT_EQ(outline.at(13).node, 1); // right after the string
  EXPECT_EQ(outline.at(1).node, 0);
  EXPECT_EQ(outline.at(0).container, -1);
  EXPECT_EQ(outline.at(1).container, 0);
  EXPECT_EQ(outline.at(text.size()).node, -1);
}

TEST(Outline, AcceptsAnyText) {
  const std::string alphabet = "{}[]:,\"\\ \nx1";
  uint32_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525 + 1013904223;
      text += alphabet[(state >> 16) % alphabet.size()];
    }
    Outline outline(text);
    for (const Node &node : outline.all()) {
      ASSERT_LE(node.begin, node.end) << text;
      ASSERT_LE(node.end, text.size()) << text;
      ASSERT_LE(node.keyEnd, text.size()) << text;
      if (node.parent >= 0) {
        ASSERT_GE(node.keyBegin < node.keyEnd ? node.keyBegin : node.begin,
                  outline.node(node.parent).begin)
            << text;
        ASSERT_LE(node.end, outline.node(node.parent).end) << text;
      }
    }
    for (size_t offset = 0; offset <= text.size(); ++offset) {
      Outline::Spot spot = outline.at(offset);
      outline.getKeyList(spot.container);
    }
  }
}

TEST(Outline, DepthUsesNoStack) {
  for (std::string key : {"schedule", "then", "mask", "local", "unknown"}) {
    std::string text;
    for (int i = 0; i < 300000; ++i) {
      text += "{\"" + key + "\":";
    }
    Outline outline(text);
    Outline::Spot spot = outline.at(text.size() - 6);
    EXPECT_EQ(outline.getKeyList(spot.container), nullptr) << key;
  }
}

} // namespace
