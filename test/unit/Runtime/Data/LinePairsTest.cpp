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

/// Streams on the axis of a source of 6 tokens.
class SideStreamsTest : public ::testing::Test {
protected:
  SideStreamsTest() { writeFile(folder / "source", "ab c\n\nabcdefgh\nef  \n"); }

  GivenLines read(int64_t line) { return InputLines(files, plan).at(line); }
  std::vector<int32_t> derive(int64_t line, const std::string &derived, const std::string &rule) {
    plan.given["bits"] = {6, 2, "source", false, derived, rule};
    return read(line).at("bits");
  }
  std::string fail(const std::string &lines, int64_t vocabulary) {
    writeFile(folder / "tag", lines);
    plan.given["tag"] = {6, vocabulary, "source"};
    files["tag"] = {folder / "tag"};
    return userError([&] { read(0); });
  }

  TemporaryFolder folder;
  Plan plan = [] {
    Plan plan;
    plan.given["source"] = {6, 128};
    return plan;
  }();
  InputFiles files = {{"source", {folder / "source"}}};
};

using Ids = std::vector<int32_t>;

TEST_F(SideStreamsTest, WhitespaceEndsWords) {
  EXPECT_EQ(derive(0, "word_end", "whitespace"), (Ids{0, 0, 1, 1}));
  EXPECT_EQ(derive(0, "word_split", "whitespace"), (Ids{1, 1, 1, 0}));
  EXPECT_EQ(derive(1, "word_split", "whitespace"), Ids());
  EXPECT_EQ(derive(2, "word_end", "whitespace"), (Ids{0, 0, 0, 0, 0, 1})); // cut
  EXPECT_EQ(derive(3, "word_split", "whitespace"), (Ids{1, 1, 1, 0}));
}

TEST_F(SideStreamsTest, EndIsAWordAlone) {
  plan.given["source"].hasEnd = true;
  EXPECT_EQ(read(0).at("source"), (Ids{'a', 'b', ' ', 'c', '\n'}));
  EXPECT_EQ(read(1).at("source"), Ids{'\n'});
  EXPECT_EQ(read(2).at("source"), (Ids{'a', 'b', 'c', 'd', 'e', '\n'})); // cut, with its end
  EXPECT_EQ(derive(0, "word_end", "whitespace"), (Ids{0, 0, 1, 1, 1}));
  EXPECT_EQ(derive(2, "word_split", "whitespace"), (Ids{1, 1, 1, 1, 1, 0}));
}

/// Lengths of 9 words, the last of which keeps its own unless a line end follows.
TEST_F(SideStreamsTest, ShuffledEndsPermuteLengths) {
  writeFile(folder / "source",
            "a bc def gh i jkl m no pqrs\n" + std::string("a bc def gh i jkl m no pqrs\n"));
  plan.given["source"].capacity = 30;
  auto lengths = [&](const std::string &derived, int64_t line) {
    std::vector<int64_t> all;
    int64_t next = 0;
    for (int32_t bit : derive(line, derived, "whitespace")) {
      ++next;
      if (bit != 0) {
        all.push_back(std::exchange(next, 0));
      }
    }
    return all;
  };
  std::vector<int64_t> own = lengths("word_end", 0), shuffled = lengths("shuffled_end", 0);
  EXPECT_EQ(own.size(), 9u);
  EXPECT_NE(shuffled, own);
  EXPECT_EQ(shuffled.back(), own.back());
  EXPECT_TRUE(std::ranges::is_permutation(shuffled, own));
  EXPECT_EQ(lengths("shuffled_end", 0), shuffled);
  EXPECT_EQ(lengths("shuffled_end", 1), shuffled) << "equal lines of a file";
  plan.model.seed = 7;
  EXPECT_NE(lengths("shuffled_end", 0), shuffled);
  plan.given["source"].hasEnd = true;
  EXPECT_EQ(lengths("shuffled_end", 0).back(), 1);
  EXPECT_TRUE(std::ranges::is_permutation(lengths("shuffled_end", 0), lengths("word_end", 0)));
}

TEST_F(SideStreamsTest, FilesHaveATokenForEachToken) {
  writeFile(folder / "tag", "0123\n\n01231230\n3210\n");
  writeFile(folder / "ids", "5 99 7 0\n\n1 2 3 4 5 6 7 8\n1 2 3 4");
  writeFile(folder / "bits", "0101\n\n00000001\n0000\n");
  plan.given["tag"] = {6, 4, "source"};
  plan.given["ids"] = {6, 100, "source"};
  plan.given["split"] = {6, 2, "source", false, "word_split", "file"};
  files["tag"] = {folder / "tag"};
  files["ids"] = {folder / "ids"};
  files["split"] = {folder / "bits"};
  GivenLines first = read(0), cut = read(2), last = read(3);
  EXPECT_EQ(first.at("tag"), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(first.at("ids"), (Ids{5, 99, 7, 0}));
  EXPECT_EQ(first.at("split"), (Ids{1, 1, 1, 1}));
  EXPECT_EQ(cut.at("tag"), (Ids{0, 1, 2, 3, 1, 2}));
  EXPECT_EQ(last.at("ids"), (Ids{1, 2, 3, 4}));
  EXPECT_TRUE(read(1).at("tag").empty());
}

TEST_F(SideStreamsTest, RejectsOtherFiles) {
  std::string tag = (folder / "tag").string(), source = (folder / "source").string();
  EXPECT_EQ(fail("0123\n\n0123123\n3210\n", 4),
            tag + ":3: expected 8 tokens, one for each token of " + source +
                ":3, found 7; write one for each byte of the line");
  EXPECT_EQ(fail("0143\n\n01231230\n3210\n", 4),
            tag + ":1:3: expected ids from 0 to 3 of the input \"tag\", a digit for each token, "
                  "found \"4\"; correct the line");
  EXPECT_EQ(fail("1 2 3 x\n\n", 50).find(tag + ": expected as many lines as"), 0U);
  EXPECT_EQ(fail("1 2 3 x\n\n1\n1\n", 50),
            tag + ":1:7: expected ids from 0 to 49 of the input \"tag\", with a space between "
                  "them, found \"x\"; correct the line");
  plan.given.erase("tag");
  files.erase("tag");
  EXPECT_NE(userError([&] { derive(0, "word_end", "pieces"); }).find("give --tokenizer TOK"),
            std::string::npos);
  plan.given["source"] = {6, 10, "", true};
  writeFile(folder / "source", "\1\2\n");
  EXPECT_NE(userError([&] { read(0); }).find("expected a vocabulary above 10"), std::string::npos);
}

TEST_F(SideStreamsTest, FilesAreOnlyForInputsThatTakeThem) {
  plan.given["bits"] = {6, 2, "source", false, "word_end", "pieces"};
  EXPECT_NO_THROW(requireInputs(plan, files, "--input"));
  files["bits"] = {"x"};
  EXPECT_NE(
      userError([&] { requireInputs(plan, files, "--input"); }).find("found one; leave it out"),
      std::string::npos);
}

/// Lines of "source", of at most 3 tokens, and of edges between them, at most 2.
class EdgeLinesTest : public LinePairsTest {
protected:
  EdgeLinesTest() { plan.inputs["edges.source.links"] = {0, Type::i32, {2, 3 + 4}, 7}; }
  GivenLines read(const std::string &edges) {
    writeFile(folder / "source", "abc\nde\nfghij\n");
    writeFile(folder / "links", edges);
    InputLines lines({{"source", {folder / "source"}}, {"links", {folder / "links"}}}, plan);
    return lines.at(2);
  }
};

TEST_F(EdgeLinesTest, CountsAnEdgeOnceAndLeavesOutRowsThatWereCut) {
  EXPECT_EQ(read("\n\n2-0 0-1 1-0\n").at("links"), (std::vector<int32_t>{0, 1, 0, 2}));
  EXPECT_EQ(read("\n0-1\n1-2 4-0\n").at("links"), (std::vector<int32_t>{1, 2}));
}

TEST_F(EdgeLinesTest, AreNoTextOfTheTokenizerOfTheWeights) {
  writeFile(folder / "links", "0-1\n");
  ReadingOptions reading;
  reading.tokenizer = "0123";
  EXPECT_EQ(EdgeLines({folder / "links"}, reading).at(0, "row"), (Edges{{0, 1}}));
}

TEST_F(EdgeLinesTest, RejectsWrongEdgesByTheirLine) {
  for (auto [lines, message] : std::vector<std::pair<std::string, std::string>>{
           {"\n1-2\n\n", "links:2: expected edges between the 2 rows of "},
           {"\n1-2\n\n", "source:2, counted from 0, found 1-2; correct the number"},
           {"\n\n1-1\n", "links:3: expected edges between two different rows, as in 0-3 1-2, "
                         "found 1-1;"},
           {"0-1 0:2\n\n\n", "links:1: expected edges between two different rows, as in 0-3 1-2, "
                             "found 0:2;"},
           {"0--1\n\n\n", "found 0--1;"},
           {"0-99999999999\n\n\n", "found 0-99999999999;"},
           {"\n\n0-1 1-2 2-3\n", "links:3: expected at most 2 edges, found 3; raise \"capacity\""},
           {"\n\n", "expected as many lines as "}}) {
    EXPECT_NE(userError([&] { read(lines); }).find(message), std::string::npos)
        << userError([&] { read(lines); });
  }
  EXPECT_NE(userError([&] {
              requireInputs(plan, {{"source", {"x"}}}, "--input");
            }).find("expected --input links=FILE, as the model has the edges \"links\""),
            std::string::npos);
}

/// Edges between the words of "source", by the bits of "ends", at most 3 per line.
class WordEdgesTest : public LinePairsTest {
protected:
  WordEdgesTest() {
    plan.given["ends"] = {3, 2, "source", false, "word_end", "whitespace"};
    plan.given["source"].capacity = plan.given["ends"].capacity = 12;
    plan.inputs["edges.ends.links"] = {0, Type::i32, {2, 12 + 6}, 18};
  }
  GivenLines read(const std::string &edges, const std::string &source = "the old cat\nyes\n") {
    writeFile(folder / "source", source);
    writeFile(folder / "links", edges);
    InputLines lines({{"source", {folder / "source"}}, {"links", {folder / "links"}}}, plan);
    return lines.at(0);
  }
  static std::string word(const std::string &id, const std::string &form, const std::string &head) {
    return id + "\t" + form + "\t_\t_\t_\t_\t" + head + "\t_\t_\t_\n";
  }
};

TEST_F(WordEdgesTest, AreReadFromCoNLLU) {
  std::string cat = word("1", "the", "3") + word("2", "old", "3") + word("3", "cat", "0");
  std::string yes = "\n# text = yes\n" + word("1", "yes", "0");
  EXPECT_EQ(read("0-2 1-2\n\n").at("links"), (std::vector<int32_t>{0, 2, 1, 2}));
  EXPECT_EQ(read("# made by hand\n" + cat + yes).at("links"), (std::vector<int32_t>{0, 2, 1, 2}));
  // White space alone is a word of the line, and none of a sentence.
  EXPECT_EQ(read(cat + yes, " the  old cat \nyes\n").at("links"),
            (std::vector<int32_t>{1, 4, 3, 4}));
  EXPECT_EQ(read("\xef\xbb\xbf" + cat + yes).at("links"), (std::vector<int32_t>{0, 2, 1, 2}));
  for (auto [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"1 the _ _\n", "found 1; write two word numbers"},
           {cat, "links: expected 2 sentences, one for each line of "},
           {yes + "\n" + cat, "links:3: expected the words of "},
           {cat + "\n" + word("1", "no", "0"), "of which number 1 is \"yes\", found \"no\";"},
           {word("1", "the", "0") + yes, "of which number 2 is \"old\", found no word;"},
           {cat + word("4", "purrs", "3") + yes,
            "of which number 4 is no word, found \"purrs\";"}}) {
    EXPECT_NE(userError([&] { read(text); }).find(message), std::string::npos)
        << userError([&] { read(text); });
  }
  plan.inputs.erase("edges.ends.links");
  plan.inputs["edges.source.links"] = {0, Type::i32, {2, 12 + 6}, 18};
  EXPECT_NE(userError([&] { read(cat + yes); }).find("found a sentence of CoNLL-U; let the edges"),
            std::string::npos);
}

/// Edges between the nine words of a line, which "pattern" specifies.
TEST_F(WordEdgesTest, PatternsNeedNoFile) {
  writeFile(folder / "source", "a b c d e f g h i\na b c d e f g h i\nyes\n\ni h g f e d c b a\n");
  plan.given["source"].capacity = plan.given["ends"].capacity = 18;
  plan.inputs["edges.ends.links"] = {0, Type::i32, {2, 18 + 36}, 54};
  InputFiles files = {{"source", {folder / "source"}}};
  auto build = [&](const std::string &pattern, int64_t line) {
    plan.facts.emplace().inputs = {{"links", false, "", "", pattern}};
    requireInputs(plan, files, "--input");
    return InputLines(files, plan).at(line).at("links");
  };
  EXPECT_EQ(build("chain", 0), (Ids{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8}));
  Ids drawn = build("random", 0), heads(9, -1);
  ASSERT_EQ(drawn.size(), 16U);
  for (size_t i = 0; i < drawn.size(); i += 2) { // each word but the first has one earlier word
    EXPECT_LT(drawn[i], drawn[i + 1]);
    EXPECT_EQ(std::exchange(heads.at(static_cast<size_t>(drawn[i + 1])), drawn[i]), -1);
  }
  EXPECT_EQ(build("random", 0), drawn);
  EXPECT_EQ(build("random", 1), drawn) << "equal lines of a file";
  EXPECT_NE(build("random", 4), drawn);
  EXPECT_TRUE(build("random", 2).empty());
  EXPECT_TRUE(build("random", 3).empty());
  plan.model.seed = 7;
  EXPECT_NE(build("random", 0), drawn);
  plan.model.seed = 0;
  plan.given["source"].capacity = plan.given["ends"].capacity = 8; // four words are left
  Ids cut = build("random", 0);
  EXPECT_EQ(cut.size(), 6U);
  for (size_t i = 0; i < cut.size(); i += 2) {
    EXPECT_EQ(heads.at(static_cast<size_t>(cut[i + 1])), cut[i]);
  }
  plan.inputs["edges.ends.links"] = {0, Type::i32, {2, 8}, 8}; // no list: kernels draw edges
  Ids number = build("half", 0);
  ASSERT_EQ(number.size(), 2U);
  EXPECT_GE(number[0], 0);
  EXPECT_EQ(number[1], 4); // words that are left
  EXPECT_EQ(build("half", 0), number);
  EXPECT_EQ(build("half", 1), number);
  EXPECT_NE(build("half", 4), number);
  Ids written(3 * 2);
  BatchInputs batch;
  batch.edges["links"] = {3, 0, written};
  batch.write(1, {{"links", {7, 2}}});
  EXPECT_EQ(written, (Ids{0, 0, 0, 7, 7, -1}));
  files["links"] = {folder / "links"};
  EXPECT_NE(userError([&] { build("chain", 0); })
                .find("--input: expected no file for the edges \"links\", whose pattern is "
                      "\"chain\", found one; leave it out"),
            std::string::npos);
}

TEST(EdgeLists, HaveTheEndOfEachRowThenItsNeighbours) {
  std::vector<int32_t> lists(4 + 6, -1);
  writeEdgeLists({{0, 2}, {0, 3}, {1, 7}}, 4, lists);
  EXPECT_EQ(lists, (std::vector<int32_t>{2, 2, 3, 4, 2, 3, 0, 0, 0, 0}));
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
