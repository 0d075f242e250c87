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

TEST(Markup, WritesElements) {
  auto place = attributes("x", 2, "y", 0.25, "class", "", "title", "<\"a\">");
  EXPECT_EQ(emptyElement("line", place),
            "<line x=\"2\" y=\"0.2\" title=\"&lt;&quot;a&quot;&gt;\"/>");
  EXPECT_EQ(element("g", "<b/>", attributes("r", 1.0)), "<g r=\"1.0\"><b/></g>");
  EXPECT_EQ(textElement("th", "a & b") + element("td", ""), "<th>a &amp; b</th><td></td>");
  EXPECT_EQ(startTag("body") + startTag("div", attributes("id", "d")), "<body><div id=\"d\">");
}

TEST(Markup, RoundsNumbers) {
  EXPECT_EQ(showNumber(1.25, 1), "1.2");
  EXPECT_EQ(showNumber(-0.5, 0), "-0");
  EXPECT_EQ(showNumber(3, 2), "3.00");
}

} // namespace
