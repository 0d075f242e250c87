// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares exact reach sets with perturbation of the float64 reference, blind spots with
// enumeration at other lengths, and minimum causal shifts with enumeration of paths.
#include "sluice/Explain/Reach.h"
#include "Imported.h"
#include "sluice/Explain/BlindSpots.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"

#include "sluice/Dialect/Sluice/Reference.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {

/// Inputs of the head, for all rows, of the reference with fixed random weights.
std::vector<double> headRows(Imported &model, std::vector<int32_t> tokens, int64_t length) {
  reference::RuntimeValues setting;
  setting.length = length;
  reference::Evaluator<double> evaluator(*model.module, setting);
  std::mt19937_64 generator(3);
  for (auto parameter : model.module->getOps<ParameterOp>()) {
    std::vector<double> data(
        static_cast<size_t>(cast<RankedTensorType>(parameter.getType()).getNumElements()));
    for (double &number : data) {
      number = static_cast<double>(generator() >> 11) * 0x1p-53 - 0.5;
    }
    evaluator.setParameter(parameter.getSymName(), std::move(data));
  }
  evaluator.setTokens(model.evaluate().getArgument(0), std::move(tokens));
  EXPECT_TRUE(succeeded(evaluator.evaluate(model.evaluate())));
  return evaluator.getSequence(model.loss().getInput());
}

const char *const shapes[] = {
    R"({ "op": "hourglass", "hierarchy": "0@1 1@3 0@1" },)",
    R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@1", "shorten": "linear", "upsample": "linear" },)",
    R"({ "op": "hourglass", "hierarchy": "0@1 0@2 1@4 0@2 0@1" },)",
    R"({ "op": "layer", "mask": {"window": [1, 3]} }, { "op": "layer", "mask": {"window": [0, 2]} },)",
    R"({ "op": "shift", "by": 2 }, { "op": "norm" }, { "op": "layer", "mask": {"window": [2, 4]} },)",
    R"({ "op": "shorten", "factor": 3 }, { "op": "shift", "by": 1 }, { "op": "layer" },
       { "op": "upsample", "factor": 3 }, { "op": "shift", "by": 1 }, { "op": "add", "with": "x" },)",
    R"({ "op": "shift", "by": 3 }, { "op": "shorten", "factor": 4, "to": "c4" },
       { "op": "shift", "by": 1 }, { "op": "shorten", "factor": 2 }, { "op": "upsample", "factor": 2 },
       { "op": "add", "with": "c4" }, { "op": "upsample", "factor": 4 },)",
    R"({ "op": "shift", "by": 0 }, { "op": "shorten", "factor": 3 }, { "op": "upsample", "factor": 3 },)",
};

} // namespace

class ReachTest : public ::testing::TestWithParam<const char *> {};

/// Row t of the reference changes with token j if and only if (t, j) is in the reach set, also for
/// a leaking model.
TEST_P(ReachTest, EqualsDependencesOfThePerturbedReference) {
  Imported model(GetParam());
  int64_t seen = 0, unseen = 0;
  for (int64_t length : {1, 2, 5, 11, 12}) {
    ReachGraph graph(model.evaluate(), length);
    std::vector<int32_t> tokens(static_cast<size_t>(length) + 1);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>((3 * i + i / 7) % 7);
    }
    std::vector<double> before = headRows(model, tokens, length);
    size_t width = before.size() / static_cast<size_t>(length);
    for (int64_t token = 0; token < length; ++token) {
      std::vector<int32_t> changed = tokens;
      changed[static_cast<size_t>(token)] = (changed[static_cast<size_t>(token)] + 1) % 7;
      std::vector<double> after = headRows(model, changed, length);
      for (int64_t row = 0; row < length; ++row) {
        auto at = static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * width);
        bool differs =
            !std::equal(before.begin() + at, before.begin() + at + width, after.begin() + at);
        llvm::BitVector set =
            graph.sees(model.loss().getInput(), row).lookup(model.loss().getTokens());
        bool isSeen =
            token < static_cast<int64_t>(set.size()) && set.test(static_cast<unsigned>(token));
        ASSERT_EQ(isSeen, differs) << "length " << length << ", row " << row << ", token " << token;
        (isSeen ? seen : unseen) += 1;
      }
    }
  }
  EXPECT_GT(seen, 0);
  EXPECT_GT(unseen, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReachTest, ::testing::ValuesIn(shapes));

TEST(ReachTest, SeveralPositionsSeeTheUnion) {
  Imported model(shapes[0]);
  ReachGraph graph(model.evaluate(), 12);
  Value input = model.loss().getInput(), tokens = model.loss().getTokens();
  llvm::BitVector positions(12);
  positions.set(5);
  positions.set(7);
  llvm::BitVector both = graph.sees(input, 5).lookup(tokens);
  both |= graph.sees(input, 7).lookup(tokens);
  EXPECT_EQ(graph.sees(input, positions).lookup(tokens), both);
}

//===----------------------------------------------------------------------===//
// Blind spots
//===----------------------------------------------------------------------===//

namespace {

/// Text of the only blind spot, or "".
std::string findBlindSpot(const std::string &stages) {
  std::string text;
  for (const CausalWarning &warning : Imported(stages).check().warnings) {
    if (warning.kind == WarningKind::BlindSpot) {
      EXPECT_EQ(text, "") << "one warning for one cause";
      text = warning.text;
    }
  }
  return text;
}

} // namespace

/// Hourglass, appendix: in A#AB#BC#C the last token of a chunk is a copy of the one two before.
/// With k = 3 and no fine layers row 3m + 2 predicts token 3m + 3 without seeing token 3m + 1.
TEST(BlindSpots, ReportsTheExampleOfTheHourglassPaper) {
  std::string text = findBlindSpot(R"({ "op": "hourglass", "hierarchy": "0@1 2@3 0@1" },)");
  EXPECT_TRUE(has(text, "row 3m+2 never sees token 3m+1;")) << text;
  EXPECT_TRUE(has(text, "put a layer of the finest scale after this upsampling")) << text;
  EXPECT_EQ(findBlindSpot(R"({ "op": "hourglass", "hierarchy": "0@1 2@3 1@1" },)"), "");
}

TEST(BlindSpots, ReportsTheMinimumPeriod) {
  std::string text =
      findBlindSpot(R"({ "op": "hourglass", "hierarchy": "0@1 1@3 1@12 1@3 0@1" },)");
  EXPECT_TRUE(has(text, "row 3m+2 never sees token 3m+1;")) << text;
  EXPECT_TRUE(has(text, "the pattern repeats every 3 tokens")) << text;
}

TEST(BlindSpots, FineLayersWithoutSkipHaveABlindSpot) {
  std::string text = findBlindSpot(R"({ "op": "layer" }, { "op": "shift", "by": 3 },
    { "op": "shorten", "factor": 4 }, { "op": "layer" }, { "op": "upsample", "factor": 4 },)");
  EXPECT_TRUE(has(text, "rows 4m+1 to 4m+3 never see tokens 4m+1 to their own")) << text;
  EXPECT_TRUE(has(text, "add a stream of the finest scale")) << text;
}

TEST(BlindSpots, FineLayersWithSkipHaveNoBlindSpot) {
  EXPECT_EQ(findBlindSpot(R"({ "op": "hourglass", "hierarchy": "1@1 1@4 1@1" },)"), "");
  EXPECT_EQ(
      findBlindSpot(
          R"({ "op": "layer", "to": "y" }, { "op": "shift", "by": 3 }, { "op": "shorten", "factor": 4 },
    { "op": "upsample", "factor": 4 }, { "op": "add", "with": "y" },)"),
      "");
}

TEST(BlindSpots, ReportsWindowThatEndsEarly) {
  std::string text = findBlindSpot(R"({ "op": "layer", "mask": {"window": [0, 1]} },
    { "op": "layer", "mask": {"window": [3, 9]} },)");
  EXPECT_TRUE(has(text, "row t never sees tokens t-2 to t-1; begin this window at 0")) << text;
}

TEST(BlindSpots, ReportsBoundedContextAsANote) {
  CausalVerdict verdict = Imported(R"({ "op": "layer", "mask": {"window": [0, 16]} },
    { "op": "layer", "mask": {"window": [0, 16]} },)")
                              .check();
  EXPECT_TRUE(verdict.warnings.empty());
  ASSERT_EQ(verdict.notes.size(), 1u);
  EXPECT_EQ(verdict.notes[0].kind, WarningKind::BoundedContext);
  EXPECT_TRUE(has(verdict.notes[0].text, "row t sees nothing older than token t-30 "))
      << verdict.notes[0].text;
  EXPECT_TRUE(has(verdict.notes[0].format(), ": note: ")) << verdict.notes[0].format();
}

TEST(BlindSpots, IgnoresContextOfTheModelLength) {
  EXPECT_TRUE(
      Imported(R"({ "op": "layer", "mask": {"window": [0, 512]} },)").check().notes.empty());
}

TEST(BlindSpots, ReportsPatternsThatWereNotEnumerated) {
  CausalVerdict verdict =
      Imported(R"({ "op": "hourglass", "hierarchy": "0@1 1@1000003 0@1" },)").check();
  EXPECT_EQ(verdict.kind, VerdictKind::Proved);
  EXPECT_TRUE(verdict.warnings.empty());
  ASSERT_EQ(verdict.notes.size(), 1u);
  EXPECT_EQ(verdict.notes[0].kind, WarningKind::NotEnumerated);
  EXPECT_TRUE(has(verdict.notes[0].text, "paths reach further back than 2^20 tokens"))
      << verdict.notes[0].text;
}

namespace {

std::string pick(std::mt19937 &generator, std::vector<std::string> choices) {
  return choices[generator() % choices.size()];
}

/// Causal or larger shifts; any layers between; sometimes no skip.
std::string randomCausalStages(std::mt19937 &generator) {
  std::string stages;
  auto layer = [&] {
    stages += pick(generator, {"", R"({ "op": "layer" },)",
                               R"({ "op": "layer", "mask": {"window": [0, 3]} },)",
                               R"({ "op": "layer", "mask": {"window": [2, 4]} },)"});
  };
  layer();
  auto k = static_cast<int64_t>(2 + generator() % 3),
       by = static_cast<int64_t>(k - 1 + generator() % 3);
  stages += "{ \"op\": \"shift\", \"by\": " + std::to_string(by) +
            " }, { \"op\": \"shorten\", \"factor\": " + std::to_string(k) + " },";
  layer();
  if (generator() % 2) {
    stages += R"({ "op": "shift", "by": 1 }, { "op": "shorten", "factor": 2 },)";
    layer();
    stages += R"({ "op": "upsample", "factor": 2 },)";
  }
  stages += "{ \"op\": \"upsample\", \"factor\": " + std::to_string(k) + " },";
  if (generator() % 3) {
    stages += R"({ "op": "add", "with": "x" },)";
  }
  layer();
  return stages;
}

/// True if a row sees a token by the pattern, at most `nearby` tokens back.
bool patternSees(const BlindPattern &pattern, int64_t row, int64_t token) {
  const BlindPattern::BlindRow &of = pattern.rows[static_cast<size_t>(row % pattern.period)];
  int64_t offset = token - row / pattern.period * pattern.period;
  bool inHole = llvm::any_of(
      of.holes, [&](auto hole) { return hole.first <= offset && offset <= hole.second; });
  return !inHole && (of.oldest < 0 || row - token <= of.oldest);
}

} // namespace

/// A segment is visible from its last token on.
TEST(BlindSpots, SegmentsAreVisibleFromTheirLastToken) {
  Imported cut(R"({ "op": "boundaries", "name": "words", "rule": "every", "factor": 3 },
    { "op": "shorten", "segments": "words" }, { "op": "layer" },
    { "op": "upsample", "segments": "words" }, { "op": "add", "with": "x" },)");
  BlindPattern pattern = findBlindSpots(cut.loss());
  EXPECT_EQ(pattern.segments, "segments of 3 tokens");
  EXPECT_TRUE(pattern.repeats);
  EXPECT_EQ(pattern.describe(), "row 3m+1 never sees token 3m");
  // The fourth segment of 3 ends with token 11, which row 11 may read.
  ReachGraph graph(cut.evaluate(), 13);
  EXPECT_EQ(graph.sees(cut.loss().getInput(), 11).lookup(cut.loss().getTokens()).count(), 12u);
  EXPECT_EQ(graph.sees(cut.loss().getInput(), 10).lookup(cut.loss().getTokens()).count(), 10u);
  ReachGraph other(cut.evaluate(), 13, Boundaries{{4}});
  EXPECT_EQ(other.sees(cut.loss().getInput(), 10).lookup(cut.loss().getTokens()).count(), 6u);
}

/// The claim holds for rows and lengths that it was not derived from.
TEST(BlindSpots, PatternsHoldAtOtherLengths) {
  std::mt19937 generator(5);
  int withHoles = 0, without = 0, bounded = 0;
  for (int i = 0; i < 60; ++i) {
    std::string stages = randomCausalStages(generator);
    Imported model(stages);
    ASSERT_EQ(model.check().kind, VerdictKind::Proved) << stages;
    BlindPattern pattern = findBlindSpots(model.loss());
    ASSERT_TRUE(pattern.repeats) << stages;
    int64_t length = pattern.length + 2 * pattern.period + 1;
    ReachGraph graph(model.evaluate(), length);
    for (int64_t row = pattern.length; row < length; ++row) {
      llvm::BitVector tokens =
          graph.sees(model.loss().getInput(), row).lookup(model.loss().getTokens());
      tokens.resize(static_cast<unsigned>(length));
      for (int64_t token = 0; token < length; ++token) {
        bool sees = token <= row && patternSees(pattern, row, token);
        ASSERT_EQ(tokens.test(static_cast<unsigned>(token)), sees)
            << stages << " row " << row << ", token " << token << ": " << pattern.describe();
      }
    }
    (pattern.hasHoles() ? withHoles : without) += 1;
    bounded += pattern.rows[0].oldest >= 0;
  }
  EXPECT_GT(withHoles, 10);
  EXPECT_GT(without, 10);
  EXPECT_GT(bounded, 5);
}

//===----------------------------------------------------------------------===//
// Waste and dead stages
//===----------------------------------------------------------------------===//

namespace {
std::string buildChain(int64_t fine, int64_t coarse, int64_t after) {
  auto shift = [](int64_t by) {
    return "{ \"op\": \"shift\", \"by\": " + std::to_string(by) + " },\n";
  };
  return shift(fine) + "{ \"op\": \"shorten\", \"factor\": 4 },\n" + shift(coarse) +
         "{ \"op\": \"layer\" }, { \"op\": \"upsample\", \"factor\": 4 },\n" + shift(after) +
         "{ \"op\": \"add\", \"with\": \"x\" }, { \"op\": \"layer\" },";
}

bool leaksAtSomeLength(const std::string &stages) {
  Imported model(stages);
  for (int64_t length = 1; length <= 16; ++length) {
    if (findLeakAt(model.evaluate(), length, /*missing=*/true)) {
      return true;
    }
  }
  return false;
}
} // namespace

/// Lowers the last shift of the model first, then the ones before: each to the minimum that
/// enumeration finds causal. (A shift of 4 on the coarse scale is 4 tokens: all of a group.)
TEST(Waste, MinimumShiftsAgreeWithEnumeration) {
  int wasteful = 0;
  for (auto [fine, coarse, after] : {std::array{3, 0, 0},
                                     {9, 0, 0},
                                     {0, 1, 0},
                                     {0, 3, 0},
                                     {2, 0, 4},
                                     {5, 2, 1},
                                     {0, 0, 3},
                                     {0, 0, 7},
                                     {3, 1, 0},
                                     {1, 1, 1}}) {
    std::array<int64_t, 3> now = {fine, coarse, after}, least = now;
    for (int i = 2; i >= 0; --i) {
      auto causal = [&] { return !leaksAtSomeLength(buildChain(least[0], least[1], least[2])); };
      ASSERT_TRUE(causal());
      while (least[i] > 0) {
        --least[i];
        if (!causal()) {
          ++least[i];
          break;
        }
      }
    }
    CausalVerdict verdict = Imported(buildChain(fine, coarse, after)).check();
    std::vector<std::string> expected, found;
    bool areSeveral = int(least[0] < now[0]) + int(least[1] < now[1]) + int(least[2] < now[2]) > 1;
    std::string together = areSeveral ? ", with the other shifts at their smallest values" : "";
    for (int i = 0; i < 3; ++i) {
      if (least[i] < now[i]) {
        expected.push_back("a shift by " + std::to_string(now[i]) + " where " +
                           (least[i] ? std::to_string(least[i]) + " is enough" : "none is needed") +
                           " to be causal" + together +
                           "; with the smallest one, all that is read through it is " +
                           std::to_string((now[i] - least[i]) * (i == 1 ? 4 : 1)) + " token");
      }
    }
    for (const CausalWarning &warning : verdict.warnings) {
      if (warning.kind == WarningKind::Waste) {
        found.push_back(warning.text.substr(0, warning.text.rfind(" token") + 6));
      }
    }
    EXPECT_EQ(found, expected) << fine << " " << coarse << " " << after;
    wasteful += !expected.empty();
  }
  EXPECT_GE(wasteful, 5);
}

/// The levels shorten by 2 and by 3, so the first could shift by 1, but one key sets both.
TEST(Waste, KeyOfSeveralLevelsIsOneChange) {
  auto hourglass = [](const std::string &shift) {
    return R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@6 1@2 1@1", "shift": )" + shift + " },";
  };
  EXPECT_TRUE(Imported(hourglass("2")).check().warnings.empty());
  CausalVerdict verdict = Imported(hourglass("7")).check();
  ASSERT_EQ(verdict.warnings.size(), 1u);
  EXPECT_TRUE(has(verdict.warnings[0].text,
                  "a shift by 7 where 2 is enough to be causal (it is set for 2 levels at once); "
                  "with the smallest one, all that is read through all of them is 15 tokens newer"))
      << verdict.warnings[0].text;
  // Five positions of one token and five of two: the relations of the inner shortening.
  auto latestToken = [&](const char *shift) {
    Imported model(hourglass(shift));
    ReachGraph graph(model.evaluate(), 90);
    for (auto op : model.evaluate().getOps<ShortenOp>()) {
      if (op.getFactor() == 3) {
        return graph.sees(op.getResult(), 10).lookup(model.loss().getTokens()).find_last();
      }
    }
    return -1;
  };
  EXPECT_EQ(latestToken("2") - latestToken("7"), 15);
  EXPECT_EQ(Imported(hourglass("2")).check().kind, VerdictKind::Proved);
  EXPECT_EQ(Imported(hourglass("1")).check().kind, VerdictKind::Leak);
}

/// The edited spec is causal, and the hole is gone.
TEST(BlindSpots, RemedyRemovesTheBlindSpot) {
  const std::string late = R"({ "op": "shorten", "factor": 4 }, { "op": "layer" },
    { "op": "upsample", "factor": 4 }, { "op": "shift", "by": 3 },)";
  std::string text = findBlindSpot(late);
  EXPECT_TRUE(has(text, "blind spot: ")) << text;
  EXPECT_TRUE(
      has(text, "add the embedding's stream right before the head, then put a causal layer") ||
      has(text, "add a stream of the finest scale after this upsampling"))
      << text;
  EXPECT_EQ(findBlindSpot(late + R"({ "op": "add", "with": "x" }, { "op": "layer" },)"), "");
}

/// Lists parts that were not examined, and claims nothing about them.
TEST(Advice, StopsInTimeAndReportsWhere) {
  CausalVerdict verdict =
      Imported(R"({ "op": "hourglass", "hierarchy": "0@1 1@4 0@1", "shift": 5 },)").check(0);
  EXPECT_TRUE(verdict.isProved());
  auto note = llvm::find_if(verdict.notes, [](const CausalWarning &each) {
    return each.kind == WarningKind::Unfinished;
  });
  ASSERT_NE(note, verdict.notes.end());
  EXPECT_TRUE(has(note->text, "of 1 shift the last 0 were tried")) << note->text;
  EXPECT_STREQ(note->getName(), "unfinished");
  EXPECT_TRUE(note->isNote());
  EXPECT_TRUE(llvm::none_of(verdict.warnings, [](const CausalWarning &warning) {
    return warning.kind == WarningKind::Waste;
  }));
}

TEST(Waste, DoesNotChangeTheModule) {
  Imported model(buildChain(9, 2, 1));
  std::string before, after;
  llvm::raw_string_ostream(before) << *model.module;
  model.check();
  llvm::raw_string_ostream(after) << *model.module;
  EXPECT_EQ(before, after);
}

/// One cause, one warning: the hole is reported with its shift.
TEST(Waste, ReportsNeedlessShiftOnce) {
  CausalVerdict verdict = Imported(R"({ "op": "shift", "by": 1 }, { "op": "layer" },)").check();
  ASSERT_EQ(verdict.warnings.size(), 1u);
  EXPECT_EQ(verdict.warnings[0].kind, WarningKind::Waste);
  EXPECT_TRUE(has(verdict.warnings[0].text, "where none is needed")) << verdict.warnings[0].text;
}

TEST(DeadStages, ReportsTheLastStageOfADeadChain) {
  CausalVerdict verdict = Imported("{ \"op\": \"layer\" },\n{ \"op\": \"layer\" },\n"
                                   "{ \"op\": \"layer\", \"from\": \"x\" },")
                              .check();
  ASSERT_EQ(verdict.warnings.size(), 1u);
  EXPECT_EQ(verdict.warnings[0].kind, WarningKind::DeadStage);
  EXPECT_EQ(verdict.warnings[0].place.line, 5u) << verdict.warnings[0].format();
  EXPECT_TRUE(has(verdict.warnings[0].text, "so its weights are never trained"));
}

TEST(DeadStages, IgnoresShiftsWithoutWeights) {
  CausalVerdict verdict = Imported("{ \"op\": \"layer\", \"to\": \"y\" },\n"
                                   "{ \"op\": \"shift\", \"by\": 3 },\n"
                                   "{ \"op\": \"layer\", \"from\": \"y\" },")
                              .check();
  ASSERT_EQ(verdict.warnings.size(), 1u);
  EXPECT_EQ(verdict.warnings[0].text,
            "this stage's result reaches no loss; read it in a later stage, or remove it");
}
