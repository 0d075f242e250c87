// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class Checkpoint : public testing::Test {
protected:
  Checkpoint() : executor(bigramArtifact(folder), 1) {
    executor.scalarI64("seed") = 3;
    executor.run("initialize");
    executor.state(executor.plan().tensors[0], "adam.m")[7] = 0.25f;
    state.step = 12;
    state.seed = 3;
    state.position = {2, 5};
    state.dataHash = "d";
    state.specHash = "s";
    saveCheckpoint(run, executor, state, 3);
  }

  TemporaryFolder folder;
  Path run = folder / "run";
  Executor executor;
  TrainingState state;
};

TEST_F(Checkpoint, RoundTrips) {
  Executor other(executor.artifact().plan().model.name.empty() ? nullptr : bigramArtifact(folder),
                 1);
  TrainingState loaded = loadCheckpoint(run, other);
  EXPECT_EQ(loaded.step, 12);
  EXPECT_EQ(loaded.seed, 3);
  EXPECT_EQ(loaded.position, (DataPosition{2, 5}));
  for (const Tensor &tensor : other.plan().tensors) {
    auto a = executor.tensor(tensor), b = other.tensor(tensor);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
  }
  EXPECT_EQ(other.state(other.plan().tensors[0], "adam.m")[7], 0.25f);
}

TEST_F(Checkpoint, LoadsWeightsFromRunCheckpointOrFile) {
  for (const Path &path :
       {run, run / "checkpoints/12", run / "checkpoints/12/weights.safetensors"}) {
    Executor other(bigramArtifact(folder), 1);
    EXPECT_EQ(loadWeights(path, other), run / "checkpoints/12/weights.safetensors");
    EXPECT_EQ(other.tensor(other.plan().tensors[0])[9],
              executor.tensor(executor.plan().tensors[0])[9]);
  }
}

TEST_F(Checkpoint, ReportsAFileWithoutChecksum) {
  Path own = run / "checkpoints/12/weights.safetensors";
  std::string file = readFile(own), said;
  Notice notice = [&](const std::string &text) { said += text; };
  loadWeights(own, executor, notice);
  EXPECT_EQ(said, "");
  uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  nlohmann::json table = nlohmann::json::parse(file.substr(8, header));
  ASSERT_EQ(table.erase("__metadata__"), 1u);
  std::string text = table.dump(), length(8, '\0');
  length[0] = static_cast<char>(text.size() & 255);
  length[1] = static_cast<char>(text.size() >> 8);
  writeFile(folder / "foreign.safetensors", length + text + file.substr(8 + header));
  loadWeights(folder / "foreign.safetensors", executor, notice);
  EXPECT_NE(said.find("foreign.safetensors: the file holds no checksum"), std::string::npos);
}

TEST_F(Checkpoint, RejectsNonFiniteNumbers) {
  const Tensor &table = executor.plan().tensors[0];
  for (float value : {NAN, INFINITY}) {
    for (float *number : {&executor.tensor(table)[5], &executor.state(table, "adam.v")[5]}) {
      float before = *number;
      *number = value;
      state.step = 13;
      EXPECT_THROW(saveCheckpoint(run, executor, state, 1), NotFiniteError);
      EXPECT_EQ(latestStep(run), 12);
      EXPECT_FALSE(std::filesystem::exists(run / "checkpoints/13"));
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run / "checkpoints"), {}), 1);
      *number = before;
    }
  }
  EXPECT_EQ(loadCheckpoint(run, executor).step, 12);
}

// A training that retains one checkpoint removes the one that a concurrent evaluation is about to
// open.
TEST_F(Checkpoint, LoadsWeightsDuringTraining) {
  Executor other(bigramArtifact(folder), 1);
  std::atomic<bool> done = false;
  std::thread training([&] {
    for (int i = 0; i < 150; ++i) {
      ++state.step;
      saveCheckpoint(run, executor, state, 1);
    }
    done = true;
  });
  int64_t loads = 0;
  std::string failure;
  while (!done && failure.empty()) {
    try {
      loadWeights(run, other);
      ++loads;
    } catch (const UserError &error) {
      failure = error.what();
    }
  }
  training.join();
  EXPECT_EQ(failure, "") << "after " << loads << " loads";
  EXPECT_GT(loads, 0);
}

TEST_F(Checkpoint, RetainsTheNewest) {
  for (int64_t step : {13, 14, 15, 16}) {
    state.step = step;
    saveCheckpoint(run, executor, state, 2);
  }
  EXPECT_EQ(latestStep(run), 16);
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(run / "checkpoints")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"15", "16"}));
}

// A crash before `latest` moves leaves a folder, complete or not; neither affects the checkpoint of
// `latest`.
TEST_F(Checkpoint, IgnoresUnfinishedSave) {
  std::filesystem::create_directories(run / "checkpoints/.tmp-99-1");
  std::filesystem::create_directories(run / "checkpoints/99");
  EXPECT_EQ(loadCheckpoint(run, executor).step, 12);
  state.step = 99;
  saveCheckpoint(run, executor, state, 3);
  EXPECT_EQ(loadCheckpoint(run, executor).step, 99);
  EXPECT_FALSE(std::filesystem::exists(run / "checkpoints/.tmp-99-1"));
}

TEST_F(Checkpoint, RejectsEveryDamagedByte) {
  for (const char *name : {"weights.safetensors", "optimizer.safetensors", "state.json"}) {
    Path path = run / "checkpoints/12" / name;
    std::string whole = readFile(path);
    for (size_t at = 0; at < whole.size(); at += whole.size() / 23 + 1) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      writeFile(path, damaged);
      if (std::string(name) == "state.json" && nlohmann::json::parse(damaged, nullptr, false) ==
                                                   nlohmann::json::parse(whole, nullptr, false)) {
        continue; // only a space became another space
      }
      EXPECT_THROW(loadCheckpoint(run, executor), UserError) << name << " byte " << at;
    }
    for (size_t length = 0; length + 1 < whole.size(); length += whole.size() / 19 + 1) {
      writeFile(path, whole.substr(0, length));
      EXPECT_THROW(loadCheckpoint(run, executor), UserError) << name << " " << length << " bytes";
    }
    std::filesystem::remove(path);
    EXPECT_NE(userError([&] { loadCheckpoint(run, executor); }).find(name), std::string::npos);
    writeFile(path, whole);
    EXPECT_EQ(loadCheckpoint(run, executor).step, 12);
  }
}

TEST_F(Checkpoint, RejectsInvalidLatestLink) {
  for (const char *text : {"", "x\n", "12x", "-3\n", "12\n12\n", "../12\n"}) {
    writeFile(run / "latest", text);
    EXPECT_THROW(loadCheckpoint(run, executor), UserError) << text;
  }
  writeFile(run / "latest", "12"); // as an editor may write it
  EXPECT_EQ(loadCheckpoint(run, executor).step, 12);
  writeFile(run / "latest", "13\n");
  std::string message = userError([&] { loadCheckpoint(run, executor); });
  EXPECT_NE(message.find("checkpoints/13"), std::string::npos) << message;
  EXPECT_NE(message.find("write 12, the newest one that exists, into"), std::string::npos)
      << message;
  std::filesystem::remove(run / "latest");
  EXPECT_NE(userError([&] { loadCheckpoint(run, executor); }).find("with a checkpoint"),
            std::string::npos);
}

} // namespace
