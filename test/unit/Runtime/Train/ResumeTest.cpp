// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs that end early and continue: the contents of a run's record, and signals during a step, an
// evaluation and a sample.
#include "TrainerFixture.h"

#include <sys/wait.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

class Resume : public Trainer {
protected:
  /// Runs `sluice WORDS` in the test's folder and returns its status; `err` is its stderr.
  int sluice(const std::string &words) {
    std::string command = "cd " + folder.path.string() + " && " + SLUICE_PROGRAM + " " + words +
                          " >out.txt 2>err.txt </dev/null";
    int status = std::system(command.c_str());
    err = readFile(folder / "err.txt");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  void refuses(const std::string &words, const std::vector<std::string> &pieces) {
    EXPECT_EQ(sluice(words), 2) << words;
    for (const std::string &piece : pieces) {
      EXPECT_NE(err.find(piece), std::string::npos) << words << ": " << piece << "\n" << err;
    }
  }

  std::string err;
};

TEST_F(Resume, NeedsOnlyTheRun) {
  const std::string flags = "--data text --eval-data heldout --eval-every 4 --keep 2 --seed 3 -j 1";
  ASSERT_EQ(sluice("train bigram.slc " + flags + " -o straight -n 20"), 0) << err;
  ASSERT_EQ(sluice("train bigram.slc " + flags + " -o run -n 8"), 0) << err;
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::rename(folder / "run", folder / "elsewhere/run");
  ASSERT_EQ(sluice("train --resume elsewhere/run -n 20"), 0) << err;
  EXPECT_NE(err.find("resuming with the run's " + (folder / "bigram.slc").string() + " --data " +
                     (folder / "text").string()),
            std::string::npos)
      << err;
  EXPECT_EQ(metrics("straight"), metrics("elsewhere/run"));
  EXPECT_TRUE(metrics("straight")[15].contains("eval_loss"));
  ASSERT_EQ(sluice("train --resume elsewhere/run -n 22 --eval-every 3"), 0)
      << err; // valid from now on
  ASSERT_EQ(sluice("train -n 24 --resume elsewhere/run"), 0) << err;
  EXPECT_NE(err.find("--eval-every 3"), std::string::npos) << err;
  EXPECT_EQ(err.find("--eval-every 4"), std::string::npos) << err;
  EXPECT_EQ(metrics("elsewhere/run").size(), 24u);
}

TEST_F(Resume, RecordContainsAbsolutePathsSizesAndHashes) {
  ASSERT_EQ(sluice("train bigram.slc --data ./text -o run -n 2"), 0) << err;
  Json command = Json::parse(readFile(folder / "run/run.json"))["command"];
  Json text;
  for (const Json &file : command["files"]) {
    text = file["flag"] == "--data" ? file : text;
  }
  EXPECT_EQ(text["path"], (folder / "text").string());
  EXPECT_EQ(text["bytes"], 3000);
  EXPECT_EQ(text["sha256"].get<std::string>().size(), 64u);
  EXPECT_FALSE(command["flags"].contains("--steps")); // otherwise in the record
}

TEST_F(Resume, ReportsMovedOrChangedFilesWithBothValues) {
  ASSERT_EQ(sluice("train bigram.slc --data text --eval-data heldout -o run -n 2"), 0) << err;
  const std::string resume = "train --resume run -n 4", text = (folder / "text").string(),
                    whole = readFile(folder / "text"), held = readFile(folder / "heldout");
  std::filesystem::rename(folder / "text", folder / "moved");
  refuses(resume, {text + ": expected the file that the run run was given as --data, of 3000 bytes",
                   "found no such file", "sluice train --resume run --data FILE..."});
  writeFile(folder / "text", whole + "a");
  refuses(resume, {"expected 3000 bytes", "found 3001",
                   "sluice train ART --data FILE... --weights run --out NEW"});
  writeFile(folder / "text", "#" + whole.substr(1));
  refuses(resume, {"expected the same training data", text + " of 3000 bytes (SHA-256 ",
                   ", expected " + text + " of 3000 bytes", "--weights run --out NEW"});
  writeFile(folder / "heldout", "#" + held.substr(1));
  refuses(resume, {(folder / "heldout").string() + ": expected SHA-256 ", "found SHA-256 ",
                   "sluice train --resume run --eval-data FILE..."});
  EXPECT_EQ(sluice(resume + " --data moved --eval-data heldout"), 0) << err;
  std::filesystem::rename(folder / "bigram.slc", folder / "other.slc");
  refuses("train --resume run -n 5 --data moved", {"sluice train ART --resume run"});
  EXPECT_EQ(sluice("train other.slc --resume run -n 5"), 0) << err;
  EXPECT_EQ(sluice("train --resume run -n 6"), 0) << err;
}

TEST_F(Resume, RunsOfOlderVersionsReportMissingFacts) {
  ASSERT_EQ(sluice("train bigram.slc --data text --eval-data heldout -o run -n 2"), 0) << err;
  Json record = Json::parse(readFile(folder / "run/run.json"));
  record.erase("command");
  writeFile(folder / "run/run.json", record.dump());
  refuses("train --resume run -n 4",
          {"expected the artifact, data and flags of the run, found none",
           "sluice train ART --data " + (folder / "text").string() + " --eval-data " +
               (folder / "heldout").string() + " --resume run"});
  EXPECT_EQ(sluice("train bigram.slc --data text --out run --resume -n 4"), 0) << err;
  EXPECT_EQ(sluice("train --resume run -n 5"), 0) << err;
}

// Earlier versions recorded the sizes of held-out text, and no hashes.
TEST_F(Resume, RecordsAndVerifiesHeldOutTextOfOlderVersions) {
  const std::string flags = "--data text --eval-data heldout";
  ASSERT_EQ(sluice("train bigram.slc " + flags + " -o run -n 2"), 0) << err;
  Json record = Json::parse(readFile(folder / "run/run.json"));
  record.erase("command");
  writeFile(folder / "run/run.json", record.dump());
  std::filesystem::copy(folder / "run", folder / "other", std::filesystem::copy_options::recursive);
  ASSERT_EQ(sluice("train bigram.slc " + flags + " --resume run -n 3"), 0) << err;
  EXPECT_NE(err.find("run.json has the size of the held-out text alone, which is the same; its "
                     "SHA-256 is recorded now"),
            std::string::npos)
      << err;
  ASSERT_EQ(sluice("train --resume run -n 4"), 0) << err;
  EXPECT_EQ(err.find("note: run.json"), std::string::npos) << err;
  const std::string held = readFile(folder / "heldout");
  writeFile(folder / "heldout", "#" + held.substr(1));
  refuses("train --resume run -n 5", {"heldout: expected SHA-256 ", "found SHA-256 "});
  const std::string differs = "note: the held-out text is not the text that the run had";
  ASSERT_EQ(sluice("train --resume run -n 5 --eval-data heldout"), 0) << err;
  EXPECT_NE(err.find(differs), std::string::npos) << err;
  ASSERT_EQ(sluice("train --resume run -n 6"), 0) << err;
  EXPECT_EQ(err.find("note: the held-out"), std::string::npos) << err;
  writeFile(folder / "heldout", held + "a");
  ASSERT_EQ(sluice("train bigram.slc " + flags + " --resume other -n 3"), 0) << err;
  EXPECT_NE(err.find(differs), std::string::npos) << err;
}

TEST_F(Resume, AcceptsTheOldCommandLine) {
  ASSERT_EQ(sluice("train --resume bigram.slc --data text --out run -n 2"), 0) << err;
  EXPECT_NE(err.find("run: no run to resume yet: it begins"), std::string::npos) << err;
  EXPECT_EQ(sluice("train bigram.slc --data text --out run --resume -n 4"), 0) << err;
  EXPECT_EQ(err.find("resuming with"), std::string::npos) << err;
  EXPECT_EQ(sluice("train bigram.slc --out run --resume -n 5"), 0) << err;
  EXPECT_EQ(sluice("train run --resume -n 6"), 0) << err;
  EXPECT_EQ(metrics("run").size(), 6u);
  refuses("train --resume",
          {"expected a run to resume, found none; name it: sluice train --resume RUN"});
  refuses("train --resume --out run", {"name it: sluice train --resume run"});
  refuses("train --resume nowhere", {"nowhere: expected a run to resume, found no such directory"});
  refuses("train --resume run --out other", {"found --resume run and --out other"});
  refuses("train bigram.slc --data text", {"expected --out, found none"});
}

// A run's patience can be revoked.
TEST_F(Resume, RecordsAndRevokesPatience) {
  const std::string flags = "--data text --eval-data heldout --eval-every 1 --no-keep-best";
  ASSERT_EQ(sluice("train bigram.slc " + flags + " -o run -n 400 --patience 1"), 0) << err;
  ASSERT_NE(err.find("training ends after step "), std::string::npos) << err;
  const size_t ended = metrics("run").size();
  for (const char *none : {"0", "off"}) {
    ASSERT_EQ(sluice("train --resume run"), 0) << err;
    EXPECT_EQ(metrics("run").size(), ended); // the patience is the run's
    std::filesystem::copy(folder / "run", folder / none, std::filesystem::copy_options::recursive);
    const std::string resume = std::string("train --resume ") + none + " -n ";
    ASSERT_EQ(sluice(resume + std::to_string(ended + 5) + " --patience " + none), 0) << err;
    EXPECT_EQ(metrics(none).size(), ended + 5);
    ASSERT_EQ(sluice(resume + std::to_string(ended + 9)), 0) << err; // it is recorded
    EXPECT_EQ(metrics(none).size(), ended + 9);
  }
  refuses("train --resume run --patience none", {"--patience: expected an integer"});
}

// The record is JSON, which contains only UTF-8.
TEST_F(Resume, AcceptsAnyBytesInFileNames) {
  const std::string flags = "--eval-every 4 --keep 2 -j 1 ";
  ASSERT_EQ(sluice("train bigram.slc --data text --eval-data heldout -o straight -n 8 " + flags), 0)
      << err;
  std::filesystem::rename(folder / "bigram.slc", folder / "art \xfe.slc");
  std::filesystem::rename(folder / "text", folder / "t\xff\xc3(\n\"\\x");
  std::filesystem::rename(folder / "heldout", folder / "held\xe2\x80\xae'out");
  ASSERT_EQ(sluice("train 'art \xfe.slc' --data 't\xff\xc3(\n\"\\x' --eval-data "
                   "'held\xe2\x80\xae'\\''out' -o 'run\xff' -n 4 " +
                   flags),
            0)
      << err;
  ASSERT_EQ(sluice("train --resume 'run\xff' -n 8"), 0) << err;
  EXPECT_NE(err.find("resuming with the run's $'" + (folder / "art ").string() +
                     "\\xfe.slc' --data $'" + (folder / "t").string() +
                     "\\xff\\xc3(\\x0a\"\\\\x' --eval-data $'" + (folder / "held").string() +
                     "\\xe2\\x80\\xae\\'out' "),
            std::string::npos)
      << err;
  EXPECT_EQ(metrics("straight"), metrics("run\xff"));
  Json record = Json::parse(readFile(folder / "run\xff/run.json"));
  EXPECT_TRUE(record["data"][0].contains("path_hex"));
  EXPECT_FALSE(record["held_out"][0].contains("path_hex")); // it is UTF-8
  EXPECT_FALSE(record["command"].contains("flags_hex"));
  // Rolling back writes the record into its journal, and from there into the run.
  ASSERT_EQ(sluice("train --resume 'run\xff' --from 4"), 0) << err;
  EXPECT_EQ(metrics("straight"), metrics("run\xff"));
  ASSERT_EQ(sluice("train 'art \xfe.slc' --data 't\xff\xc3(\n\"\\x' --weights 'run\xff' -o new "
                   "-n 1"),
            0)
      << err;
  EXPECT_TRUE(Json::parse(readFile(folder / "new/run.json"))["weights"].contains("file_hex"));
  EXPECT_EQ(sluice("train --resume new -n 2"), 0) << err;
  std::filesystem::remove(folder / "t\xff\xc3(\n\"\\x");
  refuses("train --resume new -n 3", {"/t\\xff\\xc3(\\u000a\"\\x: expected the file that"});
}

TEST_F(Resume, AcceptsAnyBytesInFlags) {
  RunRecord record;
  const std::vector<std::string> prompts = {"a\xff", "b"};
  record.command = RunCommand{{}, {{"--sample-prompt", prompts}, {"--keep", {"2"}}}};
  writeRunRecord(folder.path, record);
  EXPECT_EQ(readRunRecord(folder.path)->command->flags, record.command->flags);
  Json json = Json::parse(readFile(folder / "run.json"));
  EXPECT_EQ(json["command"]["flags_hex"], Json({{"--sample-prompt", {"61ff", "62"}}}));
  json["command"]["flags_hex"]["--sample-prompt"][0] = "6x";
  writeFile(folder / "run.json", json.dump());
  EXPECT_NE(userError([&] { readRunRecord(folder.path); })
                .find("run.json.command.flags_hex.--sample-prompt[0]: expected bytes in "
                      "hexadecimal, two digits each, found \"6x\""),
            std::string::npos);
}

// Flags of the initial weights of a run are not flags of its resumes.
TEST_F(Resume, ResumesRunThatStartedFromWeights) {
  ASSERT_EQ(sluice("train bigram.slc -o start -n 0"), 0) << err;
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 2 --weights start --match 'stages.*'"),
            0)
      << err;
  EXPECT_EQ(sluice("train --resume run -n 3"), 0) << err;
  EXPECT_EQ(metrics("run").size(), 3u);
}

// A wrapper always passes --resume, whatever state a kill leaves.
TEST_F(Resume, StartsRunWithoutCheckpoint) {
  TrainingOptions flags = options("straight");
  flags.steps = 5;
  run(flags);
  for (bool isThere : {false, true}) {
    std::filesystem::remove_all(folder / "run");
    if (isThere) {
      std::filesystem::create_directory(folder / "run");
    }
    flags.run = folder / "run";
    flags.resume = true;
    EXPECT_EQ(run(flags), TrainingEnd::finished);
    EXPECT_EQ(metrics("run"), metrics("straight"));
  }
}

TEST_F(Resume, RestartsRunKilledBeforeItsFirstCheckpoint) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o straight -n 8"), 0) << err;
  std::filesystem::create_directory(folder / "run");
  std::filesystem::copy_file(folder / "straight/run.json", folder / "run/run.json");
  ASSERT_EQ(sluice("train --resume run"), 0) << err;
  EXPECT_NE(err.find("ended before its first checkpoint: it begins anew"), std::string::npos);
  EXPECT_EQ(metrics("run"), metrics("straight"));
}

// Also if the last step is the evaluated one.
TEST_F(Resume, SignalDuringEvaluationPreservesTheStep) {
  TrainingOptions flags = options("straight");
  flags.samplePrompt = "a";
  run(flags);
  for (int64_t step : {10, 20}) {
    flags.run = folder / ("at" + std::to_string(step));
    flags.resume = false;
    TrainingObserver observer;
    bool isCaught = false;
    observer.part = [&](int64_t done, int64_t steps, const std::string &what, double share, bool) {
      EXPECT_EQ(steps, 20);
      EXPECT_EQ(what, "evaluated");
      EXPECT_GT(share, 0);
      isCaught = isCaught || done == step;
    };
    observer.interrupted = [&] { return isCaught; };
    EXPECT_EQ(run(flags, observer), TrainingEnd::interrupted);
    EXPECT_EQ(readFile(flags.run / "latest"), std::to_string(step) + "\n");
    std::vector<Json> lines = readLines(flags.run / "metrics.jsonl");
    ASSERT_EQ(lines.size(), static_cast<size_t>(step));
    EXPECT_EQ(lines.back()["interrupted"], "evaluation");
    EXPECT_FALSE(lines.back().contains("eval_loss"));
    flags.resume = true;
    EXPECT_EQ(run(flags), TrainingEnd::finished);
    EXPECT_EQ(metrics(flags.run.filename().string()), metrics("straight"));
    EXPECT_EQ(readFile(flags.run / "samples.jsonl"), readFile(folder / "straight/samples.jsonl"));
  }
}

TEST_F(Resume, SignalDuringSamplingPreservesTheStep) {
  TrainingOptions flags = options("straight");
  flags.samplePrompt = "a";
  run(flags);
  flags.run = folder / "run";
  TrainingObserver observer;
  int64_t evaluated = 0, asked = 0;
  observer.part = [&](int64_t done, int64_t, const std::string &, double share, bool) {
    evaluated = share == 1 ? done : evaluated;
  };
  // The first query after the last batch of the evaluation comes from the sample.
  observer.interrupted = [&] { return evaluated == 15 && ++asked > 20; };
  EXPECT_EQ(run(flags, observer), TrainingEnd::interrupted);
  EXPECT_EQ(readFile(flags.run / "latest"), "15\n");
  EXPECT_EQ(readLines(flags.run / "samples.jsonl").size(), 2u);
  flags.resume = true;
  EXPECT_EQ(run(flags), TrainingEnd::finished);
  EXPECT_EQ(metrics("run"), metrics("straight"));
  EXPECT_EQ(readFile(folder / "run/samples.jsonl"), readFile(folder / "straight/samples.jsonl"));
}

TEST_F(Resume, ReportsSaves) {
  TrainingOptions flags = options("run");
  flags.heldOut.data.clear();
  flags.saveEvery = 8;
  int saves = 0;
  bool isSaving = false;
  TrainingObserver observer;
  observer.saving = [&](bool begins) {
    EXPECT_NE(begins, isSaving);
    isSaving = begins;
    saves += begins;
  };
  bool hasBegun = false;
  observer.begins = [&] {
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
    hasBegun = true;
  };
  run(flags, observer);
  EXPECT_EQ(saves, 3); // steps 8, 16 and 20
  EXPECT_FALSE(isSaving);
  EXPECT_TRUE(hasBegun);
}

// Terminals and wrappers send two; the third ends the program, but not during a save.
TEST_F(Resume, SecondSignalLosesNothing) {
  std::string command =
      "cd " + folder.path.string() + " && { " + SLUICE_PROGRAM +
      " train bigram.slc --data text -o run -n 100000000 --save-every 100000000 2>err.txt & } && "
      "for i in $(seq 600); do [ -s run/metrics.jsonl ] && break; sleep 0.1; done; "
      "kill -INT $!; kill -INT $!; wait $!";
  int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  err = readFile(folder / "err.txt");
  EXPECT_EQ(WEXITSTATUS(status), 130) << err;
  EXPECT_GT(std::atoll(readFile(folder / "run/latest").c_str()), 0) << err;
  EXPECT_NE(err.find("continue with: sluice train --resume run\n"), std::string::npos) << err;
  for (const auto &each : std::filesystem::recursive_directory_iterator(folder / "run")) {
    EXPECT_EQ(each.path().string().find("tmp-"), std::string::npos) << each.path();
  }
}

} // namespace
