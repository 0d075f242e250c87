// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The divergence monitor alone, on series of losses of good and diverging runs.
#include "sluice/Runtime/Train/Divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::runtime;

namespace {

const double uniform = std::log(256.0);

/// Losses of steps 1 to 2000; `noise` is normal with deviation 1.
using Series = std::function<double(int64_t step, double noise)>;

double falling(int64_t step, double from, double to) {
  return to + (from - to) * std::exp(-static_cast<double>(step) / 60);
}

struct Verdict {
  int64_t alarms = 0, recoveries = 0, firstAlarm = 0, since = 0;
};

Verdict judge(const Series &series, int64_t vocabulary = 256, unsigned seed = 1) {
  DivergenceJudge judge(vocabulary);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Verdict verdict;
  for (int64_t step = 1; step <= 2000; ++step) {
    TrendChange change = judge.add(step, series(step, normal(random)));
    verdict.recoveries += change == TrendChange::Recovered;
    if (change == TrendChange::Diverged && verdict.alarms++ == 0) {
      verdict.firstAlarm = step;
      verdict.since = judge.trend().since;
    }
  }
  return verdict;
}

struct Legitimate {
  const char *name;
  Series series;
  int64_t vocabulary = 256;
};

// The list of docs/running.md.
const Legitimate legitimate[] = {
    {"high initial loss",
     [](int64_t step, double noise) { return falling(step, 60, 1.5) + 0.1 * noise; }},
    {"start from given weights, other text",
     [](int64_t step, double noise) {
       return (step < 3 ? 1.1 : falling(step, 4, 1.3)) + 0.1 * noise;
     }},
    {"resumed at a ten times higher rate",
     [](int64_t step, double noise) {
       return (step < 1000 ? falling(step, 5.6, 1.4) : falling(step - 1000, 5.8, 1.6)) +
              0.1 * noise;
     }},
    {"warmup that overshoots the uniform guess",
     [](int64_t step, double noise) {
       return (step < 150 ? 5.5 + 4 * std::sin(static_cast<double>(step) / 50)
                          : falling(step, 20, 2)) +
              0.2 * noise;
     }},
    {"head's loss rises beside other losses",
     [](int64_t step, double noise) {
       return 1 + 4 * static_cast<double>(step) / 2000 + 0.1 * noise;
     }},
    {"negative losses that move",
     [](int64_t step, double noise) {
       return 3 * std::sin(static_cast<double>(step) / 100) -
              40 * (1 - std::exp(-static_cast<double>(step) / 300)) + 0.3 * noise;
     }},
    {"drawn factors",
     [](int64_t step, double noise) {
       return (step * 7919 % 3 == 0 ? 4.5 : 1.5) + falling(step, 2, 0) + 0.1 * noise;
     }},
    {"distillation at another temperature",
     [](int64_t step, double noise) {
       return (step < 800 ? falling(step, 5.6, 0.6) : 4.9) + 0.1 * noise;
     }},
    {"rare spikes of any height",
     [](int64_t step, double noise) {
       return step % 97 == 0    ? 1e30
              : step % 101 == 0 ? HUGE_VAL
                                : falling(step, 5.6, 1.2) + 0.1 * noise;
     }},
    {"updates whose rows all have the weight 0",
     [](int64_t step, double noise) {
       return step % 50 < 40 ? 0 : falling(step, 7, 5.8) + 0.1 * noise;
     }},
    {"two tokens, one row a batch",
     [](int64_t, double noise) { return std::abs(0.5 + 0.35 * noise); }, 2},
    {"a plateau at the uniform guess",
     [](int64_t step, double noise) { return (step < 1500 ? uniform : 1.5) + 0.02 * noise; }},
};

TEST(Divergence, ReportsNothingInNormalRuns) {
  for (const Legitimate &run : legitimate) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      EXPECT_EQ(judge(run.series, run.vocabulary, seed).alarms, 0) << run.name << ", seed " << seed;
    }
  }
}

struct Diverging {
  const char *name;
  Series series;
  int64_t from, latest; ///< the first bad loss, and the last step for the alarm
};

const Diverging diverging[] = {
    {"10 to 30 times the uniform guess",
     [](int64_t step, double noise) { return step < 100 ? 3.0 : uniform * (20 + 5 * noise); }, 100,
     130},
    {"in the billions, from the second step on",
     [](int64_t step, double) { return step == 1 ? uniform : 4.7e9; }, 2, 25},
    {"a little above the bound",
     [](int64_t step, double noise) {
       return (step < 500 ? 1.5 : 1.5 + 1.3 * uniform) + 0.1 * noise;
     },
     500, 560},
    {"slowly",
     [](int64_t step, double noise) {
       return (step < 500 ? 2 : 2 + 0.05 * static_cast<double>(step - 500)) + 0.1 * noise;
     },
     500, 700},
    {"infinite losses", [](int64_t step, double) { return step < 50 ? 3 : HUGE_VAL; }, 50, 80},
    {"below zero", [](int64_t step, double) { return step < 300 ? -30.0 : -20; }, 300, 350},
};

TEST(Divergence, ReportsPersistentHighLossOnce) {
  for (const Diverging &run : diverging) {
    Verdict verdict = judge(run.series);
    EXPECT_EQ(verdict.alarms, 1) << run.name;
    EXPECT_GE(verdict.since, run.from) << run.name;
    EXPECT_EQ(verdict.since, verdict.firstAlarm - 19) << run.name;
    EXPECT_LE(verdict.firstAlarm, run.latest) << run.name;
    EXPECT_EQ(verdict.recoveries, 0) << run.name;
  }
}

// The distance is ln V of the model: the same losses diverge with few tokens and not with many.
TEST(Divergence, ThresholdDependsOnTheVocabulary) {
  Series jump = [](int64_t step, double) { return step < 300 ? 1.0 : 4.0; };
  EXPECT_EQ(judge(jump, 8).alarms, 1);  // ln 8 = 2.08
  EXPECT_EQ(judge(jump, 32).alarms, 0); // ln 32 = 3.47
}

TEST(Divergence, NineteenStepsAreNotReported) {
  DivergenceJudge judge(2);
  judge.add(1, 1.0);
  int64_t step = 1;
  auto addUntil = [&](double loss, int64_t above) {
    while (judge.trend().above != above && step < 1000) {
      judge.add(++step, loss);
    }
  };
  addUntil(4, 19);
  EXPECT_FALSE(judge.trend().isDiverged());
  judge.add(++step, -60); // far below: the average is not above the bound anymore
  EXPECT_EQ(judge.trend().above, 0);
  EXPECT_FALSE(judge.trend().isDiverged());
  addUntil(4, 20);
  EXPECT_TRUE(judge.trend().isDiverged());
}

TEST(Divergence, ResetsWhenTheRunRecovers) {
  Verdict verdict =
      judge([](int64_t step, double) { return step >= 400 && step < 500 ? 50.0 : 2.0; });
  EXPECT_EQ(verdict.alarms, 1);
  EXPECT_EQ(verdict.recoveries, 1);
}

TEST(Divergence, ContinuesFromItsState) {
  for (const Diverging &run : diverging) {
    DivergenceJudge whole(256);
    for (int64_t step = 1; step <= 600; ++step) {
      DivergenceJudge restored(whole.trend());
      TrendChange change = whole.add(step, run.series(step, 0));
      ASSERT_EQ(restored.add(step, run.series(step, 0)), change) << run.name << ", step " << step;
      ASSERT_EQ(restored.trend().average, whole.trend().average);
      ASSERT_EQ(restored.trend().above, whole.trend().above);
    }
  }
}

} // namespace
