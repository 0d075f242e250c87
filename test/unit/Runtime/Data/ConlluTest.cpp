// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Conllu.h"

#include "sluice/Support/Error.h"
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::runtime;

namespace {

std::string word(const std::string &id, const std::string &form, const std::string &head,
                 const std::string &deps = "_") {
  return id + "\t" + form + "\t_\t_\t_\t_\t" + head + "\t_\t" + deps + "\t_\n";
}

std::string explain(const std::string &text) {
  try {
    parseConllu(text, "a.conllu");
  } catch (const UserError &error) {
    return error.what();
  }
  return "";
}

TEST(Conllu, EdgesOfHeadsAndOfDeps) {
  auto all =
      parseConllu("# text = They buy and sell\n" + word("1", "They", "2", "2:nsubj|4:nsubj") +
                      word("2", "buy", "0", "0:root") + word("3", "and", "4") +
                      word("4", "sell", "2") + "\n" + word("1", "Yes", "0"),
                  "a.conllu");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].words, (std::vector<std::string>{"They", "buy", "and", "sell"}));
  EXPECT_EQ(all[0].edges, (Edges{{0, 1}, {0, 3}, {1, 3}, {2, 3}}));
  EXPECT_EQ(all[0].place, 2u);
  EXPECT_EQ(all[1].words, std::vector<std::string>{"Yes"});
  EXPECT_TRUE(all[1].edges.empty());
  EXPECT_EQ(all[1].place, 7u);
}

/// Edges within a token are none; edges of its words are the token's.
TEST(Conllu, MultiwordTokensAreOneWord) {
  auto all = parseConllu(word("1-2", "vámonos", "_") + word("1", "vamos", "0") +
                             word("2", "nos", "1") + word("3", "al", "4") + word("4", "mar", "2"),
                         "a.conllu");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].words, (std::vector<std::string>{"vámonos", "al", "mar"}));
  EXPECT_EQ(all[0].edges, (Edges{{0, 2}, {1, 2}}));
}

TEST(Conllu, EmptyNodesAreNoWords) {
  auto all = parseConllu(word("1", "Sue", "0") + word("1.1", "likes", "_", "1:conj") +
                             word("2", "tea", "1", "1.1:obj"),
                         "a.conllu");
  EXPECT_EQ(all[0].words, (std::vector<std::string>{"Sue", "tea"}));
  EXPECT_EQ(all[0].edges, (Edges{{0, 1}}));
}

TEST(Conllu, LineEndsAndAbsentLastLine) {
  std::string text = "1\ta\t_\t_\t_\t_\t2\t_\t_\t_\r\n2\tb\t_\t_\t_\t_\t0\t_\t_\t_\r\n\r\n\r\n";
  EXPECT_EQ(parseConllu(text, "a.conllu").size(), 1u);
  EXPECT_EQ(parseConllu("", "a.conllu").size(), 0u);
  EXPECT_EQ(parseConllu("# only a comment", "a.conllu").size(), 0u);
}

TEST(Conllu, MessagesNameTheLine) {
  EXPECT_EQ(explain("a b c\n"),
            "a.conllu:1: expected a word of CoNLL-U with 10 fields between tabs, found 1 field: "
            "\"a b c\"; give a CoNLL-U file, with an empty line after each sentence");
  EXPECT_EQ(explain(word("1", "a", "0") + word("3", "b", "1")),
            "a.conllu:2: expected the id 2, found \"3\"; number the words of a sentence from 1");
  EXPECT_EQ(explain(word("1", "a", "5") + word("2", "b", "1") + "\n"),
            "a.conllu:1: expected a head among the 2 words of the sentence, found 5; correct the "
            "fields HEAD and DEPS");
  EXPECT_EQ(explain(word("1", "a", "x")),
            "a.conllu:1: expected the id of a head, found \"x\"; correct it");
  EXPECT_EQ(explain(word("1", "a", "1")),
            "a.conllu:1: expected a head that is another word, found the word's own id \"1\"; "
            "correct it");
  EXPECT_EQ(explain(word("1", "a", "0", "q.z:x")),
            "a.conllu:1: expected the id of a head or of an empty node, found \"q.z\"; correct it");
  EXPECT_EQ(explain(word("1", "a", "0", "2")),
            "a.conllu:1: expected heads such as 2:nsubj|4:conj, found \"2\"; correct the field "
            "DEPS");
  EXPECT_EQ(explain(word("1-3", "abc", "_") + word("1", "a", "0")),
            "a.conllu:2: expected the words up to 3 of a multiword token, found 1; correct the "
            "ids");
  EXPECT_EQ(explain(word("2-3", "bc", "_")),
            "a.conllu:1: expected a multiword token from 1, found \"2-3\"; correct the ids");
  EXPECT_EQ(explain(word("-1", "a", "0")),
            "a.conllu:1: expected a multiword token from 1, found \"-1\"; correct the ids");
  EXPECT_EQ(explain(word("99999999999", "a", "0")),
            "a.conllu:1: expected the id 1, found \"99999999999\"; number the words of a sentence "
            "from 1");
}

} // namespace
