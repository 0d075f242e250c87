// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/StrictJson.h"

#include <gtest/gtest.h>

using namespace sluice;
using sluice::Json;

namespace {

std::string nested(size_t levels) {
  return std::string(levels, '[') + "1" + std::string(levels, ']');
}

TEST(StrictJson, AgreesWithTheLibrary) {
  for (const char *text :
       {"null", "-1", "18446744073709551615", "1.5e3", "\"\\u00e9\"", "[]", "{}",
        R"({"a":[1,{"b":[true,null,"x"]},[]],"c":{"d":-2.5,"e":{}},"":0})", " [1 , 2 ]\n"}) {
    ParsedJson parsed = parseJson(text);
    EXPECT_EQ(parsed.problem, "") << text;
    EXPECT_EQ(parsed.value, Json::parse(text)) << text;
  }
}

TEST(StrictJson, ReportsTheLocationOfInvalidJson) {
  auto problem = [](const char *text) { return parseJson(text).problem; };
  EXPECT_EQ(problem(""), "text that is not JSON at line 1, column 1");
  EXPECT_EQ(problem("{\"a\": x}"), "text that is not JSON at line 1, column 7");
  EXPECT_EQ(problem("[1,\n 2,\n  ]"), "text that is not JSON at line 3, column 3");
  EXPECT_EQ(problem("1 2"), "text that is not JSON at line 1, column 3");
  EXPECT_EQ(problem("{\"a\": 1e999}"), "text that is not JSON at line 1, column 11");
  EXPECT_EQ(problem("[NaN]"), "text that is not JSON at line 1, column 2");
  EXPECT_EQ(parseJson(std::string_view("1\0x", 3)).problem,
            "text that is not JSON at line 1, column 2");
  EXPECT_EQ(problem("{\"a\": 1, \"b\": {\"c\": 0, \"c\": 0}}"),
            "an object with the key \"c\" twice");
}

// A deep value would overflow the stack when copied, compared or printed.
TEST(StrictJson, RejectsDepth) {
  EXPECT_EQ(parseJson(nested(64)).problem, "");
  EXPECT_EQ(parseJson(nested(65)).problem, "JSON that nests more than 64 levels deep");
  EXPECT_EQ(parseJson(nested(1000000)).problem, "JSON that nests more than 64 levels deep");
  std::string objects;
  for (int i = 0; i < 100000; ++i) {
    objects += "{\"a\":";
  }
  EXPECT_EQ(parseJson(objects).problem, "JSON that nests more than 64 levels deep");
  EXPECT_TRUE(parseJson(objects).value.is_null());
}

TEST(StrictJson, MessagesAreShortAndPrintable) {
  const std::string remedy = "; mend it";
  Json json = {{"k\033[2J" + std::string(100000, 'k'), 0}};
  try {
    StrictJson(json, "file", remedy).keys({});
    FAIL() << "expected a UserError";
  } catch (const UserError &error) {
    std::string message = error.what();
    EXPECT_LT(message.size(), 150u);
    EXPECT_EQ(message.find('\033'), std::string::npos);
    EXPECT_TRUE(message.ends_with("...; mend it")) << message;
  }
}

} // namespace
