// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Progress lines of long jobs, with a clock that the test controls.
#include "Progress.h"
#include "TrainProgress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

using namespace sluice::cli;

namespace {

struct Screen {
  double now = 1000;
  std::ostringstream out;
  Progress progress;

  explicit Screen(bool isTerminal) : progress(out, isTerminal, [this] { return now; }) {}
  /// Permanent lines, in order.
  std::vector<std::string> lines() {
    progress.clear();
    std::vector<std::string> list;
    std::istringstream text(out.str());
    for (std::string line; std::getline(text, line);) {
      list.push_back(
          line.substr(line.rfind("\033[K") == std::string::npos ? 0 : line.rfind("\033[K") + 3));
    }
    std::erase(list, "");
    return list;
  }
};

/// Trains `steps` steps of `seconds` each; returns the lines.
std::vector<std::string> trainLines(bool isTerminal, int64_t steps, double seconds) {
  sluice::runtime::Plan plan;
  Screen screen(isTerminal);
  TrainProgress lines(screen.progress, plan);
  for (int64_t step = 1; step <= steps; ++step) {
    screen.now += seconds;
    lines.showStep({{"step", step}, {"loss", 1.0}}, steps);
  }
  return screen.lines();
}

TEST(ProgressLines, DurationsAreShort) {
  EXPECT_EQ(describeDuration(0), "0 s");
  EXPECT_EQ(describeDuration(41.2), "42 s");
  EXPECT_EQ(describeDuration(119), "119 s");
  EXPECT_EQ(describeDuration(150), "3 min");
  EXPECT_EQ(describeDuration(12000), "3 h 20 min");
  EXPECT_EQ(describeDuration(7199), "2 h 0 min");
  EXPECT_EQ(describeDuration(190800), "2 days 5 h");
}

// A fast run has few lines, a slow one has one per step: the time decides.
TEST(ProgressLines, AppearAtTimeIntervals) {
  EXPECT_EQ(trainLines(false, 100000, 0.001).size(), 2u + 3u); // 100 s
  EXPECT_EQ(trainLines(true, 100000, 0.001).size(), 2u + 19u);
  EXPECT_EQ(trainLines(false, 100, 50).size(), 100u);
  std::vector<std::string> lines = trainLines(false, 10, 0.1);
  ASSERT_EQ(lines.size(), 2u); // the first and the last
  EXPECT_TRUE(lines[0].starts_with("step 1/10  ")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with("step 10/10  ")) << lines[1];
}

TEST(ProgressLines, ReportTheTimeLeft) {
  std::vector<std::string> lines = trainLines(false, 100, 50);
  EXPECT_EQ(lines[0].find("left"), std::string::npos) << lines[0]; // no estimate yet
  EXPECT_TRUE(lines[3].ends_with("  1 h 20 min left")) << lines[3];
  EXPECT_EQ(lines[99].find("left"), std::string::npos) << lines[99];
}

TEST(ProgressLines, EvaluatedStepsAreShown) {
  sluice::runtime::Plan plan;
  Screen screen(false);
  TrainProgress lines(screen.progress, plan);
  for (int64_t step = 1; step <= 9; ++step) {
    nlohmann::json metrics = {{"step", step}, {"loss", 1.0}};
    if (step % 4 == 0) {
      metrics["eval_loss"] = 1.4;
      metrics["eval_bits_per_byte"] = 2.0;
    }
    lines.showStep(metrics, 10);
  }
  EXPECT_EQ(screen.lines().size(), 3u); // 1, 4 and 8
}

TEST(ProgressLines, ContrastHasBitsPerChunk) {
  sluice::runtime::Plan plan;
  Screen screen(false);
  TrainProgress lines(screen.progress, plan);
  nlohmann::json metrics = {{"step", 1},
                            {"loss", 1.0},
                            {"bits_per_chunk", 1.5},
                            {"eval_loss", nullptr},
                            {"eval_bits_per_chunk", nullptr}};
  lines.showStep(metrics, 2);
  EXPECT_NE(screen.lines()[0].find("  bits/chunk 1.5000  lr"), std::string::npos);
  EXPECT_TRUE(screen.lines()[0].ends_with("  held out: no chunk")) << screen.lines()[0];
  metrics["step"] = 2;
  metrics["eval_loss"] = metrics["eval_bits_per_chunk"] = metrics["eval_perplexity"] = 2.0;
  lines.showStep(metrics, 2);
  EXPECT_TRUE(screen.lines()[1].ends_with("  held out: bits/chunk 2.0000  perplexity 2.00"))
      << screen.lines()[1];
}

TEST(ProgressLines, RatesOfGroupsAreNamed) {
  sluice::runtime::Plan plan;
  Screen screen(false);
  TrainProgress lines(screen.progress, plan);
  lines.showStep({{"step", 1},
                  {"loss", 1.0},
                  {"learning_rate", 1e-3},
                  {"group_rates", {{"*.bias", 2e-3}}},
                  {"grad_norm", 0.5}},
                 10);
  EXPECT_NE(screen.lines()[0].find("  lr 1.00e-03, *.bias 2.00e-03  norm 0.500"), std::string::npos)
      << screen.lines()[0];
}

TEST(ProgressLines, LongStepsAndEvaluationsShowTheirParts) {
  sluice::runtime::Plan plan;
  Screen screen(false);
  TrainProgress lines(screen.progress, plan);
  for (int batch = 1; batch < 100; ++batch) {
    screen.now += 1;
    lines.showPart(4, 10, "of the batches", batch / 100.0, true);
  }
  ASSERT_EQ(screen.lines().size(), 3u);
  EXPECT_EQ(screen.lines()[0], "step 5/10  of the batches 30%  10 min left");
  for (int batch = 1; batch < 40; ++batch) {
    screen.now += 1;
    lines.showPart(5, 10, "evaluated", batch / 40.0, false);
  }
  EXPECT_TRUE(screen.lines()[3].starts_with("step 5/10  evaluated ")) << screen.lines()[3];
}

TEST(ProgressLines, OtherJobsReportToPipes) {
  Screen screen(false);
  for (int i = 1; i <= 100; ++i) {
    screen.now += 0.7;
    screen.progress.draw(i / 100.0, "evaluating");
  }
  ASSERT_EQ(screen.lines().size(), 2u);
  EXPECT_EQ(screen.lines()[0], "evaluating: 43%, 40 s left");
}

TEST(ProgressLines, RedrawTheBarOnATerminal) {
  Screen screen(true);
  screen.progress.draw(0.25, "evaluating");
  screen.now += 10;
  screen.progress.draw(0.5, "evaluating");
  EXPECT_NE(screen.out.str().find("\r\033[K[########........]  50% 20 s left  evaluating"),
            std::string::npos)
      << screen.out.str();
  EXPECT_EQ(std::ranges::count(screen.out.str(), '\n'), 0);
}

} // namespace
