// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Generate/BeamSearch.h"
#include "sluice/Support/Error.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

using Tokens = std::vector<int32_t>;

/// Logits of tokens 0, 1, 2 and 3 whose probabilities are proportional to `odds`.
std::vector<float> getLogits(const std::vector<double> &odds) {
  std::vector<float> logits;
  for (double odd : odds) {
    logits.push_back(static_cast<float>(std::log(odd)));
  }
  return logits;
}

/// Extends each hypothesis of `beam` with the odds of its row.
void advance(Beam &beam, const std::vector<std::vector<double>> &odds) {
  std::vector<float> logits;
  for (const std::vector<double> &row : odds) {
    std::vector<float> one = getLogits(row);
    logits.insert(logits.end(), one.begin(), one.end());
  }
  auto ids = static_cast<int64_t>(odds.front().size());
  beam.advance(logits, ids, ids);
}

std::vector<Tokens> getTokens(const Beam &beam) {
  std::vector<Tokens> all;
  for (const Beam::Hypothesis &each : beam.hypotheses()) {
    all.push_back(each.tokens);
  }
  return all;
}

TEST(Beam, KeepsTheMostProbableHypotheses) {
  Beam beam({.width = 2}, {7}, 9);
  advance(beam, {{1, 4, 3, 2}});
  EXPECT_EQ(getTokens(beam), (std::vector<Tokens>{{7, 1}, {7, 2}}));
  // 0.4 * 0.3 < 0.3 * 0.9: both children have the second parent.
  advance(beam, {{0.3, 0.2, 0.25, 0.25}, {0.45, 0.45, 0.05, 0.05}});
  EXPECT_EQ(getTokens(beam), (std::vector<Tokens>{{7, 2, 0}, {7, 2, 1}}));
  EXPECT_EQ(beam.hypotheses()[1].parent, 1u);
  EXPECT_NEAR(beam.hypotheses()[0].logProbability, std::log(0.3 * 0.45), 1e-6);
  EXPECT_FALSE(beam.isDone());
}

TEST(Beam, BreaksTiesByHypothesisAndToken) {
  Beam beam({.width = 3}, {7}, 9);
  advance(beam, {{1, 1, 1, 1}});
  EXPECT_EQ(getTokens(beam), (std::vector<Tokens>{{7, 0}, {7, 1}, {7, 2}}));
  advance(beam, {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}});
  EXPECT_EQ(getTokens(beam), (std::vector<Tokens>{{7, 0, 0}, {7, 0, 1}, {7, 0, 2}}));
}

/// The end finishes a hypothesis only among the first `width` pairs; the search is done with
/// `width` of them.
TEST(Beam, FinishesHypothesesAmongTheFirstPairs) {
  Beam beam({.width = 2, .lengthPenalty = 0, .end = 3}, {7}, 9);
  advance(beam, {{0.4, 0.3, 0.05, 0.25}}); // the end is third
  EXPECT_FALSE(beam.best().isFinished);
  EXPECT_EQ(getTokens(beam), (std::vector<Tokens>{{7, 0}, {7, 1}}));
  advance(beam, {{0.1, 0.15, 0.15, 0.6}, {0.45, 0.25, 0.25, 0.05}}); // 0.24; 0.135
  EXPECT_TRUE(beam.best().isFinished);
  EXPECT_EQ(beam.best().tokens, (Tokens{7, 0, 3}));
  EXPECT_NEAR(beam.best().score, std::log(0.24), 1e-6);
  EXPECT_EQ(getTokens(beam), (std::vector<Tokens>{{7, 1, 0}, {7, 1, 1}}));
  EXPECT_FALSE(beam.isDone());
  advance(beam, {{0.05, 0.05, 0.05, 0.85}, {0.3, 0.3, 0.3, 0.1}});
  EXPECT_TRUE(beam.isDone());
  EXPECT_EQ(beam.best().tokens, (Tokens{7, 0, 3}));
}

TEST(Beam, DividesByThePowerOfTheLength) {
  for (double penalty : {0.0, 2.0}) {
    Beam beam({.width = 2, .lengthPenalty = penalty, .end = 3}, {7}, 9);
    advance(beam, {{0.3, 0.2, 0.1, 0.4}});                          // ends: log 0.4
    advance(beam, {{0.02, 0.04, 0.04, 0.9}, {0.3, 0.3, 0.3, 0.1}}); // ends: log 0.27 / 2^penalty
    EXPECT_TRUE(beam.isDone());
    EXPECT_EQ(beam.best().tokens, penalty == 0 ? (Tokens{7, 3}) : (Tokens{7, 0, 3}));
    EXPECT_NEAR(beam.best().score, penalty == 0 ? std::log(0.4) : std::log(0.27) / 4, 1e-6);
  }
}

TEST(Beam, EndsAtTheLimit) {
  Beam beam({.width = 2, .lengthPenalty = 1, .end = 3}, {7, 7}, 2);
  advance(beam, {{0.4, 0.3, 0.2, 0.1}});
  EXPECT_FALSE(beam.isDone());
  advance(beam, {{0.4, 0.3, 0.2, 0.1}, {0.4, 0.3, 0.2, 0.1}});
  EXPECT_TRUE(beam.isDone());
  EXPECT_FALSE(beam.best().isFinished);
  EXPECT_EQ(beam.best().tokens, (Tokens{7, 7, 0, 0}));
  EXPECT_NEAR(beam.best().score, std::log(0.16) / 2, 1e-6);
}

TEST(Beam, ExcludesAnEarlyEndAndRepetitions) {
  Beam early({.width = 1, .minTokens = 1, .end = 3}, {7}, 9);
  advance(early, {{0.1, 0.1, 0.2, 0.6}});
  EXPECT_EQ(getTokens(early), (std::vector<Tokens>{{7, 2}}));
  EXPECT_NEAR(early.hypotheses()[0].logProbability, std::log(0.2), 1e-6); // not renormalized
  advance(early, {{0.1, 0.1, 0.2, 0.6}});
  EXPECT_EQ(early.best().tokens, (Tokens{7, 2, 3}));

  const std::vector<std::vector<double>> odds = {{8, 4, 2, 1}};
  Beam pairs({.width = 1, .noRepeat = 2}, {0, 0}, 9); // the prompt's pair is not the text's
  for (int step = 0; step < 6; ++step) {
    advance(pairs, odds);
  }
  EXPECT_EQ(pairs.best().tokens, (Tokens{0, 0, 0, 0, 1, 0, 2, 0}));
  Beam tokens({.width = 1, .noRepeat = 1}, {7}, 9);
  for (int step = 0; step < 4; ++step) {
    EXPECT_FALSE(tokens.isDone());
    advance(tokens, odds);
  }
  EXPECT_EQ(tokens.best().tokens, (Tokens{7, 0, 1, 2, 3}));
  advance(tokens, odds); // every token has probability 0
  EXPECT_TRUE(tokens.isDone());
  EXPECT_EQ(tokens.best().tokens, (Tokens{7, 0, 1, 2, 3}));
}

TEST(Beam, RejectsWrongOptionsAndNumbers) {
  EXPECT_THROW(checkBeam({.width = 0}), UserError);
  EXPECT_THROW(checkBeam({.lengthPenalty = -1}), UserError);
  EXPECT_THROW(checkBeam({.lengthPenalty = NAN}), UserError);
  EXPECT_THROW(checkBeam({.minTokens = -1}), UserError);
  EXPECT_THROW(checkBeam({.noRepeat = -1}), UserError);
  Beam beam({}, {7}, 9);
  EXPECT_THROW(beam.advance(std::vector<float>{0, NAN}, 2, 2), JobError);
}

/// Texts of bytes over a bigram model: z is the end, and more than one text waits for its turn.
TEST(Beam, WritesTextsWithoutTheirEnd) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  auto table = executor.tensor(executor.plan().tensors[0]);
  for (size_t i = 0; i < 26; ++i) { // letter x is followed by x + 1
    table[('a' + i) * 128 + 'a' + (i + 1) % 26] = 10;
  }
  std::vector<Text> texts = {{toTokens("v")}, {toTokens("ab")}};
  Predictor predictor(executor, true);
  ASSERT_FALSE(predictor.isCached());
  std::map<size_t, std::pair<std::string, StopReason>> found;
  TextSink sink{[&](size_t text, std::string_view bytes) {
                  found[text].first += bytes;
                  return true;
                },
                [&](size_t text, StopReason reason) { found[text].second = reason; }};
  searchTexts(executor, predictor, texts, 5, {.width = 3, .lengthPenalty = 0, .end = 'z'}, sink);
  EXPECT_EQ(found[0], std::pair(std::string("wxy"), StopReason::StopText));
  EXPECT_EQ(found[1], std::pair(std::string("cdefg"), StopReason::Length));
  EXPECT_EQ(texts[0].tokens, toTokens("vwxyz"));
  EXPECT_EQ(texts[0].drawn, 4);
  EXPECT_NEAR(*texts[0].score, -4 * std::log1p(127 * std::exp(-10)), 1e-4);
  std::vector<Text> full = {{Tokens(static_cast<size_t>(executor.plan().model.context + 1), 97)}};
  EXPECT_NE(userError([&] {
              searchTexts(executor, predictor, full, 5, {}, sink);
            }).find("leaves room in the context"),
            std::string::npos);
}

} // namespace
