// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs every checker on some hundreds of random specs, and compiler and runtime on a few. More:
// scripts/fuzz.sh.
#include "Perturbation.h"
#include "SegmentTrial.h"
#include "SpecGenerator.h"
#include "Trial.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::fuzz;

TEST(Fuzz, TheCheckersAgree) {
  int proved = 0, leaks = 0, notProved = 0, unchanged = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::string text = generateSpec(seed, /*replaces=*/seed % 5 == 0);
    CheckerResults results = runCheckersWithReplay(text);
    for (const std::string &disagreement : results.disagreements) {
      ADD_FAILURE() << "seed " << seed << ": " << disagreement << "\n" << text;
    }
    const CausalVerdict &verdict = results.verdict;
    proved += verdict.isProved();
    leaks += verdict.kind == VerdictKind::Leak;
    notProved += verdict.kind == VerdictKind::NotProved;
    unchanged += verdict.witness && verdict.witness->replay == Replay::Unchanged;
  }
  EXPECT_GT(proved, 100);
  EXPECT_GT(leaks, 60);
  EXPECT_LE(notProved, 3);
  EXPECT_LE(unchanged, leaks / 20);
  std::printf("%d proved, %d leak (%d unchanged in the replay), %d not proved\n", proved, leaks,
              unchanged, notProved);
}

/// Rows that come from one of two streams have a latest read that neither stream has.
TEST(Fuzz, WitnessesOfReplacedRowsAreCorrect) {
  int witnesses = 0, changed = 0;
  for (uint64_t seed = 200'001; seed <= 200'150; ++seed) {
    WitnessResult result = verifyWitness(generateSpec(seed, /*replaces=*/true));
    EXPECT_TRUE(!result.exists || result.isPath) << "seed " << seed << ": " << result.message;
    witnesses += result.exists;
    changed += result.changesRow;
  }
  EXPECT_GT(witnesses, 25);
  EXPECT_GE(changed, witnesses - witnesses / 20); // a row of zeros, or none, reads the same
}

TEST(Fuzz, SegmentVerdictsAgreeWithEnumeration) {
  int proved = 0, leaks = 0;
  for (int levels : {1, 2}) {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      std::string text = generateSegmentedSpec(seed, levels);
      BoundaryResult result = enumerateBoundaries(text, levels == 1 ? 8 : 6);
      EXPECT_EQ(result.verdict.isProved(), !result.leaks) << text;
      ++(result.leaks ? leaks : proved);
    }
  }
  EXPECT_GT(proved, 25);
  EXPECT_GT(leaks, 15);
}

TEST(Fuzz, SegmentedSpecsContainEveryKey) {
  std::string all;
  for (int levels : {1, 2}) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      all += generateSegmentedSpec(seed, levels);
    }
  }
  for (const char *word :
       {"dynamic",    "spacebyte",   "hnet",    "blt",         "megabyte", "block_transformer",
        "attend",     "max",         "last",    "first",       "smooth",   "scatter",
        "whitespace", "space_like",  "entropy", "coding_rate", "top",      "predictor",
        "ratio",      "document_end"}) {
    EXPECT_NE(all.find('"' + std::string(word) + '"'), std::string::npos) << word;
  }
}

TEST(Fuzz, SpecsCompileAndTrain) {
  int done = 0;
  for (uint64_t seed = 1001; seed <= 1006; ++seed) {
    std::string text = generateSpec(seed);
    Trained trained = tryTraining(text, seed);
    EXPECT_NE(trained.kind, Trained::Failed) << trained.message << "\n" << text;
    done += trained.kind == Trained::Done;
  }
  EXPECT_GE(done, 4);
}

TEST(Fuzz, SameSeedGivesSameSpec) {
  EXPECT_EQ(generateSpec(7), generateSpec(7));
  EXPECT_NE(generateSpec(7), generateSpec(9));
}

TEST(Fuzz, ReductionPreservesTheFailure) {
  auto hasLayer = [](const std::string &text) {
    return text.find("\"layer\"") != std::string::npos;
  };
  std::string smaller =
      reduce(R"({"sluice": 1, "vocabulary": 5, "context": 8, "batch": 1, "width": 4,
    "defaults": {"heads": 1}, "stages": [{"op": "embedding"}, {"op": "norm"}, {"op": "layer"},
    {"op": "shift", "by": 1}, {"op": "head"}]})",
             hasLayer);
  EXPECT_TRUE(hasLayer(smaller));
  EXPECT_EQ(smaller.find("norm"), std::string::npos) << smaller;
  EXPECT_EQ(smaller.find("shift"), std::string::npos) << smaller;
}
