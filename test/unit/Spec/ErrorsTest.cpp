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
            "no/such/spec.json: expected the spec, found no such file; check the path");
}

TEST(BadFile, IsAFolder) {
  Diagnostic error;
  EXPECT_FALSE(readFile(SPEC_ERRORS_DIR, error));
  EXPECT_EQ(error.format(), SPEC_ERRORS_DIR ": expected the spec, found a directory; name a file");
  EXPECT_EQ(error.location.line, 0u);
}

TEST(BadFile, IsADevice) {
  Diagnostic error;
  EXPECT_FALSE(readFile("/dev/zero", error));
  EXPECT_EQ(error.format(), "/dev/zero: expected the spec, found something not a regular file; "
                            "save the contents to a file and name that");
}

TEST(BadFile, IsEndless) {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "sluice-endless.json";
  std::ofstream(path) << "{";
  std::filesystem::resize_file(path, (size_t(16) << 20) + 1);
  Diagnostic error;
  EXPECT_FALSE(readFile(path, error));
  std::filesystem::remove(path);
  EXPECT_EQ(error.format(), path.string() + ": expected the spec to have at most 16777216 bytes, "
                                            "found 16777217; name another file");
}

} // namespace
