// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A bigram model reads only the previous token, so the correct results of the analyses are known.
#include "Fixture.h"

#include "sluice/Runtime/Analyze/Analyses.h"
#include "sluice/Support/Error.h"

#include <cmath>
#include <numbers>
#include <numeric>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class Analyses : public testing::Test {
protected:
  Analyses() : executor(bigramArtifact(folder), 2) {
    executor.scalarI64("seed") = 3;
    executor.run("initialize");
  }
  std::vector<ByteFile> read(const std::string &text) {
    writeFile(folder / "text", text);
    return readByteFiles({folder / "text"}, 128, 2, "");
  }
  /// Bits of `next` after `token`.
  double bits(uint8_t token, uint8_t next) {
    auto table = executor.tensor(executor.plan().tensors[0]);
    double sum = 0;
    for (size_t j = 0; j < 128; ++j) {
      sum += std::exp(table[token * 128u + j]);
    }
    return (std::log(sum) - table[token * 128u + next]) / std::numbers::ln2;
  }

  TemporaryFolder folder;
  Executor executor;
};

TEST_F(Analyses, BigramReadsOneTokenOfItsContext) {
  ContextResult result = measureContext(executor, read(easyText(333)), {.length = 12, .seed = 5});
  EXPECT_EQ(result.windows, 27);
  ASSERT_EQ(result.places.size(), 6u);
  EXPECT_GT(std::abs(result.places[0].increase()), 1e-4); // its token before was moved
  EXPECT_GT(result.places[0].error, 0);
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_EQ(result.places[i].distance, int64_t(i + 1));
    EXPECT_EQ(result.places[i].increase(), 0) << i;
  }
}

TEST_F(Analyses, TooFewSamplesHaveNoResult) {
  ContextResult one = measureContext(executor, read(easyText(12)), {.length = 12});
  EXPECT_EQ(one.windows, 1);
  EXPECT_TRUE(std::isnan(one.places[0].error));
  auto files = read(std::string(40, 'a')); // one word, cut
  SampleOptions options{
      .prompts = 1, .promptTokens = 8, .tokens = 24, .completions = 1, .sampling = {}};
  SampleResult none = measureSamples(executor, files, files, options);
  EXPECT_EQ(none.reference.words, 0);
  EXPECT_TRUE(std::isnan(none.reference.perplexity));
  EXPECT_NE(drawSamples(none, "m").find("reference</th><td>-<"), std::string::npos);
}

TEST_F(Analyses, ReportsSamplePositions) {
  std::string text = easyText(24);
  ContextResult result = measureContext(executor, read(text), {.length = 8});
  for (size_t i = 0; i < 4; ++i) {
    double expected = 0;
    for (size_t window : {0, 8, 16}) {
      size_t at = window + 4 + i;
      expected += bits(uint8_t(text[at - 1]), uint8_t(text[at])) / 3;
    }
    EXPECT_NEAR(result.places[i].plain, expected, 1e-4) << i;
  }
}

TEST_F(Analyses, ShufflesDependOnlyOnTheSeed) {
  auto files = read(easyText(200));
  auto increase = [&](uint64_t seed) {
    return measureContext(executor, files, {.seed = seed}).places[0].increase();
  };
  EXPECT_EQ(increase(1), increase(1));
  EXPECT_NE(increase(1), increase(2));
}

TEST_F(Analyses, SpreadsWindowsOverTheText) {
  ContextResult result =
      measureContext(executor, read(easyText(200)), {.length = 4, .mostWindows = 7});
  EXPECT_EQ(result.windows, 7);
  EXPECT_THROW(measureContext(executor, read(easyText(200)), {.length = 5}), UserError);
  EXPECT_THROW(measureContext(executor, read(easyText(200)), {.length = 18}), UserError);
  EXPECT_THROW(measureContext(executor, read(easyText(7)), {.length = 8}), UserError);
}

TEST_F(Analyses, BinsHoldEqualSharesAndAllTokens) {
  // 'a' has a half, 'b' a quarter, 'c' and 'd' the rest.
  std::string text = "abacabadabacabadabacabadabacabad";
  auto files = read(text);
  FrequencyResult result = measureFrequency(executor, files, files, 4);
  ASSERT_EQ(result.bins.size(), 4u);
  size_t kinds = 0;
  double shares = 0, sum = 0;
  int64_t scored = 0;
  for (const FrequencyResult::Bin &bin : result.bins) {
    kinds += bin.tokens.size();
    shares += bin.share;
    scored += bin.scored;
    sum += bin.bits * double(bin.scored);
  }
  EXPECT_EQ(kinds, 256u);
  EXPECT_NEAR(shares, 1, 1e-12);
  EXPECT_EQ(scored, int64_t(text.size()) - 1);
  // The middle of a's mass is a quarter: the second bin's first. Its share fills two.
  EXPECT_EQ(result.bins[0].scored, 0);
  EXPECT_EQ(result.bins[1].tokens, std::vector<int32_t>{'a'});
  EXPECT_EQ(result.bins[2].tokens, std::vector<int32_t>{'b'});
  double expected = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    expected += bits(uint8_t(text[i - 1]), uint8_t(text[i]));
  }
  EXPECT_NEAR(sum, expected, 1e-4 * expected);
  EXPECT_NE(drawFrequency(result, "<m>").find("&lt;m&gt;"), std::string::npos);
}

TEST_F(Analyses, SamplesAlignWithTheText) {
  auto files = read("the water and the land and the water and the sky and the land and the sea ");
  SampleOptions options{
      .prompts = 2, .promptTokens = 8, .tokens = 24, .completions = 3, .sampling = {}};
  SampleResult result = measureSamples(executor, files, files, options);
  EXPECT_EQ(result.prompts, 2);
  // "the wate" continues to "... the wate": 6 whole words after the cut one; then "r and th" to "
  // sea ", 5 after "th(e)".
  EXPECT_GT(result.reference.words, 8);
  EXPECT_GE(result.reference.perplexity, 1);
  EXPECT_LT(result.reference.perplexity, 5); // its own text was counted
  EXPECT_GT(result.reference.repeats[0], 0);
  EXPECT_GE(result.refBleu, 0);
  EXPECT_LT(result.refBleu, 0.5);
  EXPECT_EQ(measureSamples(executor, files, files, options).written.words, result.written.words);
  std::string page = drawSamples(result, "<m>");
  for (const char *part : {"&lt;m&gt;", "<svg", ">written<", ">reference<", "Ref-BLEU"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  EXPECT_THROW(measureCompletions(executor, files, options), UserError) << "of the next token";
  options.tokens = 500;
  EXPECT_THROW(measureSamples(executor, files, files, options), UserError);
}

} // namespace
