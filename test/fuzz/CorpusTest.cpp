// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The corpus of test/causality: causal models are proved, leaky models are rejected at the expected
// line.
#include "Corpus.h"
#include "SegmentTrial.h"

#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::fuzz;

namespace {

std::string getCaseName(const ::testing::TestParamInfo<std::string> &info) {
  std::string name = std::filesystem::path(info.param).stem().string();
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

std::string all(const std::vector<std::string> &lines) {
  std::string text;
  for (const std::string &line : lines) {
    text += line + "\n";
  }
  return text;
}

const char *getCaseName(VerdictKind kind) {
  const char *names[] = {"proved", "leak", "not proved", "misaligned"};
  return names[static_cast<int>(kind)];
}

const char *getCaseName(Replay replay) {
  const char *names[] = {"not run", "changed", "unchanged"};
  return names[static_cast<int>(replay)];
}

class Causal : public ::testing::TestWithParam<std::string> {};
class Leaky : public ::testing::TestWithParam<std::string> {};

} // namespace

TEST_P(Causal, IsProved) {
  CheckerResults results = runCheckersOnFile(GetParam(), /*replay=*/false);
  EXPECT_EQ(results.verdict.kind, VerdictKind::Proved) << results.verdict.message;
  EXPECT_FALSE(results.leaks);
  EXPECT_TRUE(results.disagreements.empty()) << all(results.disagreements);
}

INSTANTIATE_TEST_SUITE_P(Corpus, Causal, ::testing::ValuesIn(corpus("test/causality/causal")),
                         [](const auto &info) { return getCaseName(info); });

TEST_P(Leaky, IsRejectedAtItsLine) {
  Expected expected = readExpected(GetParam());
  CheckerResults results = runCheckersOnFile(GetParam(), /*replay=*/true);
  const CausalVerdict &verdict = results.verdict;
  EXPECT_EQ(getCaseName(verdict.kind), expected.verdict) << verdict.message;
  EXPECT_EQ(verdict.place.line, expected.line) << verdict.message;
  EXPECT_NE(verdict.message.find(expected.words), std::string::npos) << verdict.message;
  if (!expected.mode.empty()) {
    EXPECT_EQ(verdict.refusedMode, expected.mode);
  }
  EXPECT_TRUE(results.disagreements.empty()) << all(results.disagreements);
  if (verdict.kind != VerdictKind::Leak) {
    return;
  }
  EXPECT_TRUE(results.leaks);
  ASSERT_TRUE(verdict.witness);
  EXPECT_EQ(getCaseName(verdict.witness->replay), expected.replay);
  ASSERT_FALSE(verdict.witness->path.empty());
  EXPECT_EQ(verdict.witness->path.back().to, verdict.witness->row);
  // A default is separate from the stages that a path goes through.
  bool passes =
      expected.isDefault ||
      std::any_of(verdict.witness->path.begin(), verdict.witness->path.end(),
                  [&](const CausalStep &step) { return step.place.line == expected.line; });
  EXPECT_TRUE(passes) << "the path avoids the line to be changed";
}

INSTANTIATE_TEST_SUITE_P(Corpus, Leaky, ::testing::ValuesIn(corpus("test/causality/leaky")),
                         [](const auto &info) { return getCaseName(info); });

class SegmentCorpus : public ::testing::TestWithParam<std::string> {};

/// Six tokens show every leak of these.
TEST_P(SegmentCorpus, AgreesWithEnumeration) {
  BoundaryResult result = enumerateFileBoundaries(GetParam(), 6);
  EXPECT_EQ(result.verdict.isProved(), !result.leaks) << result.verdict.message;
}

INSTANTIATE_TEST_SUITE_P(Corpus, SegmentCorpus,
                         ::testing::ValuesIn(corpus("test/causality/segments")),
                         [](const auto &info) { return getCaseName(info); });

class Rejected : public ::testing::TestWithParam<std::string> {};

/// Reads that no relation shows, or late rows that no row reads: enumeration finds no leak.
TEST_P(Rejected, IsNotProved) {
  Expected expected = readExpected(GetParam());
  CheckerResults results = runCheckersOnFile(GetParam(), /*replay=*/false);
  const CausalVerdict &verdict = results.verdict;
  EXPECT_EQ(getCaseName(verdict.kind), expected.verdict) << verdict.message;
  EXPECT_EQ(verdict.place.line, expected.line) << verdict.message;
  EXPECT_NE(verdict.message.find(expected.words), std::string::npos) << verdict.message;
  EXPECT_FALSE(results.leaks);
}

INSTANTIATE_TEST_SUITE_P(Corpus, Rejected, ::testing::ValuesIn(corpus("test/causality/rejected")),
                         [](const auto &info) { return getCaseName(info); });

TEST(Corpus, HasAtLeast60CausalAndLeakyModels) {
  EXPECT_GE(corpus("test/causality/causal").size(), 60u);
  EXPECT_GE(corpus("test/causality/leaky").size(), 60u);
}
