// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TrainerFixture.h"

#include "sluice/Runtime/Report/Report.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <zlib.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

TEST_F(Trainer, LearnsAndWritesTheRun) {
  TrainingOptions flags = options("run");
  flags.steps = 150;
  flags.samplePrompt = "a";
  EXPECT_EQ(run(flags), TrainingEnd::finished);
  std::vector<Json> lines = readLines(folder / "run/metrics.jsonl");
  ASSERT_EQ(lines.size(), 150u);
  for (const char *key :
       {"step", "loss", "bits_per_byte", "learning_rate", "grad_norm", "tokens_per_s"}) {
    EXPECT_TRUE(lines[3].contains(key)) << key;
  }
  EXPECT_TRUE(lines[4].contains("eval_bits_per_byte"));
  EXPECT_FALSE(lines[3].contains("eval_bits_per_byte"));
  EXPECT_NEAR(lines[0]["loss"], std::log(128.0), 0.1);
  EXPECT_LT(lines[149]["eval_bits_per_byte"], 0.6 * lines[4]["eval_bits_per_byte"].get<double>());
  EXPECT_EQ(readFile(folder / "run/spec.json"), artifact->plan().model.spec);
  EXPECT_EQ(readFile(folder / "run/latest"), "150\n");
  EXPECT_NE(makeReport(folder / "run").find("<polyline"), std::string::npos);
}

TEST_F(Trainer, ResumesExactly) {
  run(options("straight"));
  TrainingOptions flags = options("split");
  flags.steps = 10;
  run(flags);
  flags.steps = 20;
  flags.resume = true;
  run(flags);
  EXPECT_EQ(metrics("straight"), metrics("split"));
  EXPECT_EQ(metrics("straight").size(), 20u);
  for (const char *file : {"weights.safetensors", "optimizer.safetensors", "state.json"}) {
    EXPECT_TRUE(readFile(folder / "straight/checkpoints/20" / file) ==
                readFile(folder / "split/checkpoints/20" / file))
        << file;
  }
}

// A killed run has logged steps after its last checkpoint; the resumed run recomputes them and does
// not log them twice.
TEST_F(Trainer, ResumesExactlyAfterACrash) {
  run(options("straight"));
  TrainingObserver crash;
  crash.step = [](const Json &line, int64_t) {
    if (line["step"] == 13) {
      throw std::runtime_error("crash");
    }
  };
  EXPECT_THROW(run(options("crashed"), crash), std::runtime_error);
  EXPECT_EQ(readFile(folder / "crashed/latest"), "8\n");
  EXPECT_EQ(metrics("crashed").size(), 13u);
  TrainingOptions flags = options("crashed");
  flags.resume = true;
  run(flags, {}, 2);
  EXPECT_EQ(metrics("straight"), metrics("crashed"));
}

TEST_F(Trainer, MetricsDoNotDependOnThreads) {
  run(options("one"), {}, 1);
  run(options("two"), {}, 2);
  run(options("five"), {}, 5);
  EXPECT_EQ(metrics("one"), metrics("two"));
  EXPECT_EQ(metrics("one"), metrics("five"));
}

TEST_F(Trainer, SeedChangesTheRun) {
  TrainingOptions flags = options("other");
  flags.seed = 8; // the plan's is 7
  run(options("one"));
  run(flags);
  EXPECT_NE(metrics("one"), metrics("other"));
}

TEST_F(Trainer, InterruptionSavesACheckpoint) {
  run(options("straight"));
  TrainingObserver observer;
  bool isCaught = false;
  observer.step = [&](const Json &line, int64_t) { isCaught = line["step"] == 6; };
  observer.interrupted = [&] { return isCaught; };
  EXPECT_EQ(run(options("cut"), observer), TrainingEnd::interrupted);
  EXPECT_EQ(readFile(folder / "cut/latest"), "6\n");
  TrainingOptions flags = options("cut");
  flags.resume = true;
  EXPECT_EQ(run(flags), TrainingEnd::finished);
  EXPECT_EQ(metrics("straight"), metrics("cut"));
}

TEST_F(Trainer, DivergenceStopsAndRetainsTheGoodCheckpoint) {
  Executor executor(artifact, 1);
  TrainingObserver observer;
  observer.step = [&](const Json &line, int64_t) {
    if (line["step"] == 10) {
      executor.tensor(executor.plan().tensors[1])[3] = NAN;
    }
  };
  TrainingOptions flags = options("run");
  flags.heldOut.data.clear();
  try {
    train(executor, flags, observer);
    FAIL() << "expected a JobError";
  } catch (const JobError &error) {
    EXPECT_NE(std::string(error.what()).find("step 11"), std::string::npos) << error.what();
    std::string remedy = "; continue with a lower rate: sluice train --resume " +
                         (folder / "run").string() +
                         " --set training.learning_rate=RATE, or begin a new run from it: sluice "
                         "train ... --weights " +
                         (folder / "run/checkpoints/8").string() + " --out NEW";
    EXPECT_NE(std::string(error.what()).find("to continue from is that of step 8 (loss 4."),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(remedy), std::string::npos) << error.what();
  }
  Executor other(artifact, 1);
  EXPECT_EQ(loadCheckpoint(folder / "run", other).step, 8);
}

// An update can give non-finite numbers although loss and gradient were finite: checks the step
// before.
TEST_F(Trainer, NeverSavesNonFiniteWeights) {
  using Spoil = std::function<void(Executor &, const Tensor &bias)>;
  auto fill = [](std::span<float> numbers, float value) {
    std::fill(numbers.begin(), numbers.end(), value);
  };
  const std::vector<std::pair<Spoil, std::string>> faults = {
      {[](Executor &e, const Tensor &bias) { e.tensor(bias)[3] = NAN; }, "after step 16: with"},
      {[](Executor &e, const Tensor &bias) { e.state(bias, "adam.m")[3] = INFINITY; },
       "after step 16: expected"},
      {[&](Executor &e, const Tensor &bias) { fill(e.tensor(bias), 3e38f); },
       "after step 16: with its weights the loss is"},
      // Loss and weights are finite, the gradient is not: saves this checkpoint, and retains the
      // one before.
      {[](Executor &e, const Tensor &bias) { e.tensor(bias)[3] = 3e38f; }, "at step 17: "}};
  for (const auto &[spoil, expected] : faults) {
    Executor executor(artifact, 1);
    TrainingObserver observer;
    observer.step = [&](const Json &line, int64_t) {
      if (line["step"] == 16) { // before it is saved
        spoil(executor, executor.plan().tensors[1]);
      }
    };
    std::filesystem::remove_all(folder / "run");
    TrainingOptions flags = options("run");
    flags.heldOut.data.clear();
    flags.keep = 1;
    std::string message;
    try {
      train(executor, flags, observer);
    } catch (const JobError &error) {
      message = error.what();
    }
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_NE(message.find("checkpoints/8 --out NEW"), std::string::npos) << message;
    Executor other(artifact, 1);
    loadWeights(folder / "run/checkpoints/8", other);
  }
}

TEST_F(Trainer, RetainsOneVerifiedCheckpoint) {
  TrainingObserver observer;
  observer.step = [&](const Json &line, int64_t) {
    int64_t step = line["step"];
    std::vector<int64_t> expected = step <= 8    ? std::vector<int64_t>{}
                                    : step <= 16 ? std::vector<int64_t>{8}
                                                 : std::vector<int64_t>{16};
    EXPECT_EQ(checkpointSteps(folder / "run"), expected) << step;
  };
  TrainingOptions flags = options("run");
  flags.keep = 1;
  run(flags, observer);
  EXPECT_EQ(checkpointSteps(folder / "run"), std::vector<int64_t>{20});
}

TEST_F(Trainer, StopsOnNonFiniteHeldOutLoss) {
  Executor executor(artifact, 1);
  const Tensor &table = executor.plan().tensors[0];
  TrainingObserver observer;
  observer.step = [&](const Json &line, int64_t) {
    if (line["step"] == 9) { // the row of a token absent from the training text
      executor.tensor(table)[127 * 128] = NAN;
    }
  };
  writeFile(folder / "heldout", easyText(100) + "\x7f" + easyText(100));
  TrainingOptions flags = options("run");
  flags.evaluateEvery = 10;
  std::string message;
  try {
    train(executor, flags, observer);
  } catch (const JobError &error) {
    message = error.what();
  }
  EXPECT_NE(message.find("after step 10: the losses of the held-out text"), std::string::npos)
      << message;
  EXPECT_EQ(readFile(folder / "run/latest"), "8\n");
}

TEST_F(Trainer, RenamesDamagedMetrics) {
  run(options("straight"));
  TrainingOptions flags = options("run");
  flags.steps = 10;
  run(flags);
  Path path = folder / "run/metrics.jsonl";
  std::string whole = readFile(path), deep(100000, '[');
  size_t third = whole.find("\n", whole.find("\n") + 1) + 1;
  const std::string damage = "{\"step\": 3, \"loss\"\n{\"loss\": 1}\n" + deep + "\n[3]\n\xff\n";
  writeFile(path, whole.substr(0, third) + damage + whole.substr(third) + "{\"step\": 11, \"lo");
  std::string said;
  TrainingObserver observer;
  observer.message = [&](const std::string &text) { said += text + "\n"; };
  flags.steps = 20;
  flags.resume = true;
  run(flags, observer);
  EXPECT_EQ(metrics("straight"), metrics("run"));
  EXPECT_EQ(readFile(folder / "run/metrics.jsonl.damaged"), damage + "{\"step\": 11, \"lo\n");
  EXPECT_NE(said.find("6 damaged lines of metrics.jsonl were moved to metrics.jsonl.damaged"),
            std::string::npos)
      << said;
}

// Files of a training that was killed early: parts of its first files, an unfinished save.
TEST_F(Trainer, RestartsRunKilledBeforeItsFirstCheckpoint) {
  run(options("straight"));
  for (bool resume : {false, true}) {
    std::filesystem::remove_all(folder / "run");
    TrainingObserver crash;
    crash.step = [](const Json &line, int64_t) {
      if (line["step"] == 5) {
        throw std::runtime_error("crash");
      }
    };
    EXPECT_THROW(run(options("run"), crash), std::runtime_error);
    std::filesystem::create_directories(folder / "run/checkpoints/.tmp-8-123");
    writeFile(folder / "run/latest.tmp-123", "");
    TrainingOptions flags = options("run");
    flags.resume = resume;
    std::string said;
    TrainingObserver observer;
    observer.message = [&](const std::string &text) { said += text; };
    EXPECT_EQ(run(flags, observer), TrainingEnd::finished);
    EXPECT_NE(said.find("ended before its first checkpoint: it begins anew"), std::string::npos);
    EXPECT_EQ(metrics("straight"), metrics("run"));
    EXPECT_FALSE(std::filesystem::exists(folder / "run/checkpoints/.tmp-8-123"));
  }
}

TEST_F(Trainer, RejectsFolderOfOtherFiles) {
  const std::map<std::string, std::string> found = {
      {"spec.json", "ended before its first checkpoint; remove"}, // not the artifact's
      {"notes.txt", "no file \"latest\""}};
  for (const auto &[file, message] : found) {
    std::filesystem::create_directory(folder / file);
    writeFile(folder / file / file, "{}");
    EXPECT_NE(userError([&] { run(options(file)); }).find("name another --out"), std::string::npos);
    TrainingOptions flags = options(file);
    flags.resume = true;
    std::string error = userError([&] { run(flags); });
    EXPECT_NE(error.find(message), std::string::npos) << error;
    EXPECT_EQ(readFile(folder / file / file), "{}");
  }
}

TEST_F(Trainer, ContinuesWithoutLatest) {
  run(options("straight"));
  TrainingOptions flags = options("run");
  flags.steps = 15;
  run(flags);
  std::filesystem::remove(folder / "run/latest");
  flags.steps = 20;
  EXPECT_NE(userError([&] { run(flags); }).find("continue it with --resume"), std::string::npos);
  flags.resume = true;
  run(flags);
  EXPECT_EQ(metrics("straight"), metrics("run"));
}

TEST_F(Trainer, RejectsOverwritingAndMixing) {
  TrainingOptions flags = options("run");
  flags.steps = 3;
  run(flags);
  std::string before = readFile(folder / "run/metrics.jsonl");
  EXPECT_NE(userError([&] { run(flags); }).find("exists"), std::string::npos);
  flags.resume = true;
  flags.steps = 5;
  flags.seed = 1;
  EXPECT_NE(userError([&] { run(flags); }).find("--seed 7"), std::string::npos);
  flags.seed.reset();
  flags.data.data = {folder / "heldout"};
  std::string message = userError([&] { run(flags); });
  EXPECT_NE(message.find("same training data"), std::string::npos) << message;
  EXPECT_NE(
      message.find("sluice train ART --data FILE --weights " + flags.run.string() + " --out NEW"),
      std::string::npos)
      << message;
  EXPECT_EQ(readFile(folder / "run/metrics.jsonl"), before);
}

TEST_F(Trainer, ReportsArtifactOfAnotherSpec) {
  TrainingOptions flags = options("run");
  flags.steps = 2;
  run(flags);
  Path state = folder / "run/checkpoints/2/state.json",
       weights = folder / "run/checkpoints/2/weights.safetensors";
  Json json = Json::parse(readFile(state));
  json["spec_sha256"] = std::string(64, '0');
  json.erase("checksum");
  json["checksum"] = sha256Hex(asBytes(json.dump()));
  writeFile(state, json.dump());
  std::filesystem::remove(weights); // would be the message of a resume that reads the tensors first
  flags.resume = true;
  EXPECT_NE(userError([&] { run(flags); }).find("same spec"), std::string::npos);
}

TEST_F(Trainer, ResumePreservesTheStepsOfTheRun) {
  TrainingOptions flags = options("run");
  flags.steps = 30; // the plan's are 20
  TrainingObserver observer;
  int asked = 0;
  observer.interrupted = [&] { return ++asked > 5; };
  run(flags, observer);
  flags.steps.reset();
  flags.resume = true;
  run(flags);
  EXPECT_EQ(metrics("run").size(), 30u);
}

TEST_F(Trainer, ZeroStepsSaveTheInitialWeights) {
  TrainingOptions flags = options("start");
  flags.steps = 0;
  flags.data.data.clear();
  EXPECT_EQ(run(flags), TrainingEnd::finished);
  EXPECT_EQ(readFile(folder / "start/latest"), "0\n");
  Executor fresh(artifact, 1), loaded(artifact, 1);
  fresh.scalarI64("seed") = 7;
  fresh.run("initialize");
  loadWeights(folder / "start", loaded);
  for (const Tensor &tensor : artifact->plan().tensors) {
    EXPECT_TRUE(std::ranges::equal(fresh.tensor(tensor), loaded.tensor(tensor))) << tensor.name;
  }
  run(options("straight"));
  flags = options("start"); // continues, now with data
  flags.resume = true;
  run(flags);
  EXPECT_EQ(metrics("start"), metrics("straight"));
}

TEST_F(Trainer, StartsFromGivenWeights) {
  run(options("first"));
  TrainingOptions flags = options("whole");
  flags.weights = folder / "first";
  flags.steps = 1;
  run(flags);
  EXPECT_LT(metrics("whole")[0]["loss"], metrics("first")[0]["loss"]);
  std::string said;
  TrainingObserver observer;
  observer.message = [&](const std::string &text) { said += text + "\n"; };
  flags.run = folder / "part";
  flags.match = {"*.bias"};
  flags.steps = 0;
  run(flags, observer);
  EXPECT_NE(said.find("took 1 of 2 tensors from " + flags.weights.string()), std::string::npos)
      << said;
  EXPECT_NE(said.find(": stages.0.bias; left as initialized: stages.0.table.weight"),
            std::string::npos)
      << said;
  Executor fresh(artifact, 1), first(artifact, 1), part(artifact, 1);
  fresh.scalarI64("seed") = 7;
  fresh.run("initialize");
  loadWeights(folder / "first", first);
  loadWeights(folder / "part", part);
  const std::vector<Tensor> &tensors = artifact->plan().tensors;
  EXPECT_TRUE(std::ranges::equal(part.tensor(tensors[0]), fresh.tensor(tensors[0])));
  EXPECT_TRUE(std::ranges::equal(part.tensor(tensors[1]), first.tensor(tensors[1])));
  EXPECT_FALSE(std::ranges::equal(fresh.tensor(tensors[1]), first.tensor(tensors[1])));
  flags.run = folder / "none";
  flags.match = {"stage.*"};
  EXPECT_NE(userError([&] { run(flags); }).find("found \"stage.*\""), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST_F(Trainer, RecordsSettingsAtTheirFirstStep) {
  TrainingOptions flags = options("run");
  flags.steps = 8;
  run(flags);
  flags.steps = 12;
  flags.resume = true;
  flags.logEvery = 100;
  flags.heldOut.data.clear();
  flags.settings = {"training.clip=2"};
  run(flags);
  std::vector<Json> lines = metrics("run");
  ASSERT_EQ(lines.size(), 10u); // 1 to 8, 9 for its text, 12
  EXPECT_EQ(lines[8]["set"], Json({"training.clip=2"}));
  EXPECT_FALSE(lines[9].contains("set"));
  std::optional<RunRecord> record = readRunRecord(folder / "run");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->steps, 12);
  ASSERT_EQ(record->changes.size(), 1u);
  EXPECT_EQ(record->changes[0].step, 8);
  EXPECT_EQ(record->data[0].bytes, 3000);
}

TEST_F(Trainer, RecordsRepeatedSettingsOnce) {
  TrainingOptions flags = options("run");
  flags.resume = true;
  flags.settings = {"training.clip=2", "training.learning_rate=1e-3"};
  for (int64_t steps : {2, 4, 6}) {
    flags.steps = steps;
    run(flags);
  }
  EXPECT_FALSE(metrics("run")[2].contains("set"));
  ASSERT_EQ(readRunRecord(folder / "run")->changes.size(), 1u);
  flags.settings = {"training.clip=2"}; // the same value, but not the run's last value
  flags.steps = 8;
  run(flags);
  EXPECT_EQ(readRunRecord(folder / "run")->changes.size(), 2u);
}

TEST_F(Trainer, ReportsStepsAfterTheSchedule) {
  std::string said;
  TrainingObserver observer;
  observer.message = [&](const std::string &text) { said += text + "\n"; };
  TrainingOptions flags = options("run");
  flags.scheduleEnd = ScheduleEnd{20, 3e-5};
  run(flags, observer);
  EXPECT_EQ(said.find("floor"), std::string::npos) << said;
  flags.resume = true;
  flags.steps = 22;
  run(flags, observer);
  EXPECT_NE(said.find("steps 21 to 22 run at the schedule's floor, a learning rate of 3e-05"),
            std::string::npos)
      << said;
  flags.steps = 23;
  run(flags, observer);
  EXPECT_NE(said.find("step 23 runs at the schedule's floor"), std::string::npos) << said;
}

TEST_F(Trainer, ReportsResumeOfACompleteRun) {
  TrainingOptions flags = options("run");
  flags.steps = 3;
  run(flags);
  std::string said, record = readFile(folder / "run/run.json");
  TrainingObserver observer;
  observer.message = [&](const std::string &text) { said += text + "\n"; };
  flags.resume = true;
  flags.steps = 2;
  EXPECT_EQ(run(flags, observer), TrainingEnd::finished);
  EXPECT_NE(said.find("nothing to do"), std::string::npos) << said;
  EXPECT_EQ(metrics("run").size(), 3u);
  EXPECT_EQ(readFile(folder / "run/run.json"), record);
}

TEST_F(Trainer, ResumeWithoutHeldOutTextPreservesItsRecord) {
  TrainingOptions flags = options("run");
  flags.steps = 3;
  run(flags);
  flags.heldOut.data.clear();
  flags.resume = true;
  flags.steps = 5;
  std::string said;
  TrainingObserver observer;
  observer.message = [&](const std::string &text) { said += text + "\n"; };
  run(flags, observer);
  EXPECT_NE(said.find("without --eval-data the run's held-out text is not evaluated"),
            std::string::npos)
      << said;
  std::optional<RunRecord> record = readRunRecord(folder / "run");
  ASSERT_TRUE(record);
  ASSERT_EQ(record->heldOut.size(), 1u);
  EXPECT_EQ(record->heldOut[0].bytes, 400);
  EXPECT_EQ(record->steps, 5);
}

TEST_F(Trainer, InterruptionBeforeTheFirstStepLeavesNoRun) {
  TrainingObserver observer;
  observer.interrupted = [] { return true; };
  EXPECT_EQ(run(options("run"), observer), TrainingEnd::interrupted);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST_F(Trainer, BadInputWritesNothing) {
  TrainingOptions flags = options("run");
  flags.heldOut.data = {folder / "missing"};
  EXPECT_NE(userError([&] { run(flags); }).find("no such file"), std::string::npos);
  flags = options("run");
  flags.samplePrompt = "\xff"; // else training would end at the first sample
  EXPECT_NE(userError([&] { run(flags); }).find("the prompt: byte 0"), std::string::npos);
  flags = options("run");
  flags.logEvery = 0;
  EXPECT_NE(userError([&] { run(flags); }).find("logged steps"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  writeFile(folder / "file", "x");
  EXPECT_NE(userError([&] { run(options("file")); }).find("new directory"), std::string::npos);
}

} // namespace
