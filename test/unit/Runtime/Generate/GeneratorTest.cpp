// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Support/Error.h"

#include <cmath>
#include <map>
#include <set>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

const std::vector<float> logits = {0, std::log(4.0f), std::log(2.0f),
                                   std::log(1.0f)}; // odds 1 4 2 1

int64_t pick(SamplingOptions options, double uniform) {
  return pickToken(logits, options, uniform);
}

TEST(Generator, SamplesInProportion) {
  // Most likely first: id 1 to 4/8, id 2 to 6/8, id 0 to 7/8, id 3.
  EXPECT_EQ(pick({}, 0), 1);
  EXPECT_EQ(pick({}, 0.499), 1);
  EXPECT_EQ(pick({}, 0.501), 2);
  EXPECT_EQ(pick({}, 0.749), 2);
  EXPECT_EQ(pick({}, 0.751), 0);
  EXPECT_EQ(pick({}, 0.876), 3);
  EXPECT_EQ(pick({}, 0.999999), 3);
}

TEST(Generator, TemperatureZeroIsGreedy) { EXPECT_EQ(pick({.temperature = 0}, 0.999), 1); }

TEST(Generator, TemperatureSharpens) {
  // Odds at temperature 1/2 are 1 16 4 1.
  EXPECT_EQ(pick({.temperature = 0.5}, 16.0 / 22 - 0.001), 1);
  EXPECT_EQ(pick({.temperature = 0.5}, 16.0 / 22 + 0.001), 2);
}

TEST(Generator, TopKAndTopPTruncateTheTail) {
  EXPECT_EQ(pick({.topK = 1}, 0.999), 1);
  EXPECT_EQ(pick({.topK = 2}, 0.999), 2);
  EXPECT_EQ(pick({.topK = 9}, 0.999), 3);
  EXPECT_EQ(pick({.topP = 0.49}, 0.999), 1);
  EXPECT_EQ(pick({.topP = 0.51}, 0.999), 2);
  EXPECT_EQ(pick({.topP = 0.76}, 0.999), 0);
}

TEST(Generator, MinPAndTypicalTruncateByProbability) {
  EXPECT_EQ(pick({.minP = 0.51}, 0.999), 1);
  EXPECT_EQ(pick({.minP = 0.49}, 0.999), 2);
  EXPECT_EQ(pick({.minP = 0.24}, 0.999), 3);
  // The entropy of 4/8 2/8 1/8 1/8 is 1.75 bits: id 2 is nearest with 2 bits, then id 1 with 1.
  EXPECT_EQ(pick({.typical = 0.24}, 0), 2);
  EXPECT_EQ(pick({.typical = 0.24}, 0.999), 2);
  EXPECT_EQ(pick({.typical = 0.26}, 0), 1);
  EXPECT_EQ(pick({.typical = 0.26}, 0.999), 2);
}

TEST(Generator, RepetitionsBecomeLessLikely) {
  auto greedy = [](std::vector<float> logits, double penalty, std::vector<int32_t> text) {
    return pickToken(logits, {.repetitionPenalty = penalty, .temperature = 0}, 0, text);
  };
  EXPECT_EQ(greedy({1, 3, 2}, 1, {1}), 1);
  EXPECT_EQ(greedy({1, 3, 2}, 1.6, {1}), 2);
  EXPECT_EQ(greedy({1, 3, 2}, 1.6, {1, 2}), 1);
  EXPECT_EQ(greedy({-3, -1, -2}, 2.5, {1}), 2);
}

/// The emitted bytes, and whether a stop text was found, when `text` arrives byte by byte.
std::pair<std::string, bool> filtered(const std::vector<std::string> &stops,
                                      const std::string &text) {
  StopFilter filter(stops);
  std::string free;
  for (char byte : text) {
    free += filter.push(static_cast<uint8_t>(byte));
    if (filter.found()) {
      return {free, true};
    }
  }
  return {free + filter.flush(), false};
}

TEST(Generator, WithholdsStopTexts) {
  using StopResult = std::pair<std::string, bool>;
  EXPECT_EQ(filtered({}, "abc"), StopResult("abc", false));
  EXPECT_EQ(filtered({"cd"}, "abcde"), StopResult("ab", true));
  EXPECT_EQ(filtered({"cd"}, "abcc"), StopResult("abcc", false));
  EXPECT_EQ(filtered({"aab"}, "aaaab"), StopResult("aa", true));
  EXPECT_EQ(filtered({"ababc"}, "abababc"), StopResult("ab", true));
  EXPECT_EQ(filtered({"b", "ab"}, "xab"), StopResult("x", true)); // the longer of two that end here
  EXPECT_EQ(filtered({"abcd", "bx"}, "abx"), StopResult("a", true));
  std::vector<std::string> stops = {"cd"};
  StopFilter filter(stops);
  EXPECT_EQ(filter.push('b'), "b");
  EXPECT_EQ(filter.push('c'), "");
  EXPECT_EQ(filter.push('x'), "cx");
}

TEST(Generator, SamplesHaveIndependentRandomNumbers) {
  EXPECT_EQ(drawUniform(1, 2, 3), drawUniform(1, 2, 3));
  std::set<double> all;
  for (int64_t sample = 0; sample < 10; ++sample) {
    for (int64_t token = 0; token < 10; ++token) {
      double uniform = drawUniform(1, sample, token);
      EXPECT_TRUE(uniform >= 0 && uniform < 1);
      all.insert(uniform);
    }
  }
  EXPECT_EQ(all.size(), 100u);
}

TEST(Generator, RejectsWrongOptionsAndNumbers) {
  EXPECT_THROW(checkSampling({.minP = -0.1}), UserError);
  EXPECT_THROW(checkSampling({.minP = 1.1}), UserError);
  EXPECT_THROW(checkSampling({.typical = 0}), UserError);
  EXPECT_THROW(checkSampling({.repetitionPenalty = 0}), UserError);
  EXPECT_THROW(checkSampling({.temperature = INFINITY}), UserError);
  EXPECT_THROW(checkSampling({.temperature = -1}), UserError);
  EXPECT_THROW(checkSampling({.temperature = NAN}), UserError);
  EXPECT_THROW(checkSampling({.topP = 0}), UserError);
  EXPECT_THROW(checkSampling({.topP = 1.1}), UserError);
  EXPECT_THROW(checkSampling({.topK = -1}), UserError);
  EXPECT_THROW(pickToken(std::vector<float>{0, NAN}, {}, 0), JobError);
}

/// A window grows until it is full; then it retains the newest tokens, at most half of the context
/// and complete groups.
TEST(Generator, RefillsTheWindowFromCompleteGroups) {
  EXPECT_EQ(windowStart(64, 0, 64, 4), 0);
  EXPECT_EQ(windowStart(65, 0, 64, 4), 36); // the first multiple of 4 from 33 on
  EXPECT_EQ(windowStart(100, 36, 64, 4), 36);
  EXPECT_EQ(windowStart(101, 36, 64, 4), 72);
  EXPECT_EQ(windowStart(200, 0, 64, 1), 168);
  EXPECT_EQ(windowStart(2, 0, 1, 1), 1);
  // A period longer than half of the context: the rest of the last one, never nothing.
  EXPECT_EQ(windowStart(17, 0, 16, 12), 12);
  EXPECT_EQ(windowStart(25, 0, 16, 12), 24);
  EXPECT_EQ(windowStart(24, 0, 16, 12), 12);
  // A period longer than the context.
  EXPECT_EQ(windowStart(12, 0, 8, 12), 8);
  EXPECT_EQ(windowStart(2, 0, 1, 2), 1);
  // At least 16 tokens: half of the context, the multiple before, what fits.
  EXPECT_EQ(windowStart(65, 0, 64, 16, 16), 48);
  EXPECT_EQ(windowStart(65, 0, 64, 16, 20), 32);
  EXPECT_EQ(windowStart(25, 0, 24, 16, 16), 9);
}

std::string generated(Executor &executor, const std::string &prompt, int64_t count,
                      SamplingOptions options) {
  std::string text;
  generate(executor, prompt, count, options, [&](uint8_t byte) {
    text += static_cast<char>(byte);
    return true;
  });
  return text;
}

/// Weights under which letter x is followed by x + 1, and z by a.
void teachAlphabet(Executor &executor) {
  auto table = executor.tensor(executor.plan().tensors[0]);
  for (size_t i = 0; i < 26; ++i) {
    table[('a' + i) * 128 + 'a' + (i + 1) % 26] = 10;
  }
}

TEST(Generator, FollowsTheModelPastTheContext) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  teachAlphabet(executor);
  EXPECT_EQ(generated(executor, "x", 30, {.temperature = 0}), "yzabcdefghijklmnopqrstuvwxyzab");
  EXPECT_EQ(generated(executor, easyText(50) + "c", 3, {.temperature = 0}), "def");
}

/// Ids are drawn as bytes are, and written as numbers; a stop text is found within a spelling.
TEST(Generator, WritesTokensByTheirSpelling) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  teachAlphabet(executor);
  auto write = [&](const TokenSpelling &spelling, const std::vector<std::string> &stops) {
    std::vector<Text> texts = {{parseTokenIds("--prompt-tokens", " 97  98 ", 128)}};
    Predictor predictor(executor, false);
    std::string written;
    TextSink sink{[&](size_t, std::string_view bytes) { return !(written += bytes).empty(); }};
    writeTexts(executor, predictor, texts, 3, {.temperature = 0}, stops, sink, spelling);
    return std::pair(written, texts.front().tokens);
  };
  const std::vector<int32_t> all = {97, 98, 99, 100, 101};
  EXPECT_EQ(write(spellIds(128), {}), std::pair(std::string("99 100 101 "), all));
  EXPECT_EQ(write({}, {}), std::pair(std::string("cde"), all));
  EXPECT_EQ(write({128,
                   [](std::span<const int32_t> text) {
                     return std::string("<") + char(text.back()) + ">";
                   }},
                  {"d"}),
            std::pair(std::string("<c><"), std::vector<int32_t>{97, 98, 99, 100}));
}

TEST(Generator, WritesWholeCharacters) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  teachAlphabet(executor);
  const std::map<int32_t, std::string> spelled = {
      {'c', "x\xe2"}, {'d', "\x82"}, {'e', "\xacy\xc3"}};
  Predictor predictor(executor, false);
  std::vector<Text> texts = {{toTokens("ab")}};
  std::vector<std::string> parts;
  TextSink sink{[&](size_t, std::string_view bytes) {
    parts.emplace_back(bytes);
    return true;
  }};
  TokenSpelling spelling{
      128, [&](std::span<const int32_t> text) { return spelled.at(text.back()); }, true};
  writeTexts(executor, predictor, texts, 3, {.temperature = 0}, {}, sink, spelling);
  EXPECT_EQ(parts, (std::vector<std::string>{"x", "\xe2\x82\xacy", "\xc3"}));
}

TEST(Generator, ParsesTokenIds) {
  EXPECT_EQ(parseTokenIds("--f", "5 0\t50256\n", 50257), (std::vector<int32_t>{5, 0, 50256}));
  EXPECT_EQ(parseTokenIds("--f", " ", 9), std::vector<int32_t>());
  for (const char *word : {"9", "-1", "1x", "+1", "1,2", "99999999999"}) {
    EXPECT_EQ(userError([&] { parseTokenIds("--f", "8 " + std::string(word), 9); }),
              "--f: word 2: expected a token id from 0 to 8, found \"" + std::string(word) +
                  "\"; separate ids by spaces, as in \"5 0 17\"");
  }
}

TEST(Generator, SameSeedGivesSameText) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 2);
  std::string one = generated(executor, "a", 40, {.seed = 1});
  EXPECT_EQ(one, generated(executor, "a", 40, {.seed = 1}));
  EXPECT_NE(one, generated(executor, "a", 40, {.seed = 2}));
}

TEST(Generator, StopsWhenTheReaderCloses) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  int count = 0;
  generate(executor, "a", 40, {}, [&](uint8_t) { return ++count < 3; });
  EXPECT_EQ(count, 3);
}

TEST(Generator, RejectsPromptsOutsideTheVocabulary) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  EXPECT_NE(userError([&] { generated(executor, "ab\xff", 1, {}); }).find("byte 2: "),
            std::string::npos);
  EXPECT_NE(userError([&] { generated(executor, "", 1, {}); }).find("at least one byte"),
            std::string::npos);
}

} // namespace
