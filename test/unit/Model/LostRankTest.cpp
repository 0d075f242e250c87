// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A process that is lost while an interrupted training is saved. Threads replace processes.
#include "../Runtime/Processes/Mailboxes.h"
#include "Harness.h"

#include "sluice/Runtime/Plan/Artifact.h"
#include "sluice/Runtime/Train/Trainer.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::testing;

namespace {

constexpr const char *spec = R"({
  "sluice": 1, "vocabulary": 256, "context": 8, "batch": 1, "width": 8,
  "defaults": { "heads": 1, "feed_forward": 8 },
  "stages": [ { "op": "embedding" }, { "op": "layer" }, { "op": "norm" }, { "op": "head" } ],
  "training": { "accumulate": 2 }
})";

struct Ending {
  std::vector<std::string> messages;
  std::string error;
};

/// Trains with two processes. After step 3 the first one is interrupted; the other one is lost when
/// the save begins. The run has a checkpoint of step 2. Returns the first process's messages.
Ending loseRankInSave(const Folder &folder, bool shardsOptimizer) {
  auto [target, path] = compileForOne(folder, folder.write("lost.json", spec));
  std::shared_ptr<const Artifact> artifact = Artifact::load(path, target);
  TrainingOptions options;
  options.run = folder.path(shardsOptimizer ? "sharded" : "whole");
  options.data.data = {folder.write("text", std::string(2000, 'a'))};
  options.steps = 10;
  options.saveEvery = 2;
  options.shardsOptimizer = shardsOptimizer;
  test::Mailboxes boxes;
  std::array<Ending, 2> endings;
  auto trainAs = [&](size_t rank) {
    ProcessGroup group(
        std::make_unique<test::ThreadMessenger>(boxes, static_cast<int64_t>(rank), 2),
        std::chrono::seconds(1));
    TrainingOptions own = options;
    own.group = &group;
    bool isCaught = false;
    TrainingObserver observer;
    observer.message = [&](const std::string &text) { endings[rank].messages.push_back(text); };
    observer.step = [&](const nlohmann::json &line, int64_t) { isCaught = line["step"] == 3; };
    observer.interrupted = [&] { return isCaught; };
    observer.saving = [&](bool begins) {
      if (begins && isCaught) {
        boxes.silent = 1;
      }
    };
    try {
      Executor executor(artifact, 1);
      train(executor, own, observer);
    } catch (const std::exception &error) {
      endings[rank].error = error.what();
    }
  };
  std::jthread other([&] { trainAs(1); });
  trainAs(0);
  other.join();
  return endings[0];
}

std::string readLatest(const Folder &folder, const std::string &run) {
  std::ostringstream text;
  text << std::ifstream(folder.path(run) + "/latest").rdbuf();
  return text.str();
}

/// All processes have the whole state: the save succeeds, which the message must report.
TEST(LostRank, InterruptedSaveOfWholeStateIsReported) {
  Folder folder;
  Ending ending = loseRankInSave(folder, /*shardsOptimizer=*/false);
  EXPECT_NE(ending.error.find("rank 1"), std::string::npos) << ending.error;
  EXPECT_EQ(readLatest(folder, "whole"), "3\n");
  EXPECT_EQ(std::ranges::count(ending.messages, "saved a checkpoint after step 3"), 1);
}

/// Each process has a part of the state: the message names the last checkpoint.
TEST(LostRank, InterruptedSaveOfPartsNamesTheLastCheckpoint) {
  Folder folder;
  Ending ending = loseRankInSave(folder, /*shardsOptimizer=*/true);
  EXPECT_NE(ending.error.find("rank 1"), std::string::npos) << ending.error;
  EXPECT_EQ(readLatest(folder, "sharded"), "2\n");
  EXPECT_EQ(
      std::ranges::count(ending.messages,
                         "the run has the checkpoint of step 2; later steps are lost, as each "
                         "process has a part of the optimizer's state"),
      1);
}

} // namespace
