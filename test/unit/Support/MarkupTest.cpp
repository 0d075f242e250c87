// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Markup.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

TEST(Markup, EscapesMarksAndQuotes) {
  for (auto escape : {escapeXml, escapeHtml}) {
    EXPECT_EQ(escape("a<b> & \"c\" \xC3\xA9"), "a&lt;b&gt; &amp; &quot;c&quot; \xC3\xA9");
    EXPECT_EQ(escape(""), "");
  }
}

TEST(Markup, ReplacesControlCharacters) {
  using namespace std::string_view_literals;
  EXPECT_EQ(escapeXml("a\x01\n\t\0b"sv), "a    b");
  EXPECT_EQ(escapeHtml("a\x01\n\t\0b"sv), "a\ufffd\n\t\ufffdb");
}

TEST(Markup, RoundsNumbers) {
  EXPECT_EQ(showNumber(1.25, 1), "1.2");
  EXPECT_EQ(showNumber(-0.5, 0), "-0");
  EXPECT_EQ(showNumber(3, 2), "3.00");
}

} // namespace
