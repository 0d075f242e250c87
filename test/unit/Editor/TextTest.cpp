// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Text.h"

#include <gtest/gtest.h>

using namespace sluice::editor;

namespace {

// e with acute: 2 bytes, 1 unit. Clef: 4 bytes, 2 units. Euro: 3 bytes, 1 unit.
const std::string mixed = "a\xC3\xA9"
                          "b\n\xF0\x9D\x84\x9E"
                          "c\xE2\x82\xAC"
                          "d";

TEST(Text, CountsCodeUnits) {
  Text text(mixed);
  EXPECT_EQ(text.position(3), (Position{0, 2}));  // b
  EXPECT_EQ(text.position(9), (Position{1, 2}));  // c, after the clef
  EXPECT_EQ(text.position(13), (Position{1, 4})); // d
}

TEST(Text, OffsetsRoundTrip) {
  Text text(mixed);
  for (size_t offset : {0, 1, 3, 4, 5, 9, 10, 13, 14}) {
    EXPECT_EQ(text.offset(text.position(offset)), offset);
  }
}

TEST(Text, ClampsPositionsPastTheEnd) {
  Text text(mixed);
  EXPECT_EQ(text.offset({0, 99}), 4u); // the end of the line, not the next one
  EXPECT_EQ(text.offset({99, 0}), mixed.size());
  EXPECT_EQ(text.position(99), text.position(mixed.size()));
  EXPECT_EQ(text.offset({1, 1}), 5u); // within the clef: before it
}

TEST(Text, LinesEndAsTheProtocolRequires) {
  Text text("a\r\nb\rc\nd");
  EXPECT_EQ(text.position(3), (Position{1, 0}));
  EXPECT_EQ(text.position(5), (Position{2, 0}));
  EXPECT_EQ(text.position(7), (Position{3, 0}));
  EXPECT_EQ(text.offset({0, 9}), 1u);
}

TEST(Text, ReaderLocationsCountBytesAndNewlines) {
  Text text(mixed);
  EXPECT_EQ(text.getOffsetAt(1, 4), 3u);
  EXPECT_EQ(text.getOffsetAt(2, 1), 5u);
  EXPECT_EQ(text.getOffsetAt(1, 99), 4u);
  EXPECT_EQ(text.getOffsetAt(0, 0), 0u);
  EXPECT_EQ(text.getOffsetAt(9, 1), mixed.size());
  EXPECT_EQ(Text("a\rb\nc").getOffsetAt(1, 3), 2u); // a carriage return is no line end there
}

TEST(Text, LongLinesCountOnce) {
  std::string line;
  while (line.size() < size_t(4) << 20) {
    line += mixed.substr(0, 4) + mixed.substr(5); // 13 bytes, 8 code units
  }
  Text text(line);
  for (size_t i = 0; i * 13 < line.size(); ++i) {
    EXPECT_EQ(text.position(i * 13), (Position{0, i * 8}));
  }
}

TEST(Text, EmptyTextHasOnePosition) {
  Text text("");
  EXPECT_EQ(text.position(0), (Position{0, 0}));
  EXPECT_EQ(text.offset({3, 3}), 0u);
  EXPECT_EQ(text.getOffsetAt(1, 1), 0u);
}

} // namespace
