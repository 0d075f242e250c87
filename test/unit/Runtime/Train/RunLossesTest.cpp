// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recommended and retained checkpoints of a run, and the runs that train to one: divergence, the
// best held-out loss, patience, rolling back.
#include "TrainerFixture.h"

#include "sluice/Runtime/Report/Report.h"
#include "sluice/Runtime/Train/RollBack.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cmath>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// A checkpoint with this moving average and loss.
CheckpointLosses checkpoint(int64_t step, double average, double own, double best,
                            std::optional<double> heldOut = {}) {
  RunLosses losses;
  losses.trend = {std::log(256.0), step, average, best, 1, 0, 0};
  losses.own = own;
  if (heldOut) {
    losses.heldOut.last = MeasuredLoss{step, *heldOut};
  }
  return {step, losses};
}

TEST(ChooseCheckpoint, SelectsNewestAmongEquallyGood) {
  std::vector<CheckpointLosses> list = {
      checkpoint(10, 2.5, 2.5, 2.5), checkpoint(20, 2.0, 2.0, 2.0), checkpoint(30, 2.2, 2.1, 1.9),
      checkpoint(40, 3.5, 4, 1.9), checkpoint(50, 9, 300, 1.9)};
  EXPECT_EQ(chooseSound(list)->step, 30);
  EXPECT_EQ(chooseBest(list)->step, 20);
  list = {checkpoint(5, 5.5, 317998, 5.5)}; // finite, but bad
  EXPECT_EQ(chooseSound(list), nullptr);
  list.insert(list.begin(), {1, std::nullopt}); // of an older version
  EXPECT_EQ(chooseSound(list)->step, 1);
  EXPECT_EQ(chooseSound({}), nullptr);
  EXPECT_EQ(chooseBest({}), nullptr);
}

TEST(ChooseCheckpoint, BestUsesHeldOutLoss) {
  std::vector<CheckpointLosses> list = {
      checkpoint(10, 2.5, 2.5, 2.5, 3.0), checkpoint(20, 2.0, 2.0, 2.0, 2.9),
      checkpoint(30, 1.0, 1.0, 1.0, 3.5), checkpoint(40, 0.5, 0.5, 0.5)};
  list.back().losses->heldOut.last = MeasuredLoss{35, 0.1}; // not of its own weights
  EXPECT_EQ(chooseBest(list)->step, 20);
  EXPECT_EQ(chooseSound(list)->step, 40);
}

TEST(ChooseCheckpoint, LossOfRecoveredCheckpointCountsAlone) {
  std::vector<CheckpointLosses> list = {checkpoint(20, 4.7, 4.73, 4.7),
                                        checkpoint(100, 30, 28, 4.7)};
  EXPECT_EQ(chooseSound(list)->step, 20);
  list.push_back(checkpoint(112, 12, 3.9, 4.7)); // the average lags
  EXPECT_EQ(chooseSound(list)->step, 112);
  list.back() = checkpoint(112, 12, 4.71, 4.7);
  EXPECT_EQ(chooseSound(list)->step, 20);
}

class RunLossesTest : public Trainer {
protected:
  TrainingOptions options(const std::string &name, int64_t steps) {
    TrainingOptions result;
    result.run = folder / name;
    result.data.data = {folder / "text"};
    result.steps = steps;
    result.saveEvery = 10;
    return result;
  }

  void evaluate(TrainingOptions &flags, int64_t every) {
    flags.heldOut.data = {folder / "heldout"};
    flags.evaluateEvery = every;
  }

  /// After the step `bad` each token predicts one that never follows: a loss of about `nats` per
  /// token, which Adam lowers by a rate of 0.05 per step. After the step `worst` nothing is finite.
  std::string run(const TrainingOptions &flags, int64_t bad = 0, float nats = 40,
                  int64_t worst = 0) {
    Executor executor(artifact, 1);
    std::string said;
    TrainingObserver observer;
    observer.message = [&](const std::string &text) { said += text + "\n"; };
    observer.step = [&](const Json &line, int64_t) {
      std::span<float> table = executor.tensor(executor.plan().tensors[0]);
      for (size_t token = 0; line["step"] == bad && token < 128; ++token) {
        table[token * 128 + 127] = nats;
      }
      if (line["step"] == worst) {
        table[size_t('a') * 128] = NAN;
      }
    };
    try {
      train(executor, flags, observer);
    } catch (const JobError &error) {
      said += std::string("error: ") + error.what() + "\n";
    }
    return said;
  }

  std::string getNotice(const std::string &name) {
    Executor executor(artifact, 1);
    std::string said;
    loadWeights(folder / name, executor, [&](const std::string &text) { said += text; });
    return said;
  }

  static size_t count(const std::string &text, const std::string &piece) {
    size_t number = 0;
    for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) {
      ++number;
    }
    return number;
  }
};

#define EXPECT_CONTAINS(text, piece) EXPECT_NE((text).find(piece), std::string::npos) << (text)

TEST_F(RunLossesTest, WarnsContinuesAndRetainsLastGoodCheckpoint) {
  TrainingOptions flags = options("run", 90);
  flags.keep = 2;
  std::string said = run(flags, 45);
  EXPECT_EQ(count(said, "warning: the training has diverged since step "), 2u) << said;
  EXPECT_CONTAINS(said,
                  "Training continues (--stop-on-divergence ends it); the checkpoint to continue "
                  "from is that of step 40 (loss ");
  EXPECT_CONTAINS(said, (folder / "run").string() + " --from 40 --set training.learning_rate=RATE");
  EXPECT_CONTAINS(said, (folder / "run/checkpoints/40").string() + " --out NEW");
  EXPECT_EQ(checkpointSteps(folder / "run"), (std::vector<int64_t>{40, 80, 90}));
  std::vector<Json> lines = metrics("run");
  EXPECT_FALSE(lines[59].contains("diverged")); // step 60
  EXPECT_EQ(lines[89]["diverged"], true);
  std::string notice = getNotice("run");
  EXPECT_CONTAINS(notice, "the latest checkpoint, that of step 90 (loss ");
  EXPECT_CONTAINS(notice, "is far worse than that of step 40 (loss ");
  EXPECT_EQ(getNotice("run/checkpoints/90"), "");
}

TEST_F(RunLossesTest, StopsOnDivergenceAfterACheckpoint) {
  TrainingOptions flags = options("a run", 90);
  flags.stopOnDivergence = true;
  std::string said = run(flags, 45);
  EXPECT_CONTAINS(said, "error: training stopped after step ");
  EXPECT_CONTAINS(said, "that of step 40 (loss ");
  EXPECT_EQ(count(said, "Training continues"), 0u) << said;
  EXPECT_CONTAINS(said, "--resume '" + (folder / "a run").string() + "' --from 40 ");
  EXPECT_CONTAINS(said, "--weights '" + (folder / "a run/checkpoints/40").string() + "' --out NEW");
  int64_t step = latestStep(folder / "a run");
  EXPECT_GT(step, 45 + 19);
  EXPECT_LT(step, 80);
  EXPECT_EQ(metrics("a run").back()["step"], step);
  flags.resume = true; // its state is in the checkpoint
  said = run(flags);
  EXPECT_CONTAINS(said, "error: training stopped after step " + std::to_string(step));
  EXPECT_CONTAINS(said, "; --no-stop-on-divergence continues");
  EXPECT_EQ(latestStep(folder / "a run"), step);
}

TEST_F(RunLossesTest, DoesNotCallLowerLossWorse) {
  run(options("run", 30));
  Path state = folder / "run/checkpoints/30/state.json";
  auto getNoticeOfOwn = [&](double own) {
    Json json = Json::parse(readFile(state));
    json["losses"]["average"] = 40;
    json["losses"]["own"] = own;
    json.erase("checksum");
    json["checksum"] = sha256Hex(asBytes(json.dump()));
    writeFile(state, json.dump(2) + "\n");
    return getNotice("run");
  };
  double own = *readTrainingState(folder / "run", 20).losses->own,
         best = readTrainingState(folder / "run", 30).losses->trend.best;
  EXPECT_CONTAINS(getNoticeOfOwn(std::max(own, best) + 0.1), " is far worse than that of step 20");
  EXPECT_EQ(getNoticeOfOwn(own), "");
  removeAll(folder / "run/checkpoints/10");
  removeAll(folder / "run/checkpoints/20");
  EXPECT_CONTAINS(getNoticeOfOwn(best + 0.1), " has diverged, and no checkpoint is good");
  EXPECT_EQ(getNoticeOfOwn(best), "");
}

TEST_F(RunLossesTest, DoesNotWarnInGoodRuns) {
  TrainingOptions flags = options("run", 90);
  evaluate(flags, 20);
  std::string said = run(flags, 45, 4); // a loss that rises by less than ln 128
  EXPECT_EQ(count(said, "warning"), 0u) << said;
}

// The monitor's count continues in the middle.
TEST_F(RunLossesTest, ResumedRunIsCheckedLikeAnUninterruptedOne) {
  TrainingOptions whole = options("whole", 90), split = options("split", 58);
  std::string said = run(whole, 45);
  run(split, 45);
  split.steps = 90;
  split.resume = true;
  std::string resumed = run(split, 45);
  EXPECT_EQ(metrics("whole"), metrics("split"));
  EXPECT_EQ(readFile(folder / "whole/checkpoints/90/state.json"),
            readFile(folder / "split/checkpoints/90/state.json"));
  EXPECT_EQ(said.substr(said.find("warning"), 60), resumed.substr(resumed.find("warning"), 60));
}

// "Finite" is not "good": the checkpoints between the divergence and its end are finite.
TEST_F(RunLossesTest, NeverRecommendsDivergedCheckpoint) {
  TrainingOptions flags = options("run", 90);
  flags.saveEvery = 4;
  flags.keep = 1;
  std::string said = run(flags, 22, 40, 31);
  EXPECT_CONTAINS(said,
                  "error: training stopped at step 32: the loss is nan, the gradient's norm nan,");
  EXPECT_CONTAINS(said, "the checkpoint to continue from is that of step 20 (loss ");
  EXPECT_CONTAINS(said, (folder / "run").string() + " --from 20 --set");
  flags.run = folder / "early"; // bad from the start
  said = run(flags, 2, 40, 7);
  EXPECT_CONTAINS(said, "no checkpoint is good: the last one is that of step 4 (loss ");
  EXPECT_EQ(count(said, "--from"), 0u) << said;
  EXPECT_CONTAINS(getNotice("early"), "has diverged, and no checkpoint is good: the loss was 4.");
}

// A run that continues from the newest checkpoint computes the same numbers, at any rate.
TEST_F(RunLossesTest, ReportsCheckpointBeforeTheCauseOfNaN) {
  TrainingOptions flags = options("run", 3);
  flags.saveEvery = 1;
  flags.keep = 1;
  auto trainToNaN = [&](bool isResumed) {
    Executor executor(artifact, 1);
    TrainingObserver observer;
    observer.step = [&](const Json &line, int64_t) {
      if (line["step"] == 2) { // its loss is finite, the gradient is not
        executor.tensor(executor.plan().tensors[1])[3] = 3e38f;
      }
    };
    flags.resume = isResumed;
    try {
      train(executor, flags, observer);
    } catch (const JobError &error) {
      return std::string(error.what());
    }
    return std::string("finished");
  };
  const std::string led = "the latest checkpoint, that of step 2, has the weights that led here; ";
  std::string said = trainToNaN(false);
  EXPECT_CONTAINS(said, "training stopped at step 3: ");
  EXPECT_CONTAINS(said, led + "the checkpoint to continue from is that of step 1 (loss ");
  EXPECT_CONTAINS(said, " --from 1 --set training.learning_rate=RATE");
  EXPECT_TRUE(isThere(folder / "run/checkpoints/1"));
  removeAll(folder / "run/checkpoints/1");
  said = trainToNaN(true);
  EXPECT_CONTAINS(said, led + "no other checkpoint is left; train again with --set");
}

TEST_F(RunLossesTest, RollsBackAndDeletesNothing) {
  run(options("straight", 60));
  TrainingOptions flags = options("run", 60);
  flags.samplePrompt = "a";
  flags.keep = 9;
  run(flags, 25);
  std::string spoiled = readFile(folder / "run/checkpoints/60/weights.safetensors");
  std::vector<Json> before = metrics("run");
  flags.resume = true;
  for (int64_t round = 1; round <= 3; ++round) {
    flags.from = 20;
    std::string said = run(flags);
    EXPECT_CONTAINS(said, "what came after step 20 moved to " +
                              (folder / "run/abandoned" / std::to_string(round)).string());
    EXPECT_EQ(metrics("run"), metrics("straight"));
    EXPECT_EQ(latestStep(folder / "run"), 60);
  }
  Path first = folder / "run/abandoned/1";
  EXPECT_EQ(checkpointSteps(first), (std::vector<int64_t>{30, 40, 50, 60}));
  EXPECT_EQ(readFile(first / "checkpoints/60/weights.safetensors"), spoiled);
  before.erase(before.begin(), before.begin() + 20);
  EXPECT_EQ(metrics("run/abandoned/1"), before);
  EXPECT_EQ(readLines(first / "samples.jsonl").size(), 1u);
  EXPECT_TRUE(readRunRecord(first));
  EXPECT_EQ(readLines(folder / "run/samples.jsonl").size(), 1u);
  EXPECT_NE(readFile(folder / "run/checkpoints/60/weights.safetensors"), spoiled);
}

TEST_F(RunLossesTest, RejectedRollBackChangesNothing) {
  TrainingOptions flags = options("run", 30);
  run(flags);
  flags.resume = true;
  flags.from = 15;
  std::string message = userError([&] { run(flags); });
  EXPECT_CONTAINS(
      message,
      "expected a run with a checkpoint of step 15, found steps 10, 20, 30; name one of them");
  EXPECT_FALSE(std::filesystem::exists(folder / "run/abandoned"));
  flags.from = 30; // nothing is later
  EXPECT_CONTAINS(run(flags), "nothing to do");
  EXPECT_FALSE(std::filesystem::exists(folder / "run/abandoned"));
  flags.from = 10;
  flags.steps = 10;
  EXPECT_CONTAINS(run(flags), "nothing to do");
  EXPECT_EQ(latestStep(folder / "run"), 10);
  EXPECT_EQ(metrics("run").size(), 10u);
  flags.from = 15;
  EXPECT_CONTAINS(userError([&] { run(flags); }),
                  "checkpoint of step 15, found step 10; name that");
}

TEST_F(RunLossesTest, DropsSettingsAfterTheStep) {
  TrainingOptions flags = options("run", 20);
  run(flags);
  RunRecord record = *readRunRecord(folder / "run");
  const std::string own = record.specHash;
  record.changes = {{5, {"training.clip=2"}, own},
                    {10, {"training.clip=3"}, "b"},
                    {15, {"training.clip=4"}, "c"}};
  writeRunRecord(folder / "run", record);
  EXPECT_EQ(readRunRecordAt(folder / "run", {})->changes.size(), 3u);
  EXPECT_EQ(readRunRecordAt(folder / "run", 10)->settings(),
            std::vector<std::string>{"training.clip=2"});
  flags.resume = true;
  flags.from = 10;
  std::string said = run(flags);
  EXPECT_CONTAINS(said, "settings that no longer hold: training.clip=3, training.clip=4");
  EXPECT_EQ(readRunRecord(folder / "run")->changes.size(), 1u);
}

TEST_F(RunLossesTest, SavesTheBestWhenEvaluated) {
  for (bool keepBest : {true, false}) {
    TrainingOptions flags = options(keepBest ? "kept" : "not", 250);
    evaluate(flags, 70);
    flags.saveEvery = 50;
    flags.keep = 1;
    flags.keepBest = keepBest;
    std::string said = run(flags, 80, 4);
    EXPECT_EQ(checkpointSteps(flags.run).front() == 70, keepBest);
    EXPECT_CONTAINS(said, "the held-out text was best after step 70, with ");
    EXPECT_EQ(count(said, "checkpoints/70 has its weights"), keepBest ? 1u : 0u) << said;
    EXPECT_EQ(count(said, "kept in addition to the newest ones: 193.5 KiB of disk"),
              keepBest ? 1u : 0u)
        << said;
    std::vector<Json> lines = metrics(keepBest ? "kept" : "not");
    if (keepBest) {
      TrainingState best = readTrainingState(flags.run, 70);
      EXPECT_EQ(best.losses->heldOut.last->nats, lines[69]["eval_loss"]);
      EXPECT_CONTAINS(getNotice("kept"), "is far worse than that of step 70: held-out text had ");
    }
  }
}

TEST_F(RunLossesTest, StopsWhenPatienceEnds) {
  TrainingOptions flags = options("run", 250);
  evaluate(flags, 7);
  flags.patience = 3;
  std::string said = run(flags, 30, 9);
  EXPECT_CONTAINS(said,
                  "training ends after step 49 of 250, as 3 evaluations gave nothing better: the "
                  "held-out text was best after step 28, with ");
  EXPECT_EQ(latestStep(folder / "run"), 49);
  flags.resume = true; // a wrapper that resumes forever
  said = run(flags);
  EXPECT_CONTAINS(said, "training ends after step 49 of 250");
  EXPECT_EQ(latestStep(folder / "run"), 49);
  flags.patience = 4;
  run(flags);
  EXPECT_EQ(latestStep(folder / "run"), 56);
  flags.heldOut.data.clear();
  EXPECT_CONTAINS(userError([&] { run(flags); }), "--patience: expected held-out text");
}

TEST_F(RunLossesTest, DoesNotCompareLossesOfOtherText) {
  TrainingOptions flags = options("run", 20);
  evaluate(flags, 4);
  flags.patience = 1;
  EXPECT_CONTAINS(run(flags, 13, 9), "training ends after step 16 of 20");
  writeFile(folder / "heldout", "qqqqzzzzqqqqzzzz0123456789qqqq");
  flags.resume = true;
  flags.steps = 30;
  run(flags);
  EXPECT_EQ(latestStep(folder / "run"), 30);
  EXPECT_EQ(readTrainingState(folder / "run").losses->heldOut.best->step, 30);
  EXPECT_CONTAINS(makeReport(folder / "run"), " at step 30</li>");
}

// A run of the previous version: no losses in its state.
TEST_F(RunLossesTest, ResumesRunOfOlderVersion) {
  run(options("straight", 60));
  TrainingOptions flags = options("run", 30);
  run(flags);
  for (int64_t step : {10, 20, 30}) {
    Path state = folder / "run/checkpoints" / std::to_string(step) / "state.json";
    Json json = Json::parse(readFile(state));
    json.erase("losses");
    json.erase("checksum");
    json["version"] = 1;
    json["checksum"] = sha256Hex(asBytes(json.dump()));
    writeFile(state, json.dump(2) + "\n");
  }
  flags.resume = true;
  flags.steps = 60;
  run(flags);
  EXPECT_EQ(metrics("straight"), metrics("run"));
  // Its metrics have all losses, so the monitor has the same data.
  EXPECT_EQ(readFile(folder / "straight/checkpoints/60/state.json"),
            readFile(folder / "run/checkpoints/60/state.json"));
}

} // namespace
