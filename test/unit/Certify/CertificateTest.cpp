// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prover, checker and enumeration of all paths agree on the same specs. The checker derives the
// graph independently, so a difference in the importer shows too.
#include "Corpus.h"
#include "SpecGenerator.h"

#include <random>

using namespace sluice::test;

namespace {

/// Expects the three verdicts to agree and returns them. Enumeration may decline
/// specs that take too long.
bool expectAgreement(const CorpusCase &subject) {
  certify::Answer answer = subject.check();
  EXPECT_EQ(answer.status, subject.proved ? 0 : 1) << subject.spec.name << answer.message;
  certify::Answer walked = enumerateSpec(subject.spec);
  if (walked.status != 2) {
    EXPECT_EQ(walked.status, subject.proved ? 0 : 1) << subject.spec.name << walked.message;
  }
  return subject.proved;
}

std::string pick(std::mt19937 &generator, const std::vector<std::string> &choices) {
  return choices[generator() % choices.size()];
}

std::string number(std::mt19937 &generator, int64_t least, int64_t most) {
  return std::to_string(
      least + static_cast<int64_t>(generator() % static_cast<uint64_t>(most - least + 1)));
}

/// Layer settings that change the graph.
std::string randomSettings(std::mt19937 &generator) {
  return pick(generator, {"", R"(, "placement": "post")", R"(, "activation": "swiglu")"}) +
         pick(generator, {"", "", R"(, "dropout": 0.5)", R"(, "attention_dropout": 0.5)"}) +
         pick(generator,
              {"", R"(, "mask": {"window": [0, 3]})", R"(, "mask": {"window": [1, 4]})"});
}

/// An hourglass of up to three scales; shifts that are too small one time in three.
std::string randomHourglass(std::mt19937 &generator) {
  int64_t k = 2 + static_cast<int64_t>(generator() % 3), f = k * (2 + generator() % 2);
  std::string ends = number(generator, 0, 1), inner = number(generator, 0, 1),
              middle = number(generator, 0, 2);
  std::string hierarchy = ends + "@1 ";
  hierarchy += generator() % 2 == 0
                   ? middle + "@" + std::to_string(k) + " "
                   : inner + "@" + std::to_string(k) + " " + middle + "@" + std::to_string(f) +
                         " " + inner + "@" + std::to_string(k) + " ";
  return R"("op": "hourglass", "hierarchy": ")" + hierarchy + ends + "@1\"" +
         pick(generator, {"", R"(, "shorten": "linear")", R"(, "upsample": "linear")"}) +
         pick(generator, {"", "", R"(, "shift": )" + number(generator, 1, 4)}) +
         randomSettings(generator);
}

/// Plain stages: shift, shorten, some between, upsample, add.
std::string randomStages(std::mt19937 &generator) {
  std::string k = number(generator, 1, 4), text;
  auto between = [&] {
    text +=
        pick(generator, {"", "", R"({"op": "norm"},)", R"({"op": "layers", "count": 2},)",
                         R"({"op": "dropout", "rate": 0.1},)", R"({"op": "shift", "by": 1},)",
                         R"({"op": "shorten", "factor": 2}, {"op": "upsample", "factor": 2},)"});
  };
  text += R"({"op": "shift", "by": )" + number(generator, 0, 6) + "},";
  between();
  text += R"({"op": "shorten", "factor": )" + k + R"(, "method": ")" +
          pick(generator, {"average", "linear"}) + "\"},";
  between();
  text += R"({"op": "upsample", "factor": )" + k + R"(, "method": ")" +
          pick(generator, {"repeat", "linear"}) + "\"},";
  return text + R"({"op": "add", "with": "fine"},)";
}

std::string randomSpec(std::mt19937 &generator) {
  std::string text = R"({"sluice": 1, "vocabulary": 5, "context": 64, "batch": 1, "width": 4,
  "defaults": {"heads": 1, "feed_forward": 2)" +
                     randomSettings(generator) + R"(}, "stages": [
    {"op": "embedding", "to": "fine")" +
                     pick(generator, {"", R"(, "positions": "learned")", R"(, "dropout": 0.1)"}) +
                     "},\n";
  for (int64_t i = generator() % 2; i >= 0; --i) {
    text += generator() % 2 == 0 ? "{" + randomHourglass(generator) + "},\n"
                                 : randomStages(generator) + "\n";
  }
  return text + R"({"op": "head"}]})";
}

} // namespace

TEST(Certificate, CertifiesCausalSpecs) {
  int count = 0;
  for (const char *folder : {"models", "test/causality/causal"}) {
    for (const std::string &path : specsUnder(folder)) {
      EXPECT_TRUE(expectAgreement(readCase(path))) << path;
      ++count;
    }
  }
  EXPECT_GT(count, 40);
}

TEST(Certificate, BoundsAgreeWithEnumerationOfPaths) {
  int walked = 0;
  for (const std::string &path : specsUnder("test/causality/causal")) {
    certify::Answer answer = readCase(path).check(/*enumerate=*/true);
    EXPECT_NE(answer.status, 1) << path << answer.message;
    walked += answer.status == 0;
  }
  EXPECT_GT(walked, 12);
}

TEST(Certificate, RejectsLeakySpecs) {
  int count = 0;
  for (const std::string &path : specsUnder("test/causality/leaky")) {
    EXPECT_FALSE(expectAgreement(readCase(path))) << path;
    ++count;
  }
  EXPECT_GT(count, 15);
}

TEST(Certificate, VerdictsAgreeOnRandomSpecs) {
  std::mt19937 generator(12);
  int proved = 0, refused = 0;
  for (int i = 0; i < 400 && !HasFailure(); ++i) {
    std::string text = randomSpec(generator);
    (expectAgreement(makeCase(text, text)) ? proved : refused) += 1;
  }
  EXPECT_GT(proved, 100);
  EXPECT_GT(refused, 100);
}

TEST(Certificate, VerdictsAgreeOnSpecsOfTheFuzzer) {
  int proved = 0, refused = 0;
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    std::string text = sluice::fuzz::generateSpec(seed);
    (expectAgreement(makeCase(text, text)) ? proved : refused) += 1;
  }
  EXPECT_GT(proved, 20);
  EXPECT_GT(refused, 5);
}

TEST(Certificate, CertifiesDeepSpecs) {
  CorpusCase deep =
      makeCase("deep.json", R"({"sluice": 1, "vocabulary": 5, "context": 64, "batch": 1,
  "width": 2, "stages": [{"op": "embedding"}, {"op": "hourglass", "heads": 1, "feed_forward": 2,
  "hierarchy": "24@1 48@4 24@1", "dropout": 0.1}, {"op": "head"}]})");
  EXPECT_EQ(deep.check().status, 0) << deep.check().message;
}

/// Their common period is 121,330,189 tokens.
TEST(Certificate, CertifiesGroupsOfFourLargeCoprimeFactors) {
  std::string stages;
  for (const char *factor : {"101", "103", "107", "109"}) {
    stages += R"({"op": "shorten", "factor": )" + std::string(factor) +
              R"(}, {"op": "layer"}, {"op": "upsample", "factor": )" + factor + "}, ";
  }
  CorpusCase groups =
      makeCase("groups.json",
               R"({"sluice": 1, "vocabulary": 7, "context": 512, "batch": 1,
  "width": 4, "defaults": {"heads": 2, "feed_forward": 4}, "stages": [{"op": "embedding"}, )" +
                   stages + R"({"op": "shift", "by": 500}, {"op": "layer"}, {"op": "head"}]})");
  EXPECT_EQ(groups.check().status, 0) << groups.check().message;
}

TEST(Certificate, RejectsPeriodsTooLongToEnumerate) {
  CorpusCase huge =
      makeCase("huge.json", R"({"sluice": 1, "vocabulary": 5, "context": 64, "batch": 1,
  "width": 2, "stages": [{"op": "embedding"}, {"op": "hourglass", "heads": 1, "feed_forward": 2,
  "hierarchy": "1@1 1@100000007 1@1"}, {"op": "head"}]})");
  certify::Answer answer = huge.check();
  EXPECT_EQ(answer.status, 1);
  EXPECT_NE(answer.message.find("refused: a limit of this checker: a period of more than"),
            std::string::npos)
      << answer.message;
}

TEST(Certificate, RejectsInvalidSpecs) {
  for (
      const char *text :
      {"", "{", "[]", "{}", R"({"sluice": 1, "stages": []})",
       R"({"sluice": 2, "stages": [{"op": "embedding"}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "head"}, {"op": "embedding"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "shift"}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "shift", "by": -1}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "shift", "by": 1, "by": 2}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "shift", "by": 1, "bye": 2}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "upsample", "factor": 2}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "add", "with": "none"}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "layer", "mask": {"window": [2, 2]}}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "1@1 1@4"}, {"op": "head"}]})",
       R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "hourglass", "hierarchy": "@"}, {"op": "head"}]})"}) {
    certify::Answer answer = certify::certify({"spec", text}, {"certificate", ""}, false);
    EXPECT_EQ(answer.status, 2) << text << answer.message;
  }
}

// Candidates are targets, which no stream may read; no loss has rows of segments.
TEST(Certificate, RejectsLossesOfOtherRows) {
  const std::string cut = R"({"op": "boundaries", "name": "w", "rule": "space_like")";
  std::pair<std::string, const char *> wrong[] = {
      {R"({"op": "contrast", "name": "rows", "candidates": "x"}, {"op": "boundaries", "name": "w",
          "rule": "entropy", "loss": "rows", "threshold": 1}, {"op": "shorten", "segments": "w"},
          {"op": "upsample", "segments": "w"}, {"op": "head"})",
       "an earlier loss"},
      {cut + R"(, "at": "start"}, {"op": "shorten", "segments": "w", "method": "first", "to": "y"},
          {"op": "contrast", "candidates": "y"})",
       "segments whose bits end them"},
      {cut + R"(}, {"op": "shorten", "segments": "w"}, {"op": "head"})", "a row for each token"}};
  for (const auto &[stages, expected] : wrong) {
    std::string text =
        R"({"sluice": 1, "stages": [{"op": "embedding", "to": "x"}, )" + stages + "]}";
    certify::Answer answer = certify::certify({"spec", text}, {"certificate", ""}, false);
    EXPECT_EQ(answer.status, 2) << text << answer.message;
    EXPECT_NE(answer.message.find(expected), std::string::npos) << answer.message;
  }
}

/// Rows of an input that read all later ones have no last row to walk to.
TEST(Certificate, EnumeratesReadsWithoutALastRow) {
  CorpusCase given = makeCase("given", R"({"sluice": 1, "vocabulary": 5, "context": 8, "batch": 1,
    "width": 4, "inputs": {"page": {"context": 8}}, "defaults": {"heads": 1, "feed_forward": 2},
    "stages": [{"op": "embedding", "to": "text"}, {"op": "embedding", "input": "page"},
    {"op": "recurrence", "direction": "backward", "to": "page"},
    {"op": "layer", "from": "text", "over": "page"}, {"op": "head"}]})");
  certify::Answer answer = given.check(/*enumerate=*/true);
  EXPECT_EQ(answer.status, 0) << answer.message;
}

// A value of another JSON type has a message of the checker's own, with the place of its object.
TEST(Certificate, RejectsValuesOfAnotherType) {
  std::pair<const char *, const char *> wrong[] = {
      {R"("op": "dynamic", "layers": [1, 1, 1], "boundaries": {}, "local": )", "stages.1.local"},
      {R"("op": "megabyte", "layers": [1, 1], "patch": 2, "global": )", "stages.1.global"},
      {R"("op": "dynamic", "layers": [1, 1, 1], "boundaries": )", "stages.1"},
      {R"("op": "spacebyte", "layers": [1, 1, 1], "boundaries": )", "stages.1.boundaries"},
      {R"("op": "hnet", "layers": [1, 1, 1], "boundaries": )", "stages.1"},
      {R"("op": "layer", "mask": "bidirectional", "within": )", "stages.1"}};
  for (auto [stage, place] : wrong) {
    for (const char *value : {"true", "1", R"("word")", "[1]"}) {
      std::string text = std::string(R"({"sluice": 1, "stages": [{"op": "embedding"}, {)") + stage +
                         value + R"(}, {"op": "head"}]})";
      certify::Answer answer = certify::certify({"spec", text}, {"certificate", ""}, false);
      EXPECT_EQ(answer.status, 2) << text << answer.message;
      EXPECT_TRUE(answer.message.starts_with("spec: " + std::string(place) + ": expected "))
          << text << answer.message;
    }
  }
}

// Each factor is a model to derive, so a list of factors needs a limit.
TEST(Certificate, RejectsMoreThan16Factors) {
  auto runAndGetStatus = [](const std::string &factors) {
    std::string spec = R"({"sluice": 1, "stages": [{"op": "embedding"}, {"op": "hourglass", )"
                       R"("hierarchy": "1@1 1@{)" +
                       factors + R"(} 1@1"}, {"op": "head"}]})";
    return certify::certify({"spec", spec}, {"certificate", ""}, false);
  };
  EXPECT_EQ(runAndGetStatus("2,3").status, 1); // a spec, and no certificate
  std::string many = "2";
  for (int i = 0; i < 100000; ++i) {
    many += ",2";
  }
  EXPECT_EQ(runAndGetStatus(many).status, 2);
  EXPECT_EQ(runAndGetStatus("99999999999999999999999,2").status, 2);
}
