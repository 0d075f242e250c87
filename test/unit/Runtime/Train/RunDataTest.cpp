// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data of runs that are raw bytes, read from a pipe, or truncated.
#include "TrainerFixture.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <zlib.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

/// A run of a version that read compressed files as raw bytes, and one started with --raw.
TEST_F(Trainer, ResumesRunOnRawBytes) {
  auto pack = [&](const std::string &name, const std::string &text) {
    gzFile file = gzopen((folder / name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    // Token ids of the model are below 128.
    std::string bytes = readFile(folder / name);
    ASSERT_TRUE(std::ranges::any_of(bytes, [](char c) { return c < 0; }));
  };
  pack("text.gz", easyText(3000));
  TrainingOptions flags = options("run");
  flags.data.data = {folder / "text.gz"};
  flags.steps = 3;
  EXPECT_EQ(run(flags), TrainingEnd::finished); // decompressed: its own bytes are no ids
  EXPECT_EQ(readRunRecord(folder / "run")->data[0].bytes, 3000);
  std::string tar(1024, '\0'); // one file's header and its text
  tar.replace(0, 1, "a");
  tar.replace(257, 5, "ustar");
  unsigned sum = 8 * ' ';
  for (size_t i = 0; i < 512; ++i) {
    sum += static_cast<unsigned char>(tar[i]);
  }
  char digits[8] = {};
  std::snprintf(digits, sizeof digits, "%06o", sum);
  tar.replace(148, 7, std::string(digits, 7));
  tar.replace(512, 512, easyText(512));
  writeFile(folder / "text.tar", tar);
  flags = options("raw");
  flags.data.data = flags.heldOut.data = {folder / "text.tar"};
  flags.steps = 3;
  EXPECT_NE(userError([&] { run(flags); }).find("found a tar archive"), std::string::npos);
  EXPECT_FALSE(isThere(folder / "raw"));
  flags.data.reading.isRaw = flags.heldOut.reading.isRaw = true;
  EXPECT_EQ(run(flags), TrainingEnd::finished);
  flags.data.reading.isRaw = flags.heldOut.reading.isRaw = false;
  flags.resume = true;
  flags.steps = 5;
  std::string said;
  TrainingObserver observer;
  observer.message = [&](const std::string &text) { said += text + "\n"; };
  EXPECT_EQ(run(flags, observer), TrainingEnd::finished);
  for (const char *what : {"training data are", "held-out data are"}) {
    EXPECT_NE(said.find(std::string(what) + " read as their own bytes, as when the run began"),
              std::string::npos)
        << said;
  }
  tar.back() = '!';
  writeFile(folder / "text.tar", tar); // not the data that the run started with
  flags.steps = 7;
  EXPECT_NE(userError([&] { run(flags); }).find("found a tar archive"), std::string::npos);
}

TEST_F(Trainer, TruncatedDataStopsTheRunWithACheckpoint) {
  writeFile(folder / "text", easyText(300'000)); // more than is held in memory
  TrainingOptions flags = options("run"), whole = options("whole");
  flags.steps = whole.steps = 30;
  TrainingObserver observer;
  observer.step = [&](const Json &metrics, int64_t) {
    if (metrics["step"] == 10) {
      ASSERT_EQ(::truncate((folder / "text").c_str(), 100), 0);
    }
  };
  std::string message = userError([&] { run(flags, observer); });
  EXPECT_NE(message.find("text: expected the 300000 bytes that the file had when it was opened"),
            std::string::npos)
      << message;
  EXPECT_GE(latestStep(folder / "run"), 10);
  flags.resume = true;
  EXPECT_NE(userError([&] { run(flags); }).find("expected the same training data"),
            std::string::npos);
  writeFile(folder / "text", easyText(300'000));
  EXPECT_EQ(run(flags), TrainingEnd::finished);
  EXPECT_EQ(run(whole), TrainingEnd::finished);
  EXPECT_EQ(readFile(folder / "run/checkpoints/30/weights.safetensors"),
            readFile(folder / "whole/checkpoints/30/weights.safetensors"));
}

TEST_F(Trainer, ResumesRunOnAPipeFromItsCopy) {
  auto pipe = [&](const TrainingOptions &flags) {
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    std::thread writer([&] { writeFile(folder / "pipe", readFile(folder / "text")); });
    EXPECT_EQ(run(flags), TrainingEnd::finished);
    writer.join();
  };
  TrainingOptions flags = options("run"), whole = options("whole");
  flags.data.data = {folder / "pipe"};
  flags.steps = 3;
  pipe(flags);
  EXPECT_EQ(readFile(folder / "run/data/data-1"), readFile(folder / "text"));
  EXPECT_EQ(readRunRecord(folder / "run")->data[0].path, (folder / "run/data/data-1").string());
  flags.resume = true;
  flags.steps = whole.steps = 6;
  EXPECT_EQ(run(flags), TrainingEnd::finished); // although no process writes to the pipe
  whole.data.data = {folder / "text"};
  EXPECT_EQ(run(whole), TrainingEnd::finished);
  EXPECT_EQ(readFile(folder / "run/checkpoints/6/weights.safetensors"),
            readFile(folder / "whole/checkpoints/6/weights.safetensors"));
  flags.data.data = {folder / "run/data/data-1"};
  flags.steps = 7;
  EXPECT_EQ(run(flags), TrainingEnd::finished); // as any file
  removeAll(folder / "run/data");
  removeAll(folder / "pipe");
  flags.data.data = {folder / "pipe"};
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { writeFile(folder / "pipe", "other text, longer than a row"); });
  std::string message = userError([&] { run(flags); });
  writer.join();
  EXPECT_NE(message.find("and no copy of the stream, " + (folder / "run/data/data-1").string()),
            std::string::npos)
      << message;
}

} // namespace
