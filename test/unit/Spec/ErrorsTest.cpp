// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every bad spec in errors/NAME.json gives exactly the message in errors/NAME.expected.

#include "sluice/Spec/Spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace sluice::spec;

namespace {

std::string readAll(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(SPEC_ERRORS_DIR)) {
    if (entry.path().extension() == ".json") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class BadSpec : public testing::TestWithParam<std::string> {};

TEST_P(BadSpec, GivesItsMessage) {
  std::filesystem::path file = std::filesystem::path(SPEC_ERRORS_DIR) / GetParam();
  Diagnostic error;
  auto model = readText(readAll(file.string() + ".json"), GetParam() + ".json", error);
  ASSERT_FALSE(model) << "accepted";
  EXPECT_EQ(error.format() + "\n", readAll(file.string() + ".expected"));
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << "a message is one line";
}

INSTANTIATE_TEST_SUITE_P(Corpus, BadSpec, testing::ValuesIn(cases()), [](const auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(BadFile, IsNotThere) {
  Diagnostic error;
  EXPECT_FALSE(readFile("no/such/spec.json", error));
  EXPECT_EQ(error.format(),
            "no/such/spec.json: expected a spec that can be read, found No such file "
            "or directory; check the file's name");
}

TEST(BadFile, IsAFolder) {
  Diagnostic error;
  EXPECT_FALSE(readFile(SPEC_ERRORS_DIR, error));
  EXPECT_EQ(error.message, "expected a spec that can be read, found a folder; name a file in it");
  EXPECT_EQ(error.location.line, 0u);
}

TEST(BadFile, IsEndless) {
  Diagnostic error;
  EXPECT_FALSE(readFile("/dev/zero", error));
  EXPECT_EQ(error.message,
            "expected a spec that can be read, found more than 16 MiB; no spec is that long");
}

} // namespace
