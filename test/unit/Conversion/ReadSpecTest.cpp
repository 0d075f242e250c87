// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reader of specs reports its messages, and accepts every shipped model.
#include "Specs.h"

using namespace sluice;

namespace {

class BadSpec : public testing::TestWithParam<std::string> {};

TEST_P(BadSpec, ReportsExpectedMessage) {
  std::filesystem::path file = std::filesystem::path(SPEC_ERRORS_DIR) / GetParam();
  spec::Diagnostic error = readBad(readAll(file.string() + ".json"), GetParam() + ".json");
  EXPECT_EQ(error.format() + "\n", readAll(file.string() + ".expected"));
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << "a message is one line";
}
INSTANTIATE_TEST_SUITE_P(Corpus, BadSpec, testing::ValuesIn(listSpecs(SPEC_ERRORS_DIR)),
                         toTestName);

/// Stages after a composite one name segments of a stage inside it, on each level.
TEST(InnerSegments, AreNamedByLaterStages) {
  const char *const composites[][2] = {
      {R"({"op": "dynamic", "layers": [1, 1, 1], "boundaries": {"rule": "whitespace"}})",
       "dynamic"},
      {R"({"op": "blt", "layers": [1, 1, 1], "boundaries": {"rule": "whitespace", "name": "words"}})",
       "words"},
      {R"({"op": "spacebyte", "layers": [1, 1, 1]})", "spacebyte"},
      {R"({"op": "hnet", "layers": [1, [1, 1, 1], 1], "width": [8, 16]})", "hnet"}};
  for (auto [composite, name] : composites) {
    std::string method =
        std::string(name) == "hnet" || std::string(name) == "spacebyte" ? "first" : "last";
    std::string text =
        R"({"sluice": 1, "vocabulary": 256, "context": 16, "batch": 2, "width": 8, "defaults": {"heads": 2}, "stages": [
      {"op": "embedding"}, )" +
        std::string(composite) + R"(, {"op": "shorten", "segments": ")" + name +
        R"(", "method": ")" + method + R"("}, {"op": "layer"}, {"op": "upsample", "segments": ")" +
        name + R"("}, {"op": "head"}]})";
    readGood(text);
  }
}

/// A method that does not fit such segments is rejected after expansion.
TEST(InnerSegments, MethodsAreVerified) {
  std::string text =
      R"({"sluice": 1, "vocabulary": 256, "context": 16, "batch": 2, "width": 8, "defaults": {"heads": 2}, "stages": [
      {"op": "embedding"}, {"op": "spacebyte", "layers": [1, 1, 1]},
      {"op": "shorten", "segments": "spacebyte", "method": "last"}, {"op": "upsample", "segments": "spacebyte"}, {"op": "head"}]})";
  EXPECT_EQ(readBad(text, "spec.json").format(),
            "spec.json:3:60: expected \"average\", \"sum\", \"max\" or \"first\" for \"method\", "
            "as bits of "
            "\"spacebyte\" begin segments, found \"last\"; write \"first\"");
}

spec::Diagnostic readBadFile(const std::string &path) {
  spec::Diagnostic error;
  EXPECT_FALSE(parseSpecFile(getContext(), path, error));
  return error;
}

TEST(BadFile, RejectsMissingFile) {
  spec::Diagnostic error = readBadFile("no/such/spec.json");
  EXPECT_EQ(error.format(),
            "no/such/spec.json: expected the spec, found no such file; check the path");
}

TEST(BadFile, RejectsDirectory) {
  spec::Diagnostic error = readBadFile(SPEC_ERRORS_DIR);
  EXPECT_EQ(error.format(), SPEC_ERRORS_DIR ": expected the spec, found a directory; name a file");
  EXPECT_EQ(error.location.line, 0u);
}

TEST(BadFile, RejectsDevice) {
  spec::Diagnostic error = readBadFile("/dev/zero");
  EXPECT_EQ(error.format(), "/dev/zero: expected the spec, found something not a regular file; "
                            "save the contents to a file and name that");
}

TEST(BadFile, RejectsEndlessFile) {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "sluice-endless.json";
  std::ofstream(path) << "{";
  std::filesystem::resize_file(path, (size_t(16) << 20) + 1);
  spec::Diagnostic error = readBadFile(path);
  std::filesystem::remove(path);
  EXPECT_EQ(error.format(), path.string() + ": expected the spec to have at most 16777216 bytes, "
                                            "found 16777217; name another file");
}

} // namespace
