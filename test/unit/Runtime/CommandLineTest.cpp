// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program as a user meets it: statuses, messages, JSON.
#include "Fixture.h"

#include <sys/wait.h>

using namespace sluice::runtime;
using namespace sluice::test;
using Json = nlohmann::json;

namespace {

struct Outcome {
  int status;
  std::string out, err;
};

class CommandLine : public testing::Test {
protected:
  CommandLine() {
    bigramArtifact(folder);
    writeFile(folder / "text", easyText(3000));
    writeFile(folder / "heldout", easyText(500, 9));
  }

  /// Runs `sluice WORDS` in the test's folder.
  Outcome sluice(const std::string &words) {
    std::string command = "cd " + folder.path.string() + " && " + SLUICE_PROGRAM + " " + words +
                          " >out.txt 2>err.txt </dev/null";
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, readFile(folder / "out.txt"),
            readFile(folder / "err.txt")};
  }

  void refuses(const std::string &words, const std::string &piece) {
    Outcome outcome = sluice(words);
    EXPECT_EQ(outcome.status, 2) << words;
    EXPECT_NE(outcome.err.find(piece), std::string::npos) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.err.find("internal"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "") << words;
  }

  TemporaryFolder folder;
};

TEST_F(CommandLine, TheWholeRoad) {
  Outcome trained = sluice(
      "train bigram.slc --data text --eval-data heldout -o run -n 60 -j 2 --sample-prompt ab");
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("step 60/60"), std::string::npos);
  EXPECT_EQ(trained.err.find('\r'), std::string::npos); // plain lines in a pipe
  Outcome scored = sluice("eval bigram.slc -w run --data heldout --json");
  ASSERT_EQ(scored.status, 0) << scored.err;
  Json score = Json::parse(scored.out);
  EXPECT_EQ(score["tokens"], 499);
  EXPECT_LT(score["bits_per_byte"], 6);
  Outcome text = sluice("generate bigram.slc -w run -p hello -n 20 --seed 3 --top-k 5");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.substr(0, 5), "hello");
  EXPECT_EQ(text.out.size(), 26u);
  EXPECT_EQ(sluice("generate bigram.slc -w run -n 20 --no-echo --no-cache").out.size(), 20u);
  ASSERT_EQ(sluice("report run").status, 0);
  EXPECT_NE(readFile(folder / "run/report.html").find("<svg"), std::string::npos);
  refuses("report run ./run", "expected different runs, found ./run twice");
  refuses("eval bigram.slc -w run --data heldout --window 999", "--window: expected a window");
}

TEST_F(CommandLine, AFlagMayTakeAnArgumentButOnlyWhereThereIsOne) {
  refuses("report", "expected RUN, found none; write it, as in sluice report RUN (");
  refuses("eval --data heldout bigram.slc -w run", "since a flag that takes several values");
}

TEST_F(CommandLine, InspectAndNgramPrintTheContractsFields) {
  Outcome inspected = sluice("inspect bigram.slc --json --memory --extract parts");
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  Json json = Json::parse(inspected.out);
  EXPECT_EQ(json["parameters"], 128 * 128 + 128);
  EXPECT_EQ(json["tensors"][1],
            (Json{{"name", "stages.0.bias"}, {"shape", {128}}, {"dtype", "f32"}}));
  EXPECT_EQ(json["launches"], (Json{{"forward", 2}, {"backward", 2}, {"update", 2}}));
  EXPECT_EQ(json["kernels"].size(), 16u); // eight for each instruction set
  EXPECT_EQ(json["memory"]["by_scale"]["1"], 300352);
  EXPECT_EQ(Json::parse(readFile(folder / "parts/plan.json")), bigramPlan());
  EXPECT_EQ(readFile(folder / "parts/kernels.so"), bigramLibrary());
  Json grams = Json::parse(sluice("ngram --train text --test heldout --json").out);
  EXPECT_EQ(grams["orders"].size(), 3u);
  EXPECT_LT(grams["orders"][0]["bits_per_byte"], 3);
}

TEST_F(CommandLine, BenchPrintsTheContractsFields) {
  Outcome outcome = sluice("bench bigram.slc -n 2 -j 1 --kernels --generate --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Json json = Json::parse(outcome.out);
  for (const char *key : {"step_ms", "tokens_per_s", "fraction_of_peak", "peak_gflops",
                          "peak_gbytes_per_s", "recomputed_tokens_per_s"}) {
    EXPECT_GT(json[key], 0) << key;
  }
  EXPECT_EQ(json["kernels"].size(), 6u); // those of gradient and update
  EXPECT_TRUE(json.contains("cached_tokens_per_s"));
}

TEST_F(CommandLine, BadInputIsStatusTwo) {
  refuses("train missing.slc --data text -o run", "missing.slc: ");
  refuses("train bigram.slc --data missing -o run", "missing: ");
  refuses("train bigram.slc --data . -o run", "directory");
  refuses("train bigram.slc --data text -o run --device cuda",
          "compile the spec again with --target cpu,sm_80");
  refuses("eval text -w run --data text", "expected a Sluice artifact");
  refuses("eval bigram.slc -w text --data text", "safetensors");
  refuses("eval bigram.slc -w . --data text", "checkpoint");
  refuses("generate bigram.slc -w missing", "missing: ");
  refuses("generate bigram.slc -w missing --top-p 3", "top-p");
  refuses("report missing", "missing: ");
  refuses("inspect bigram.slc --json --extract text/parts", "text/parts");
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST_F(CommandLine, WrongFlagsAreStatusTwoWithASuggestion) {
  refuses("train bigram.slc --dta text -o run", "did you mean --data?");
  refuses("trian", "did you mean train?");
  refuses("train bigram.slc --data text -o run -n many", "many");
  refuses("train bigram.slc --data text -o run --device gpu", "gpu");
  refuses("", "subcommand");
  EXPECT_EQ(sluice("train --help").status, 0);
}

TEST_F(CommandLine, MessagesSayWhatWasExpected) {
  refuses("train --data text bigram.slc -o run",
          "sluice train: expected ART, found none; write it first");
  refuses("train bigram.slc --data --out run", "expected a file, found \"--out\"");
  refuses("train bigram.slc --data text -o run -n 1.5", "expected a whole number");
  refuses("train bigram.slc --data text -o run -n 99999999999999999999", "at most 63 bits");
  refuses("train bigram.slc --data text -o run -n 1 --steps 2", "found it 2 times");
  refuses("train bigram.slc --data text -o run --seed -7", "a seed of at least 0");
  refuses("train bigram.slc --data text -o run -j -1", "from 0 to 1024");
  refuses("train bigram.slc --data text -o ''", "an empty one");
  refuses("generate bigram.slc -w run --seed -1", "of at least 0");
  refuses("generate bigram.slc -w run -t warm", "expected a number");
  refuses("generate bigram.slc -w run --prompt=", "--prompt ''");
  refuses("eval bigram.slc", "expected --weights");
}

TEST_F(CommandLine, AWrongPromptPrintsNothing) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 1").status, 0);
  refuses("generate bigram.slc -w run -p \"$(printf 'a\\377')\"", "the prompt: byte 1");
}

TEST_F(CommandLine, AFullOrClosedOutputIsAFailure) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 1").status, 0);
  auto status = [&](const std::string &words) {
    return WEXITSTATUS(std::system(
        ("cd " + folder.path.string() + " && " + SLUICE_PROGRAM + " " + words + " 2>err.txt")
            .c_str()));
  };
  for (const char *words :
       {"generate bigram.slc -w run -n 3", "eval bigram.slc -w run --data heldout",
        "inspect bigram.slc", "inspect bigram.slc --json", "ngram --train text --test heldout",
        "--help"}) {
    EXPECT_EQ(status(std::string(words) + " >/dev/full"), 1) << words;
    EXPECT_EQ(status(std::string(words) + " >&-"), 1) << words;
    EXPECT_NE(readFile(folder / "err.txt").find("standard output"), std::string::npos) << words;
  }
  // A reader that leaves early is none. The pipe's status is the program's.
  for (const char *words :
       {"generate bigram.slc -w run -n 2000 --no-cache", "inspect bigram.slc --json --memory"}) {
    std::string pipe = "bash -c 'set -o pipefail; cd " + folder.path.string() + "; " +
                       SLUICE_PROGRAM + " " + words + " 2>err.txt | head -c 5 >/dev/null'";
    EXPECT_EQ(WEXITSTATUS(std::system(pipe.c_str())), 0) << words;
    EXPECT_EQ(readFile(folder / "err.txt"), "") << words;
  }
}

TEST_F(CommandLine, AnUnwritablePlaceIsStatusTwo) {
  refuses("train bigram.slc --data text -o text/run", "text/run: ");
  writeFile(folder / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":3}\n");
  refuses("report . -o text/page.html", "text/page.html");
  // A name that is no file stays what it is: a rename over /dev/null would take it from the whole
  // machine.
  std::filesystem::create_symlink("/dev/null", folder / "device");
  refuses("report . -o device", "not a regular file");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "device"));
}

// The signal comes once a step has been logged, however long that takes.
TEST_F(CommandLine, CtrlCSavesACheckpoint) {
  std::string command =
      "cd " + folder.path.string() + " && { " + SLUICE_PROGRAM +
      " train bigram.slc --data text -o run -n 100000000 --save-every 100000000 2>err.txt & } && "
      "for i in $(seq 600); do [ -s run/metrics.jsonl ] && break; sleep 0.1; done; "
      "kill -INT $!; wait $!";
  int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130) << readFile(folder / "err.txt");
  std::string latest = readFile(folder / "run/latest");
  EXPECT_GT(std::atoll(latest.c_str()), 0);
  EXPECT_EQ(sluice("eval bigram.slc -w run --data heldout").status, 0);
}

} // namespace
