// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/PlacedJson.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

JsonValue parse(std::string_view text) {
  JsonValue value;
  std::optional<JsonError> error = parsePlacedJson(text, {"a value", "file"}, value);
  EXPECT_FALSE(error) << error->message;
  return value;
}

/// "line:column message" of the first error.
std::string findError(std::string_view text) {
  JsonValue value;
  std::optional<JsonError> error = parsePlacedJson(text, {"a value", "file"}, value);
  return error ? std::to_string(error->position.line) + ":" +
                     std::to_string(error->position.column) + " " + error->message
               : "";
}

TEST(PlacedJson, HasLocationsOfKeysAndValues) {
  JsonValue value = parse("{\"b\": [1,\n  -2.50], \"a\":\"\\n\" }");
  ASSERT_EQ(value.members.size(), 2u);
  const JsonMember &first = value.members[0], &second = value.members[1];
  EXPECT_EQ(first.key, "b"); // in the order of the file
  EXPECT_EQ(first.value.position.column, 7u);
  const JsonValue &number = first.value.items[1];
  EXPECT_EQ(number.position.line, 2u);
  EXPECT_EQ(number.position.column, 3u);
  EXPECT_EQ(number.kind, JsonKind::Number);
  EXPECT_EQ(describe(number), "-2.50"); // as it was written
  EXPECT_EQ(second.position.column, 11u);
  EXPECT_EQ(second.value.position.column, 15u);
  EXPECT_TRUE(second.value.escaped);
  EXPECT_EQ(second.value.text, "\n");
}

TEST(PlacedJson, IntegersHave64Bits) {
  EXPECT_EQ(parse("9223372036854775807").integer, INT64_MAX);
  EXPECT_EQ(parse("-9223372036854775808").integer, INT64_MIN);
  JsonValue large = parse("9223372036854775808");
  EXPECT_EQ(large.kind, JsonKind::Number);
  EXPECT_EQ(large.number, 0x1p63);
}

TEST(PlacedJson, PointsAtTheFirstError) {
  EXPECT_EQ(findError("{\"a\": 1,\n \"a\": 2}"),
            "2:2 expected each key once, found \"a\" again (first at 1:2); remove one of the two");
  EXPECT_EQ(findError("[1, 2,]"), "1:7 expected a value after ',', found ']'; remove the comma "
                                  "before it");
  EXPECT_EQ(findError("[0x10]"), "1:3 expected ',' or ']', found 'x10'; JSON has decimal numbers "
                                 "only: write 16, not 0x10");
  EXPECT_EQ(findError(std::string(65, '[')),
            "1:65 expected at most 64 arrays and objects inside one another, found more; no file "
            "needs so many");
  EXPECT_EQ(findError("1 2"), "1:3 expected nothing after the end of the file, found '2'; remove "
                              "what follows");
  EXPECT_EQ(findError(""), "1:1 expected a value, found an empty file");
}

} // namespace
