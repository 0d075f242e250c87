// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes that end while they roll a run back to a checkpoint.
#include "TrainerFixture.h"

#include "sluice/Runtime/Train/RollBack.h"
#include "sluice/Support/Error.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// The end of a process.
struct Killed {};

class RollBack : public Trainer {
protected:
  /// The run "spoiled" has checkpoints of the steps 8, 16, 24, 32 and 40; the ones after 16 have
  /// other weights than the run "straight".
  RollBack() {
    run(flags("straight"));
    Executor executor(artifact, 1);
    TrainingObserver observer;
    observer.step = [&](const Json &line, int64_t) {
      if (line["step"] == 20) {
        executor.tensor(executor.plan().tensors[0])[5] += 1;
      }
    };
    train(executor, flags("spoiled"), observer);
    spoiled = metrics("spoiled");
    record = *readRunRecordAt(folder / "spoiled", step);
  }

  TrainingOptions flags(const std::string &name) {
    TrainingOptions result = options(name);
    result.steps = 40;
    result.keep = 9;
    result.samplePrompt = "a";
    result.sampleTokens = 8;
    return result;
  }

  void copySpoiled() {
    removeAll(folder / "run");
    std::filesystem::copy(folder / "spoiled", folder / "run",
                          std::filesystem::copy_options::recursive);
  }

  /// Ends the process after `changes` changes on the disk. Returns true if there were that many.
  template <typename Work> static bool kill(int changes, Work work) {
    try {
      work([&] {
        if (changes-- == 0) {
          throw Killed();
        }
      });
    } catch (const Killed &) {
      return true;
    }
    return false;
  }

  bool killRollBack(int changes) {
    return kill(changes,
                [&](const auto &afterEach) { rollBack(folder / "run", step, record, afterEach); });
  }

  /// Each checkpoint is in the run or in the folder of abandoned ones, and the latest one can be
  /// read.
  void expectNothingLost() {
    for (int64_t each : {8, 16, 24, 32, 40}) {
      std::string name = "checkpoints/" + std::to_string(each) + "/weights.safetensors";
      EXPECT_NE(isThere(folder / "run" / name), isThere(abandoned / name)) << each;
    }
    Executor executor(artifact, 1);
    loadWeights(folder / "run", executor);
  }

  /// A resume without a step ends as if the run had never been spoiled.
  void expectResumes() {
    TrainingOptions resumed = flags("run");
    resumed.resume = true;
    run(resumed);
    EXPECT_EQ(metrics("run"), metrics("straight"));
    EXPECT_EQ(readFile(folder / "run/samples.jsonl"), readFile(folder / "straight/samples.jsonl"));
    for (int64_t each : {24, 32, 40}) {
      std::string name = "checkpoints/" + std::to_string(each) + "/weights.safetensors";
      EXPECT_EQ(readFile(folder / "run" / name), readFile(folder / "straight" / name)) << each;
      EXPECT_EQ(readFile(abandoned / name), readFile(folder / "spoiled" / name)) << each;
    }
    EXPECT_EQ(metrics("run/abandoned/1"), std::vector<Json>(spoiled.begin() + step, spoiled.end()));
    EXPECT_EQ(readLines(abandoned / "samples.jsonl").size(), 5u);
    EXPECT_EQ(readFile(abandoned / "run.json"), readFile(folder / "spoiled/run.json"));
    EXPECT_FALSE(isThere(folder / "run/roll-back.json"));
    EXPECT_FALSE(isThere(folder / "run/abandoned/2"));
  }

  static constexpr int64_t step = 16;
  Path abandoned = folder / "run/abandoned/1";
  std::vector<Json> spoiled;
  RunRecord record;
};

TEST_F(RollBack, ResumeCompletesInterruptedRollBack) {
  int changes = 0;
  for (bool isKilled = true; isKilled; ++changes) {
    SCOPED_TRACE(changes);
    copySpoiled();
    isKilled = killRollBack(changes);
    expectNothingLost();
    expectResumes();
  }
  // The journal, a folder, two files of lines, the record's copy, `latest`, three checkpoints, two
  // files of lines and the record.
  EXPECT_EQ(changes, 13);
}

TEST_F(RollBack, ToleratesInterruptedCompletion) {
  copySpoiled();
  ASSERT_TRUE(killRollBack(0));
  auto complete = [&](int changes) {
    return kill(changes,
                [&](const auto &afterEach) { completeRollBack(folder / "run", {}, afterEach); });
  };
  for (int changes = 0; complete(changes); ++changes) {
    expectNothingLost();
  }
  std::vector<std::string> notices;
  completeRollBack(folder / "run", [&](const std::string &text) { notices.push_back(text); });
  EXPECT_TRUE(notices.empty()); // it is complete
  expectResumes();
}

TEST_F(RollBack, PreservesSettingsOfTheFirstCall) {
  copySpoiled();
  record.changes = {{step, {"training.clip=2"}, record.specHash}};
  ASSERT_TRUE(killRollBack(0));
  std::string said;
  completeRollBack(folder / "run", [&](const std::string &text) { said = text; });
  EXPECT_EQ(said, "an earlier call began to go back to step 16, which is complete now: what came "
                  "after it moved to " +
                      abandoned.string());
  TrainingOptions resumed = flags("run");
  resumed.resume = true;
  run(resumed);
  EXPECT_EQ(readRunRecord(folder / "run")->settings(), std::vector<std::string>{"training.clip=2"});
  EXPECT_EQ(metrics("run")[step]["set"], Json::array({"training.clip=2"}));
}

TEST_F(RollBack, ReportsDamagedJournal) {
  copySpoiled();
  writeFile(folder / "run/roll-back.json", "{\"step\": 16");
  TrainingOptions resumed = flags("run");
  resumed.resume = true;
  std::string message = userError([&] { run(resumed); });
  EXPECT_NE(
      message.find("roll-back.json: expected the journal of a run that goes back, found text "
                   "that is not JSON at line 1, column 12; restore the file, or remove it and "
                   "go back once more with --from STEP"),
      std::string::npos)
      << message;
}

} // namespace
