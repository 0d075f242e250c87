// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The corpus of test/causality: causal models are proved, leaky ones refused at the right line.
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
  Judgement judgement = judgeFile(GetParam(), /*replay=*/false);
  EXPECT_EQ(judgement.verdict.kind, VerdictKind::Proved) << judgement.verdict.message;
  EXPECT_FALSE(judgement.leaks);
  EXPECT_TRUE(judgement.disagreements.empty()) << all(judgement.disagreements);
}

INSTANTIATE_TEST_SUITE_P(Corpus, Causal, ::testing::ValuesIn(corpus("test/causality/causal")),
                         [](const auto &info) { return getCaseName(info); });

TEST_P(Leaky, IsRejectedAtItsLine) {
  Expected expected = readExpected(GetParam());
  Judgement judgement = judgeFile(GetParam(), /*replay=*/true);
  const CausalVerdict &verdict = judgement.verdict;
  EXPECT_EQ(getCaseName(verdict.kind), expected.verdict) << verdict.message;
  EXPECT_EQ(verdict.place.line, expected.line) << verdict.message;
  EXPECT_NE(verdict.message.find(expected.words), std::string::npos) << verdict.message;
  if (!expected.mode.empty()) {
    EXPECT_EQ(verdict.refusedMode, expected.mode);
  }
  EXPECT_TRUE(judgement.disagreements.empty()) << all(judgement.disagreements);
  if (verdict.kind != VerdictKind::Leak) {
    return;
  }
  EXPECT_TRUE(judgement.leaks);
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
TEST_P(SegmentCorpus, HaveEqualVerdicts) {
  SegmentJudgement judgement = judgeSegmentSpec(GetParam(), 6);
  EXPECT_EQ(judgement.verdict.isProved(), !judgement.leaks) << judgement.verdict.message;
}

INSTANTIATE_TEST_SUITE_P(Corpus, SegmentCorpus,
                         ::testing::ValuesIn(corpus("test/causality/segments")),
                         [](const auto &info) { return getCaseName(info); });

class Refused : public ::testing::TestWithParam<std::string> {};

/// Reads that no relation shows, or late rows that no row reads: enumeration finds no leak.
TEST_P(Refused, IsNotProved) {
  Expected expected = readExpected(GetParam());
  Judgement judgement = judgeFile(GetParam(), /*replay=*/false);
  const CausalVerdict &verdict = judgement.verdict;
  EXPECT_EQ(getCaseName(verdict.kind), expected.verdict) << verdict.message;
  EXPECT_EQ(verdict.place.line, expected.line) << verdict.message;
  EXPECT_NE(verdict.message.find(expected.words), std::string::npos) << verdict.message;
  EXPECT_FALSE(judgement.leaks);
}

INSTANTIATE_TEST_SUITE_P(Corpus, Refused, ::testing::ValuesIn(corpus("test/causality/refused")),
                         [](const auto &info) { return getCaseName(info); });

TEST(Corpus, IsLargeEnough) {
  EXPECT_GE(corpus("test/causality/causal").size(), 60u);
  EXPECT_GE(corpus("test/causality/leaky").size(), 60u);
}
