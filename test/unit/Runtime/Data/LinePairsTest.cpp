// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lines of a text and of named inputs, as rows of a batch.
#include "sluice/Runtime/Data/LinePairs.h"
#include "Fixture.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// A model of context 4 and an input of 3 tokens; batches of 2.
Plan smallPlan() {
  Plan plan;
  plan.model.context = 4;
  plan.model.batch = 2;
  plan.model.vocabulary = 128;
  plan.given["source"] = {3, 128};
  return plan;
}

/// Memory for a batch of it.
struct Batch {
  std::vector<int32_t> tokens = std::vector<int32_t>(10, -1), source = std::vector<int32_t>(6, -1);
  std::vector<int64_t> counts = std::vector<int64_t>(2, -1);
  std::vector<float> padding = std::vector<float>(8, -1);
  BatchInputs inputs() { return {tokens, {{"source", {3, source, counts}}}, padding}; }
};

class LinePairsTest : public ::testing::Test {
protected:
  LinePairs buildLinePairs(const std::string &text, const std::string &source, uint64_t seed = 0) {
    writeFile(folder / "text", text);
    writeFile(folder / "source", source);
    return LinePairs({folder / "text"}, {{"source", {folder / "source"}}}, plan, seed);
  }
  TemporaryFolder folder;
  Plan plan = smallPlan();
};

TEST_F(LinePairsTest, LineTextIsCompleteAndTerminated) {
  LinePairs pairs = buildLinePairs("ab\nabcdefg\n\nabcd", "x\nx\nx\nx\n");
  EXPECT_EQ(pairs.getTextAt(0), "ab\n");
  EXPECT_EQ(pairs.getTextAt(1), "abcdefg\n");
  EXPECT_EQ(pairs.getTextAt(2), "\n");
  EXPECT_EQ(pairs.getTextAt(3), "abcd\n");
}

TEST_F(LinePairsTest, RowIsALineBetweenLineEnds) {
  LinePairs pairs = buildLinePairs("ab\nabcdefg\n\nabcd", "xyz\nx\n\nwxyz\n");
  ASSERT_EQ(pairs.rowsPerEpoch(), 4);
  Batch batch;
  EXPECT_EQ(pairs.write(0, 1, batch.inputs()), 3); // a, b and the end
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{-1, -1, -1, -1, -1, 10, 'a', 'b', 10, 10}));
  EXPECT_EQ(batch.source, (std::vector<int32_t>{-1, -1, -1, 'x', 'y', 'z'}));
  EXPECT_EQ(batch.counts, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(batch.padding, (std::vector<float>{-1, -1, -1, -1, 0, 0, 0, 1}));
  EXPECT_EQ(pairs.write(1, 1, batch.inputs()), 4); // cut, without an end
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{-1, -1, -1, -1, -1, 10, 'a', 'b', 'c', 'd'}));
  EXPECT_EQ(batch.source, (std::vector<int32_t>{-1, -1, -1, 'x', 0, 0}));
  EXPECT_EQ(batch.counts[1], 1);
  EXPECT_EQ(pairs.write(2, 0, batch.inputs()), 1); // an empty line: its end alone
  EXPECT_EQ(batch.counts[0], 0);
  EXPECT_EQ(pairs.notes(),
            (std::vector<std::string>{
                "cut 1 of 4 lines of the text, longer than 4 bytes (its context)",
                "cut 1 of 4 lines of the input source, longer than 3 bytes (its context)"}));
}

TEST_F(LinePairsTest, EpochReadsEachLineOnceWithItsInput) {
  std::string text, source;
  for (char c = 'a'; c < 'l'; ++c) {
    text += std::string(1, c) + "\n";
    source += std::string(2, c) + "\n";
  }
  LinePairs pairs = buildLinePairs(text, source, 5);
  std::string seen;
  DataPosition position;
  for (int i = 0; i < 11; ++i) {
    Batch batch;
    position = pairs.fill(position, 1, batch.inputs());
    seen += static_cast<char>(batch.tokens[1]);
    EXPECT_EQ(batch.source[0], batch.tokens[1]);
  }
  EXPECT_EQ(position, (DataPosition{1, 0}));
  EXPECT_NE(seen, "abcdefghijk");
  std::ranges::sort(seen);
  EXPECT_EQ(seen, "abcdefghijk");
}

TEST_F(LinePairsTest, RejectsMismatchedPairs) {
  EXPECT_NE(userError([&] { buildLinePairs("a\nb\n", "x\n"); }).find("has, 2, found 1"),
            std::string::npos);
  plan.given["source"].vocabulary = 'y';
  EXPECT_NE(userError([&] {
              buildLinePairs("a\n", "xyz\n");
            }).find("source: byte 1: expected token ids below the vocabulary of 121, found 121"),
            std::string::npos);
  plan.given["source"].vocabulary = 2; // below the line end, which is not its token
  EXPECT_NE(userError([&] {
              buildLinePairs("a\n", "\1\5\n");
            }).find("source: expected token ids below the vocabulary of 2, found 5"),
            std::string::npos);
}

TEST(InputFlags, AreNamesAndFiles) {
  InputFiles files = parseInputFiles("--input", {"a=x=y", "b=z", "a=w"});
  EXPECT_EQ(files.at("a"), (std::vector<Path>{"x=y", "w"}));
  for (const char *wrong : {"a", "=x", "a="}) {
    EXPECT_NE(userError([&] { parseInputFiles("--input", {wrong}); }).find("NAME=FILE"),
              std::string::npos);
  }
  Plan plan = smallPlan();
  EXPECT_NO_THROW(requireInputs(plan, {{"source", {"x"}}}, "--input"));
  EXPECT_NE(userError([&] { requireInputs(plan, {}, "--input"); }).find("--input source=FILE"),
            std::string::npos);
  EXPECT_NE(
      userError([&] { requireInputs(plan, {{"hint", {"x"}}}, "--input"); }).find("found \"hint\""),
      std::string::npos);
  EXPECT_NE(userError([&] { refuseInputs(plan, "sluice generate"); }), "");
}

} // namespace
