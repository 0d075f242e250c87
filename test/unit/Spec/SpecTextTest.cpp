// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Edits of a spec's text: only edited bytes change.
#include "sluice/Spec/SpecText.h"

#include <gtest/gtest.h>

using namespace sluice::spec;

namespace {

/// One stage per line, two on one line, and a compact spec.
const std::string source = R"({ "sluice": 1, "name": "a \"}] b",
  "stages": [
    { "op": "embedding" },
    { "op": "shift", "by": 3 }, { "op": "norm" },
    {"op":"shorten","factor":4},
    { "op": "hourglass",
      "hierarchy": "1@1",
      "mask": { "window": [ 0, 4 ] } },
    { "op": "head" } ] }
)";

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string edited(const SpecText &, const TextEdits &edits) { return applyEdits(source, edits); }

} // namespace

TEST(SpecText, FindsStagesKeysAndLocations) {
  SpecText text(source);
  ASSERT_EQ(text.stages().size(), 6U);
  EXPECT_EQ(text.getOpName(text.stages()[3]), "shorten");
  EXPECT_EQ(text.slice(*text.stages()[1].find("by")), "3");
  EXPECT_EQ(text.contents(*text.root().find("name")), R"(a \"}] b)");
  EXPECT_EQ(text.stages()[1].find("to"), nullptr);
  SourceLocation place = text.locate(text.stages()[2].begin, "a.json");
  EXPECT_EQ(toString(place), "a.json:4:33");
  EXPECT_EQ(text.getOffsetAt(place), text.stages()[2].begin);
  EXPECT_EQ(text.stageAt(text.stages()[2].begin + 1), 2);
  EXPECT_EQ(text.stageAt(0), -1);
}

TEST(SpecText, EditsKeys) {
  SpecText text(source);
  const TextNode &shift = text.stages()[1], &shorten = text.stages()[3],
                 &hourglass = text.stages()[4];
  EXPECT_EQ(edited(text, text.setValue(*shift.find("by"), "12")),
            replaced(source, "\"by\": 3", "\"by\": 12"));
  EXPECT_EQ(edited(text, text.addKey(shift, "to", "\"x\"")),
            replaced(source, "\"by\": 3", "\"by\": 3, \"to\": \"x\""));
  EXPECT_EQ(edited(text, text.addKey(shorten, "to", "\"x\"")),
            replaced(source, "\"factor\":4", "\"factor\":4,\"to\":\"x\""));
  EXPECT_EQ(edited(text, text.addKey(hourglass, "shift", "2")),
            replaced(source, "[ 0, 4 ] }", "[ 0, 4 ] },\n      \"shift\": 2"));
  EXPECT_EQ(edited(text, text.removeKey(shift, 1)), replaced(source, ", \"by\": 3", ""));
  EXPECT_EQ(edited(text, text.removeKey(shift, 0)), replaced(source, "\"op\": \"shift\", ", ""));
}

TEST(SpecText, AddsMovesAndRemovesStages) {
  SpecText text(source);
  std::string norm = R"({ "op": "norm" })", shift = R"({ "op": "shift", "by": 3 })";
  EXPECT_EQ(edited(text, text.insertStage(1, norm)),
            replaced(source, "    " + shift, "    " + norm + ",\n    " + shift));
  EXPECT_EQ(edited(text, text.insertStage(2, shift)), replaced(source, norm, shift + ", " + norm));
  EXPECT_EQ(edited(text, text.insertStage(3, shift)),
            replaced(source, "    {\"op\"", "    {\"op\":\"shift\",\"by\":3},\n    {\"op\""))
      << "as compact as its neighbour";
  EXPECT_EQ(edited(text, text.removeStage(2)), replaced(source, ", " + norm, ""));
  EXPECT_EQ(edited(text, text.removeStage(1)), replaced(source, shift + ", ", ""));
  EXPECT_EQ(edited(text, text.removeStage(3)),
            replaced(source, "    {\"op\":\"shorten\",\"factor\":4},\n", ""));
  EXPECT_EQ(edited(text, text.moveStage(1, 3)),
            replaced(replaced(source, shift + ", ", ""), "    {\"op\"",
                     "    " + shift + ",\n    {\"op\""));
}

TEST(SpecText, MapsLocationsToTheOriginal) {
  SpecText text(source);
  TextEdits edits = text.moveStage(1, 3);
  SpecText after(applyEdits(source, edits));
  EXPECT_EQ(offsetBefore(after.stages()[1].begin, edits), text.stages()[2].begin);
  EXPECT_EQ(offsetBefore(after.stages()[4].begin, edits), text.stages()[4].begin);
  EXPECT_EQ(offsetBefore(0, edits), 0U);
}

TEST(SpecText, DiffsByLines) {
  const std::string before = "a\nb\nc\nd\ne\nf\ng\nh\nlast",
                    after = "a\nB\nc\nd\ne\nf\ng\nh\nnew\nlast";
  TextEdits edits = diffLines(before, after);
  ASSERT_EQ(edits.size(), 2U);
  EXPECT_EQ(applyEdits(before, edits), after);
  EXPECT_EQ(edits[0].text, "B") << "the bytes at the ends of a run stay";
  EXPECT_EQ(formatDiff(before, after, "f", "g"),
            "--- f\n+++ g\n@@ -1,9 +1,10 @@\n a\n-b\n+B\n c\n d\n e\n f\n"
            " g\n h\n+new\n last\n\\ No newline at end of file\n");
  EXPECT_EQ(formatDiff(before, before, "f", "f"), "");
  EXPECT_TRUE(diffLines("", "").empty());
  const std::string umlauts = "x \u00e4 y\n", others = "x \u00f6 y\n";
  EXPECT_EQ(applyEdits(umlauts, diffLines(umlauts, others)), others);
  EXPECT_EQ(diffLines(umlauts, others)[0].text, "\u00f6") << "whole characters";
}
