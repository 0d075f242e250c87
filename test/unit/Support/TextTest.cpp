// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Text.h"

#include <gtest/gtest.h>

#include <random>

using namespace sluice;

namespace {

/// -1 if a byte belongs to no character.
int64_t charactersIn(std::string_view text, size_t from, size_t to) {
  CharacterCount count = countCharacters(text, from, to);
  return count.invalid ? -1 : count.characters;
}
int64_t charactersIn(std::string_view text) { return charactersIn(text, 0, text.size()); }

TEST(CountCharacters, CountsCharactersOfOneToFourBytes) {
  EXPECT_EQ(charactersIn(""), 0);
  EXPECT_EQ(charactersIn(std::string_view("a\n\0z", 4)), 4);
  EXPECT_EQ(charactersIn("\u0080\u07ff"), 2); // two bytes each, the minimum and the maximum
  EXPECT_EQ(charactersIn("\u0800\ud7ff\ue000\uffff"), 4); // three
  EXPECT_EQ(charactersIn("\U00010000\U0010ffff"), 2);     // four
  EXPECT_EQ(charactersIn("vesi käy, מים, nước \U0001F30A"), 21);
}

TEST(CountCharacters, CountsCharacterAtItsLastByte) {
  std::string_view text = "\u00e9\u20ac\U0001F30A"; // bytes 0-1, 2-4 and 5-8
  EXPECT_EQ(charactersIn(text, 1, 9), 3);
  EXPECT_EQ(charactersIn(text, 2, 8), 1) << "the last one is cut";
  EXPECT_EQ(charactersIn(text, 5, 8), 0);
  EXPECT_EQ(charactersIn(text, 8, 9), 1);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(charactersIn(text, 0, cut) + charactersIn(text, cut, text.size()), 3) << cut;
  }
}

TEST(CountCharacters, ReportsInvalidBytes) {
  for (const char *bytes : {"\xff", "\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                            "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xe2\x82", "\xe2\x82z"}) {
    std::string text = "ab" + std::string(bytes) + (bytes[0] == '\xe2' ? "" : "c");
    CharacterCount count = countCharacters(text, 0, text.size());
    ASSERT_TRUE(count.invalid) << text;
    EXPECT_EQ(*count.invalid, 2u) << text;
  }
}

TEST(CountCharacters, ChecksOnlyBytesInRange) {
  EXPECT_EQ(charactersIn("\xff\u00e9z\xff", 1, 4), 2);
  EXPECT_EQ(charactersIn("\xff\u00e9z\xff", 1, 5), -1);
  EXPECT_EQ(charactersIn("\xff\u00e9z\xff", 0, 4), -1);
  EXPECT_EQ(charactersIn("\u20ac", 0, 2), 0) << "the text goes on: this is no invalid byte";
  EXPECT_EQ(charactersIn("\xe2\x82z", 2, 3), 1) << "what stands before is not asked about";
}

TEST(Quote, LeavesPlainTextAsItIs) {
  EXPECT_EQ(quote("width"), "\"width\"");
  EXPECT_EQ(quote("größe 模型 🌊"), "\"größe 模型 🌊\"");
  EXPECT_EQ(quote(""), "\"\"");
}

TEST(Quote, EscapesControlSequences) {
  EXPECT_EQ(quote("\x1b[2J\n\t\x7f"), "\"\\u001b[2J\\u000a\\u0009\\u007f\"");
  EXPECT_EQ(quote("\xc2\x9b"), "\"\\u009b\"");                // the one-byte form of ESC [
  EXPECT_EQ(quote("a\u202e\u2066b"), "\"a\\u202e\\u2066b\""); // reverses the direction of writing
  EXPECT_EQ(quote("a\u200bb\ufeff"), "\"a\\u200bb\\ufeff\"");
  EXPECT_EQ(quote("\U000e0041"), "\"\\U000e0041\"");
  EXPECT_EQ(quote("say \"a\\b\""), "\"say \\\"a\\\\b\\\"\"");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), "\"a\\u0000b\"");
}

TEST(Quote, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(quote("\xff"), "\"\\xff\"");
  EXPECT_EQ(quote("\xc3"), "\"\\xc3\"");                            // truncated
  EXPECT_EQ(quote("\xc0\xaf"), "\"\\xc0\\xaf\"");                   // overlong form
  EXPECT_EQ(quote("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\"");          // a surrogate
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), "\"\\xf4\\x90\\x80\\x80\""); // above U+10FFFF
}

TEST(Quote, CutsBetweenCharacters) {
  EXPECT_EQ(quote("abcdef", 5), "\"abcde...\"");
  EXPECT_EQ(quote("abcdé", 5), "\"abcd...\"");
  EXPECT_EQ(quote("abcd🌊", 5), "\"abcd...\"");
  EXPECT_EQ(quote(std::string(100000, 'x')).size(), 40u + 5);
}

TEST(ShowPath, PreservesBothEndsOfALongPath) {
  EXPECT_EQ(showPath("a b/\"c\"\\d"), "a b/\"c\"\\d");
  EXPECT_EQ(showPath("a\nb"), "a\\u000ab");
  std::string shown = showPath("start" + std::string(5000, 'x') + "end.json");
  EXPECT_EQ(shown.size(), 303u);
  EXPECT_TRUE(shown.starts_with("startx") && shown.ends_with("xend.json")) << shown;
}

TEST(ShowMessage, PreservesLines) {
  EXPECT_EQ(showMessage("one\ntwo\x1b"), "one\ntwo\\u001b");
  EXPECT_LT(showMessage(std::string(1000000, 'x')).size(), 17000u);
}

// Any bytes are shown as one bounded line of UTF-8 without control characters.
TEST(Quote, HandlesRandomBytes) {
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

TEST(Text, ShowsTextWithoutControlCharacters) {
  EXPECT_EQ(showText("a\tb\n\033[31mc\r\x7f"), "a\tb\n\\u001b[31mc\\u000d\\u007f");
  EXPECT_EQ(showText(std::string(100000, 'a')).size(), 100000u);
}

} // namespace
