// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Text.h"

#include <gtest/gtest.h>

#include <random>

using namespace sluice;

namespace {

TEST(Quote, LeavesPlainTextAsItIs) {
  EXPECT_EQ(quote("width"), "\"width\"");
  EXPECT_EQ(quote("größe 模型 🌊"), "\"größe 模型 🌊\"");
  EXPECT_EQ(quote(""), "\"\"");
}

TEST(Quote, EscapesWhatATerminalObeys) {
  EXPECT_EQ(quote("\x1b[2J\n\t\x7f"), "\"\\u001b[2J\\u000a\\u0009\\u007f\"");
  EXPECT_EQ(quote("\xc2\x9b"), "\"\\u009b\"");                // the one-byte form of ESC [
  EXPECT_EQ(quote("a\u202e\u2066b"), "\"a\\u202e\\u2066b\""); // turns the direction of writing
  EXPECT_EQ(quote("a\u200bb\ufeff"), "\"a\\u200bb\\ufeff\"");
  EXPECT_EQ(quote("\U000e0041"), "\"\\U000e0041\"");
  EXPECT_EQ(quote("say \"a\\b\""), "\"say \\\"a\\\\b\\\"\"");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), "\"a\\u0000b\"");
}

TEST(Quote, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(quote("\xff"), "\"\\xff\"");
  EXPECT_EQ(quote("\xc3"), "\"\\xc3\"");                            // cut
  EXPECT_EQ(quote("\xc0\xaf"), "\"\\xc0\\xaf\"");                   // not the shortest form
  EXPECT_EQ(quote("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");          // a surrogate
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\""); // above U+10FFFF
}

TEST(Quote, CutsBetweenCharacters) {
  EXPECT_EQ(quote("abcdef", 5), "\"abcde...\"");
  EXPECT_EQ(quote("abcdé", 5), "\"abcd...\"");
  EXPECT_EQ(quote("abcd🌊", 5), "\"abcd...\"");
  EXPECT_EQ(quote(std::string(100000, 'x')).size(), 40u + 5);
}

TEST(ShowPath, KeepsBothEndsOfALongOne) {
  EXPECT_EQ(showPath("a b/\"c\"\\d"), "a b/\"c\"\\d");
  EXPECT_EQ(showPath("a\nb"), "a\\u000ab");
  std::string shown = showPath("start" + std::string(5000, 'x') + "end.json");
  EXPECT_EQ(shown.size(), 303u);
  EXPECT_TRUE(shown.starts_with("startx") && shown.ends_with("xend.json")) << shown;
}

TEST(ShowMessage, KeepsLines) {
  EXPECT_EQ(showMessage("one\ntwo\x1b"), "one\ntwo\\u001b");
  EXPECT_LT(showMessage(std::string(1000000, 'x')).size(), 17000u);
}

// Whatever the bytes, what is shown is one line of UTF-8 without control characters, and bounded.
TEST(Quote, IsSafeOfRandomBytes) {
  std::mt19937 draw(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text(draw() % 80, ' ');
    for (char &c : text) {
      c = static_cast<char>(draw() % 3 ? 0x80 + draw() % 0x80 : draw());
    }
    for (const std::string &shown : {quote(text), showPath(text)}) {
      EXPECT_LE(shown.size(), 10 * text.size() + 5);
      // A second pass finds nothing to escape.
      EXPECT_EQ(showPath(shown), shown);
    }
  }
}

} // namespace
