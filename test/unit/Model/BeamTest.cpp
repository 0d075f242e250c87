// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Beam search over compiled models with random weights, compared with a search that is written here
// from the rule and reads log probabilities of complete forward passes.
#include "Harness.h"
#include "StepSpecs.h"
#include "sluice/Runtime/Generate/BeamSearch.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <tuple>

using namespace sluice::testing;
using sluice::runtime::BeamOptions;
using sluice::runtime::GivenLines;
using sluice::runtime::Predictor;
using sluice::runtime::Text;
using Ids = std::vector<int32_t>;

namespace {

/// Rows that generate at the same time: texts of the tests wait for them.
constexpr int64_t rows = 8;

/// Log probabilities after a text, by complete forward passes.
class ForwardPasses {
public:
  ForwardPasses(Model &model, GivenLines given) : model(model), given(std::move(given)) {}

  const std::vector<double> &at(const Ids &text) {
    auto [found, isNew] = known.try_emplace(text);
    if (isNew) {
      found->second = compute(text);
    }
    return found->second;
  }

private:
  std::vector<double> compute(const Ids &text) {
    Inputs inputs{.rows = 1, .length = std::ssize(text), .tokens = text};
    inputs.tokens.push_back(0);
    for (const auto &[name, input] : model.plan().given) {
      GivenTokens &line = inputs.given[name];
      line = {input.capacity, given.at(name), {std::ssize(given.at(name))}};
      line.tokens.resize(static_cast<size_t>(input.capacity));
    }
    std::vector<float> logits = model.predict(inputs);
    long double sum = 0;
    for (float logit : logits) {
      sum += std::exp(static_cast<long double>(logit));
    }
    std::vector<double> result;
    for (float logit : logits) {
      result.push_back(static_cast<double>(logit - std::log(sum)));
    }
    return result;
  }

  Model &model;
  GivenLines given;
  std::map<Ids, std::vector<double>> known;
};

struct ExpectedText {
  Ids ids; ///< of the continuation, with the end
  double score = 0;
  double margin = INFINITY; ///< the smallest difference that decided something
};

/// The score of a finished continuation.
double computeScore(double sum, size_t tokens, double penalty) {
  return sum / std::pow(static_cast<double>(tokens), penalty);
}

bool isAllowed(const Ids &ids, int32_t token, const BeamOptions &rule) {
  if (token == rule.end && std::ssize(ids) < rule.minTokens) {
    return false;
  }
  Ids longer = ids;
  longer.push_back(token);
  auto n = std::min(longer.size(), static_cast<size_t>(rule.noRepeat));
  if (rule.noRepeat == 0 || std::ssize(longer) <= rule.noRepeat) {
    return true;
  }
  // Searches for the last n-gram before its own place.
  return std::search(longer.begin(), longer.end() - 1, longer.end() - static_cast<long>(n),
                     longer.end()) == longer.end() - 1;
}

ExpectedText search(ForwardPasses &forward, const Ids &prompt, const BeamOptions &rule,
                    int64_t limit) {
  struct Partial {
    Ids ids;
    double sum;
  };
  std::vector<Partial> live = {{{}, 0}}, ended;
  ExpectedText answer;
  for (int64_t step = 0; step < limit && std::ssize(ended) < rule.width; ++step) {
    std::vector<std::tuple<double, size_t, int32_t>> pairs; // minus the sum, hypothesis, token
    for (size_t i = 0; i < live.size(); ++i) {
      Ids text = prompt;
      text.insert(text.end(), live[i].ids.begin(), live[i].ids.end());
      const std::vector<double> &nats = forward.at(text);
      for (size_t token = 0; token < nats.size(); ++token) {
        if (isAllowed(live[i].ids, static_cast<int32_t>(token), rule)) {
          pairs.emplace_back(-(live[i].sum + nats[token]), i, token);
        }
      }
    }
    std::ranges::sort(pairs);
    auto most = std::min(pairs.size(), static_cast<size_t>(2 * rule.width));
    for (size_t i = 0; i < most && i + 1 < pairs.size(); ++i) {
      answer.margin = std::min(answer.margin, std::get<0>(pairs[i + 1]) - std::get<0>(pairs[i]));
    }
    std::vector<Partial> next;
    for (size_t i = 0; i < most; ++i) {
      auto [minus, hypothesis, token] = pairs[i];
      Partial longer = {live[hypothesis].ids, -minus};
      longer.ids.push_back(token);
      if (token != rule.end) {
        if (std::ssize(next) < rule.width) {
          next.push_back(longer);
        }
      } else if (std::cmp_less(i, rule.width)) {
        ended.push_back(longer);
      }
    }
    if (next.empty()) {
      break;
    }
    live = next;
  }
  auto score = [&](const Partial &each) {
    return computeScore(each.sum, each.ids.size(), rule.lengthPenalty);
  };
  const Partial *best = ended.empty() ? &live.front() : &ended.front();
  for (const Partial &each : ended) {
    best = score(each) > score(*best) ? &each : best;
  }
  for (const Partial &each : ended) {
    if (&each != best) {
      answer.margin = std::min(answer.margin, score(*best) - score(each));
    }
  }
  answer.ids = best->ids;
  answer.score = score(*best);
  return answer;
}

constexpr const char *hourglass = R"json({"sluice": 1, "vocabulary": 9, "context": 22, "batch": 1,
  "width": 8, "defaults": {"heads": 2, "feed_forward": 8},
  "stages": [{"op": "embedding", "positions": "learned"},
    {"op": "hourglass", "hierarchy": "1@1 1@2 1@4 0@2 0@1"}, {"op": "layer", "mask": {"window": [0, 3]}},
    {"op": "head"}]})json";

std::vector<Text> getPrompts(const sluice::runtime::Plan &plan, std::mt19937_64 &random) {
  auto draw = [&](int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  std::vector<Text> texts(3);
  for (Text &text : texts) {
    for (int64_t i = 0; i < plan.model.context / 3; ++i) {
      text.tokens.push_back(static_cast<int32_t>(draw(plan.model.vocabulary)));
    }
    text.tokens.resize(static_cast<size_t>(1 + draw(std::ssize(text.tokens))));
    for (const auto &[name, input] : plan.given) {
      Ids &line = text.given[name];
      for (int64_t i = draw(input.capacity + 1); i > 0; --i) {
        line.push_back(static_cast<int32_t>(draw(input.vocabulary)));
      }
    }
  }
  return texts;
}

std::vector<Ids> searchAll(sluice::runtime::Executor &executor, bool cached,
                           std::vector<Text> texts, int64_t limit, const BeamOptions &rule) {
  std::vector<size_t> prompts;
  for (const Text &text : texts) {
    prompts.push_back(text.tokens.size());
  }
  Predictor predictor(executor, cached);
  EXPECT_EQ(predictor.isCached(), cached);
  searchTexts(executor, predictor, texts, limit, rule,
              {[](size_t, std::string_view) { return true; }},
              sluice::runtime::spellIds(executor.plan().model.vocabulary));
  std::vector<Ids> found;
  for (size_t i = 0; i < texts.size(); ++i) {
    found.emplace_back(texts[i].tokens.begin() + static_cast<long>(prompts[i]),
                       texts[i].tokens.end());
  }
  return found;
}

struct BeamModel {
  const char *name;
  std::string text;
};

/// Counts the lines whose results on the axes of named inputs are stored.
int64_t countStoredLines(sluice::runtime::Executor &executor) {
  int64_t stored = 0;
  for (const auto &[name, state] : executor.plan().generation->states) {
    for (int64_t line = 0; state.isByLine && line < rows; ++line) {
      auto bytes = executor.stateRow(state, line, sluice::runtime::Access::Read);
      bool isStored = std::ranges::any_of(bytes, [](uint8_t byte) { return byte != 0; });
      stored = isStored ? std::max(stored, line + 1) : stored;
    }
  }
  return stored;
}

class Searched : public ::testing::TestWithParam<BeamModel> {};

/// Steps and forward passes add in another order, so logits of magnitude 10 differ by some 2^-24
/// times 10 times the number of sums: decisions by less than 1e-5 are not compared.
constexpr double leastMargin = 1e-5;

TEST_P(Searched, FindsTheTextsOfTheRule) {
  Folder folder;
  std::string target = sluice::runtime::machineTargets().front();
  std::string spec = folder.write(std::string(GetParam().name) + ".json", GetParam().text);
  Model model(compileForGeneration(folder, spec, target, rows), target, 2);
  ASSERT_TRUE(model.plan().generation);
  int compared = 0, all = 0, ended = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    model.setWeights(randomWeights(model.shapes(), seed));
    auto draw = [&](uint64_t count) { return static_cast<int64_t>(random() % count); };
    BeamOptions rule{.width = 1 + draw(6),
                     .lengthPenalty = 0.6 * static_cast<double>(draw(4)),
                     .minTokens = draw(4),
                     .noRepeat = draw(4),
                     .end = static_cast<int32_t>(draw(model.plan().model.vocabulary))};
    std::vector<Text> texts = getPrompts(model.plan(), random);
    int64_t context = model.plan().model.context, limit = 1 + draw(context);
    std::vector<Ids> found = searchAll(model.executor(), /*cached=*/true, texts, limit, rule);
    std::vector<Ids> recomputed =
        seed % 8 == 0 ? searchAll(model.executor(), /*cached=*/false, texts, limit, rule) : found;
    for (size_t i = 0; i < texts.size(); ++i) {
      ForwardPasses forward(model, texts[i].given);
      const Ids &prompt = texts[i].tokens;
      ExpectedText expected =
          search(forward, prompt, rule, std::min(limit, context + 1 - std::ssize(prompt)));
      ++all;
      if (expected.margin < leastMargin) {
        continue;
      }
      ++compared;
      ended += expected.ids.back() == *rule.end ? 1 : 0;
      EXPECT_EQ(found[i], expected.ids) << "seed " << seed << ", text " << i;
      EXPECT_EQ(recomputed[i], expected.ids) << "seed " << seed << ", text " << i;
    }
  }
  // Beams of up to six hypotheses: three texts at once have three lines.
  EXPECT_EQ(countStoredLines(model.executor()), model.plan().given.empty() ? 0 : 3);
  EXPECT_GE(compared, all * 9 / 10);
  EXPECT_GE(ended, all / 8);
  EXPECT_LE(ended, all * 7 / 8);
}

INSTANTIATE_TEST_SUITE_P(Models, Searched,
                         ::testing::Values(BeamModel{"Hourglass", hourglass},
                                           BeamModel{"Words", words},
                                           BeamModel{"LastAndPredicted", lastAndPredicted},
                                           BeamModel{"Encoders", encoders}),
                         [](const auto &info) { return std::string(info.param.name); });

/// A beam as wide as all texts finds the best of all texts that end.
TEST(Beam, AsWideAsAllTextsFindsTheBest) {
  constexpr int64_t limit = 3;
  Folder folder;
  std::string target = sluice::runtime::machineTargets().front();
  std::string spec = folder.write("hourglass.json", hourglass);
  Model model(compileForGeneration(folder, spec, target, /*generationRows=*/0), target, 2);
  int64_t vocabulary = model.plan().model.vocabulary;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    model.setWeights(randomWeights(model.shapes(), seed));
    BeamOptions rule{.width = vocabulary * vocabulary * vocabulary,
                     .lengthPenalty = 0.5 * static_cast<double>(seed),
                     .end = static_cast<int32_t>(seed % 9)};
    std::vector<Text> texts = {{{1, 2, 3}}};
    ForwardPasses forward(model, {});
    Ids best;
    double highest = -INFINITY;
    std::vector<std::pair<Ids, double>> open = {{{}, 0}};
    while (!open.empty()) {
      auto [ids, sum] = open.back();
      open.pop_back();
      Ids text = texts.front().tokens;
      text.insert(text.end(), ids.begin(), ids.end());
      const std::vector<double> nats = forward.at(text);
      for (int32_t token = 0; token < vocabulary; ++token) {
        Ids longer = ids;
        longer.push_back(token);
        double all = sum + nats[static_cast<size_t>(token)];
        double score = computeScore(all, longer.size(), rule.lengthPenalty);
        if (token == *rule.end && score > highest) {
          best = longer;
          highest = score;
        } else if (token != *rule.end && std::ssize(longer) < limit) {
          open.emplace_back(longer, all);
        }
      }
    }
    EXPECT_EQ(searchAll(model.executor(), /*cached=*/false, texts, limit, rule).front(), best)
        << "seed " << seed;
  }
}

} // namespace
