// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program from a user's view: statuses, messages, JSON.
#include "Fixture.h"
#include "sluice/Support/Json.h"

#include <sys/wait.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

struct CommandOutcome {
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
  CommandOutcome sluice(const std::string &words) {
    std::string command = "cd " + folder.path.string() + " && " + SLUICE_PROGRAM + " " + words +
                          " >out.txt 2>err.txt </dev/null";
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, readFile(folder / "out.txt"),
            readFile(folder / "err.txt")};
  }

  void refuses(const std::string &words, const std::string &piece) {
    CommandOutcome outcome = sluice(words);
    EXPECT_EQ(outcome.status, 2) << words;
    EXPECT_NE(outcome.err.find(piece), std::string::npos) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.err.find("internal"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "") << words;
  }

  TemporaryFolder folder;
};

/// Every command that reads text reads it from standard input and compressed, and rejects other
/// formats.
TEST_F(CommandLine, CommandsReadTheSameData) {
  auto withInput = [&](const std::string &words) {
    std::string command = "cd " + folder.path.string() + " && " + SLUICE_PROGRAM + " " + words +
                          " >out.txt 2>err.txt <text";
    int status = std::system(command.c_str());
    return CommandOutcome{WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                          readFile(folder / "out.txt"), readFile(folder / "err.txt")};
  };
  std::string prepare = "cd " + folder.path.string() + " && gzip -k text && cp bigram.slc bytes";
  ASSERT_EQ(std::system(prepare.c_str()), 0);
  CommandOutcome trained = withInput("train bigram.slc --data - -o run -n 3");
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(readFile(folder / "run/data/data-1"), readFile(folder / "text"));
  CommandOutcome resumed = sluice("train bigram.slc --data - -o run -n 5 --resume");
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("standard input: the run's own copy is read instead, run/data/data-1"),
            std::string::npos)
      << resumed.err;
  std::string expected =
      Json::parse(sluice("eval bigram.slc -w run --data text --json").out).at("nats").dump();
  for (const CommandOutcome &outcome : {withInput("eval bigram.slc -w run --data - --json"),
                                        sluice("eval bigram.slc -w run --data text.gz --json")}) {
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out).at("nats").dump(), expected);
  }
  for (const std::string &words :
       {std::string("train bigram.slc -o new --data"), std::string("eval bigram.slc -w run --data"),
        std::string("analyze frequency bigram.slc -w run --data"),
        std::string("bench bigram.slc --data"), std::string("ngram --train text --test"),
        std::string("train bigram.slc -o new --data text --eval-data")}) {
    refuses(words + " bytes", "bytes: expected the data file, whose bytes are tokens, found a "
                              "Sluice artifact");
  }
  EXPECT_FALSE(isThere(folder / "new"));
  refuses("eval bigram.slc -w run --data bytes --raw", "bytes: byte ");
  CommandOutcome twice = withInput("train bigram.slc -o new --data - --eval-data -");
  EXPECT_EQ(twice.status, 2);
  EXPECT_NE(twice.err.find("found it twice"), std::string::npos) << twice.err;
}

TEST_F(CommandLine, TrainsEvaluatesAndGenerates) {
  CommandOutcome trained = sluice(
      "train bigram.slc --data text --eval-data heldout -o run -n 60 -j 2 --sample-prompt ab");
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.err.find("step 60/60"), std::string::npos);
  EXPECT_EQ(trained.err.find('\r'), std::string::npos); // plain lines in a pipe
  CommandOutcome scored = sluice("eval bigram.slc -w run --data heldout --json");
  ASSERT_EQ(scored.status, 0) << scored.err;
  Json score = Json::parse(scored.out);
  EXPECT_EQ(score["tokens"], 499);
  EXPECT_LT(score["bits_per_byte"], 6);
  CommandOutcome text = sluice("generate bigram.slc -w run -p hello -n 20 --seed 3 --top-k 5");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.substr(0, 5), "hello");
  EXPECT_EQ(text.out.size(), 26u);
  EXPECT_EQ(sluice("generate bigram.slc -w run -n 20 --no-echo --no-cache").out.size(), 20u);
  ASSERT_EQ(sluice("report run").status, 0);
  EXPECT_NE(readFile(folder / "run/report.html").find("<svg"), std::string::npos);
  refuses("report run ./run", "expected different runs, found ./run twice");
  refuses("eval bigram.slc -w run --data heldout --window 999", "--window: expected a window");
}

TEST_F(CommandLine, RejectsMissingArguments) {
  refuses("report", "expected RUN, found none; write it, as in sluice report RUN (");
  refuses("eval --data heldout bigram.slc -w run", "since a flag that takes several values");
}

TEST_F(CommandLine, InspectAndNgramPrintDocumentedFields) {
  CommandOutcome inspected = sluice("inspect bigram.slc --json --memory --extract parts");
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

TEST_F(CommandLine, BenchPrintsDocumentedFields) {
  CommandOutcome outcome = sluice("bench bigram.slc -n 2 -j 1 --kernels --generate --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Json json = Json::parse(outcome.out);
  for (const char *key : {"step_ms", "tokens_per_s", "fraction_of_peak", "peak_gflops",
                          "peak_gbytes_per_s", "recomputed_tokens_per_s"}) {
    EXPECT_GT(json[key], 0) << key;
  }
  EXPECT_EQ(json["kernels"].size(), 6u); // the launches of gradient and update
  EXPECT_TRUE(json.contains("cached_tokens_per_s"));
  refuses("bench bigram.slc --kernels --by-stage",
          "expected an artifact whose launches name their stages, found none; compile the spec");
}

TEST_F(CommandLine, BadInputHasStatusTwo) {
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

TEST_F(CommandLine, WrongFlagsHaveStatusTwoAndASuggestion) {
  refuses("train bigram.slc --dta text -o run", "did you mean --data?");
  refuses("trian", "did you mean train?");
  refuses("train bigram.slc --data text -o run -n many", "many");
  refuses("train bigram.slc --data text -o run --device gpu", "gpu");
  refuses("", "subcommand");
  EXPECT_EQ(sluice("train --help").status, 0);
}

TEST_F(CommandLine, MessagesHaveTheExpectedForm) {
  refuses("train --data text bigram.slc -o run",
          "sluice train: expected ART, found none; write it first");
  refuses("train bigram.slc --data --out run", "expected a file, found \"--out\"");
  refuses("train bigram.slc --data text -o run -n 1.5", "expected an integer");
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

TEST_F(CommandLine, InvalidPromptPrintsNothing) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 1").status, 0);
  refuses("generate bigram.slc -w run -p \"$(printf 'a\\377')\"", "the prompt: byte 1");
}

TEST_F(CommandLine, FullOrClosedOutputFails) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 1").status, 0);
  auto status = [&](const std::string &words) {
    return WEXITSTATUS(std::system(
        ("cd " + folder.path.string() + " && " + SLUICE_PROGRAM + " " + words + " 2>err.txt")
            .c_str()));
  };
  for (const char *words :
       {"generate bigram.slc -w run -n 3", "eval bigram.slc -w run --data heldout",
        "inspect bigram.slc", "inspect bigram.slc --json", "ngram --train text --test heldout",
        "score text text", "--help"}) {
    EXPECT_EQ(status(std::string(words) + " >/dev/full"), 1) << words;
    EXPECT_EQ(status(std::string(words) + " >&-"), 1) << words;
    EXPECT_NE(readFile(folder / "err.txt").find("standard output"), std::string::npos) << words;
  }
  // A reader that closes early is not an error. The pipe's status is the program's.
  for (const char *words :
       {"generate bigram.slc -w run -n 2000 --no-cache", "inspect bigram.slc --json --memory"}) {
    std::string pipe = "bash -c 'set -o pipefail; cd " + folder.path.string() + "; " +
                       SLUICE_PROGRAM + " " + words + " 2>err.txt | head -c 5 >/dev/null'";
    EXPECT_EQ(WEXITSTATUS(std::system(pipe.c_str())), 0) << words;
    EXPECT_EQ(readFile(folder / "err.txt"), "") << words;
  }
}

TEST_F(CommandLine, UnwritablePathHasStatusTwo) {
  refuses("train bigram.slc --data text -o text/run", "text/run: ");
  writeFile(folder / "metrics.jsonl", "{\"step\":1,\"bits_per_byte\":3}\n");
  refuses("report . -o text/page.html", "text/page.html");
  // A path that is not a file does not change: a rename over /dev/null would remove it for the
  // complete system.
  std::filesystem::create_symlink("/dev/null", folder / "device");
  refuses("report . -o device", "not a regular file");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "device"));
}

// Every option that names an output file, with a file that its command reads. The check precedes
// all work: the flags need no GPU, and nothing is compiled.
TEST_F(CommandLine, OutputReplacesNoInputAndNoRun) {
  writeFile(folder / "page", "<!doctype html><p>a page of held-out text</p>");
  ASSERT_EQ(sluice("train bigram.slc --data text --eval-data page -o run -n 2").status, 0);
  std::filesystem::copy(folder / "bigram.slc", folder / "other.slc");
  std::filesystem::copy(TINY_MODEL, folder / "model.json");
  const std::string weights = "run/checkpoints/2/weights.safetensors";
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"eval bigram.slc -w run --data text --per-token", "text"},
      {"logits bigram.slc -w run --data text -o", "text"},
      {"analyze context bigram.slc -w run --data text --picture", "bigram.slc"},
      {"generate bigram.slc -w run -p ab -n 1 --trace", weights},
      {"generate bigram.slc -w run -p ab -n 1 --save-session", weights},
      {"bench bigram.slc --device cuda --tune", "bigram.slc"},
      {"report run -o", "run/latest"},
      {"report run -o", "bigram.slc"},
      {"check model.json --picture", "model.json"},
      {"check model.json --certificate", "model.json"},
      {"check model.json --smt", "model.json"},
      {"compile model.json -o", "model.json"}};
  std::map<std::string, std::string> before;
  for (const std::string &file :
       {"text", "bigram.slc", "other.slc", "model.json", "run/latest", "run/metrics.jsonl"}) {
    before[file] = readFile(folder / file);
  }
  before[weights] = readFile(folder / weights);
  for (const auto &[command, input] : commands) {
    refuses(command + " " + input + " --force", "; name another file");
    refuses(command + (command.starts_with("compile") ? " text" : " other.slc"),
            "; name another file, or give --force");
  }
  for (const auto &[file, contents] : before) {
    EXPECT_TRUE(readFile(folder / file) == contents) << file;
  }
  for (const std::string &name : listFolder(folder.path)) {
    EXPECT_EQ(name.find("tmp-"), std::string::npos) << name;
  }
  refuses(commands[0].first + " run/metrics.jsonl --force", "found a part of the run");
  refuses("report run -o page", "expected --out to name a new file, found one that this command");
  refuses("inspect bigram.slc --extract run", "found a run's directory; name another directory");
  refuses("train bigram.slc --data text -o run/checkpoints/9", "found a part of the run");
}

TEST_F(CommandLine, OutputReplacesItsOwnKindOrOthersByForce) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 1").status, 0);
  const std::string losses = "eval bigram.slc -w run --data heldout --per-token ";
  EXPECT_EQ(sluice(losses + "run/losses.npy").status, 0);
  EXPECT_EQ(sluice(losses + "run/losses.npy").status, 0);
  refuses(losses + "text",
          "text: expected --per-token to name a new file or a NumPy array (.npy) to "
          "replace, found text; name another file, or give --force");
  refuses(losses + "x.svg", "found a name that ends in .svg; name x.npy, or give --force");
  EXPECT_EQ(sluice(losses + "text --force").status, 0);
  EXPECT_EQ(readFile(folder / "text").substr(1, 5), "NUMPY");
  EXPECT_EQ(sluice("report run").status, 0);
  EXPECT_EQ(sluice("report run").status, 0);
  EXPECT_EQ(sluice("inspect bigram.slc --extract parts").status, 0);
  EXPECT_EQ(sluice("inspect bigram.slc --extract parts").status, 0);
  std::filesystem::create_directory(folder / "mine");
  writeFile(folder / "mine/spec.json", "{}");
  refuses("inspect bigram.slc --extract mine", "found spec.json in it; name another directory");
}

TEST_F(CommandLine, ReportsSwappedFilesWithARemedy) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 1").status, 0);
  std::filesystem::copy(TINY_MODEL, folder / "model.json");
  writeFile(folder / "pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  writeFile(folder / "page", "<!DOCTYPE html><html></html>");
  writeFile(folder / "model.pt", std::string("PK\x03\x04\0\0archive/data.pkl", 22));
  refuses("train model.json --data text -o r", "model.json: expected a Sluice artifact, found a "
                                               "model spec (JSON); compile it first: sluice "
                                               "compile model.json -o model.sla");
  refuses("inspect run", "found a run's directory; name the artifact that it was trained from");
  refuses("check bigram.slc", "bigram.slc: expected a model spec, found a Sluice artifact; ");
  refuses("compile bigram.slc -o x.sla", "sluice inspect bigram.slc --extract DIR writes it");
  refuses("check run", "found a run's directory; its spec is run/spec.json");
  refuses("report bigram.slc", "expected a run, found a Sluice artifact; name the directory that");
  refuses("report run/checkpoints/1",
          "found a checkpoint's directory; name the run's directory, two");
  const std::string eval = "eval bigram.slc --data heldout -w ";
  refuses(eval + "pointer", "pointer: expected weights, found a Git LFS pointer, which only names "
                            "the file; fetch the file itself with git lfs pull");
  refuses(eval + "page", "found an HTML page; ");
  refuses(eval + "model.pt", "found a PyTorch file (pickle); convert it, as in python3 -c");
  refuses(eval + "bigram.slc", "found a Sluice artifact; an artifact holds no weights");
  refuses("generate bigram.slc -w run --session pointer", "expected a session, found a Git LFS");
  std::filesystem::create_directory(folder / "hub");
  writeFile(folder / "hub/model.safetensors", "x");
  refuses(eval + "hub", "found a directory with model.safetensors; name hub/model.safetensors");
  refuses(eval + "run --per-token a.npy b.npy", "expected one value after --per-token, found "
                                                "\"b.npy\" as well; leave one of them out");
  refuses(eval + "run --labels a=b c=d", "expected one value after --labels, found \"c=d\" as "
                                         "well; repeat the flag, as in --labels c=d");
  refuses(eval + "run --labels a=b c", "repeat the flag, as in --labels NAME=c");
  refuses("generate bigram.slc -w run -t -nan", "--temperature: expected a number, found \"-nan\"");
  refuses("generate bigram.slc -w run --top-p -NaN", "found \"-NaN\"");
}

TEST_F(CommandLine, AcceptsRandomSeedAndNotesEscapes) {
  CommandOutcome drawn = sluice("train bigram.slc --data text -o run -n 1 --seed random");
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  size_t at = drawn.err.find("--seed random: --seed ");
  ASSERT_NE(at, std::string::npos) << drawn.err;
  int64_t seed = std::atoll(drawn.err.c_str() + at + 22);
  std::string state = readFile(folder / "run/checkpoints/1/state.json");
  EXPECT_EQ(Json::parse(state)["seed"], seed);
  CommandOutcome again =
      sluice("train bigram.slc --data text -o again -n 1 --seed " + std::to_string(seed));
  EXPECT_EQ(readFile(folder / "again/checkpoints/1/weights.safetensors"),
            readFile(folder / "run/checkpoints/1/weights.safetensors"));
  CommandOutcome noted = sluice("generate bigram.slc -w run -p ab -n 3 --stop '\\n' --seed random");
  EXPECT_EQ(noted.status, 0);
  EXPECT_NE(noted.err.find("note: --stop: \\n is taken as two characters"), std::string::npos)
      << noted.err;
  EXPECT_NE(noted.err.find("--seed random: --seed "), std::string::npos) << noted.err;
  noted = sluice("generate bigram.slc -w run -p ab -n 3 --seed Random --json");
  EXPECT_NE(noted.err.find("--seed " + Json::parse(noted.out)["seed"].dump() + " "),
            std::string::npos);
  noted = sluice("generate bigram.slc -w run -p ab -n 3 --stop \"$(printf 'x\\ty')\"");
  EXPECT_EQ(noted.err.find("--stop"), std::string::npos) << noted.err;
}

TEST_F(CommandLine, EvalPrintsOneLinePerFile) {
  ASSERT_EQ(sluice("train bigram.slc --data text -o run -n 1").status, 0);
  CommandOutcome people = sluice("eval bigram.slc -w run --data heldout text");
  EXPECT_NE(people.out.find("  heldout\n"), std::string::npos) << people.out;
  EXPECT_NE(people.out.find("  text\nall 2 files:\nbits per token"), std::string::npos)
      << people.out;
  Json json = Json::parse(sluice("eval bigram.slc -w run --data heldout text --json").out);
  ASSERT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][0]["file"], "heldout");
  EXPECT_EQ(json["files"][0]["tokens"], 499);
  Json alone = Json::parse(sluice("eval bigram.slc -w run --data heldout --json").out);
  EXPECT_EQ(json["files"][0]["bits_per_byte"], alone["bits_per_byte"]);
}

// The signal is sent once a step has been logged, however long that takes.
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

/// Units of flags, and numbers of processes; the model's own numbers are in ScaleModelTest.
TEST_F(CommandLine, PlansScale) {
  const std::string model = "plan-scale bigram.slc ", network = model + "--latency 10ms ",
                    all = network + "--bandwidth 0.1MB/s --flops 1Mflop/s ";
  CommandOutcome outcome = sluice(all + "-p 4 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  Json steps = Json::parse(outcome.out)["steps"];
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_NEAR(steps[1]["all_reduce_ms"].get<double>(), 1e3 * 2 * (0.01 + 0.33024), 1e-6);
  for (const char *same :
       {"--bandwidth 800kbit/s", "--bandwidth 1e5B/s", "--bandwidth 97.65625KiB/s"}) {
    EXPECT_EQ(sluice(network + same + " --flops 1e6 -p 4 --json").out, outcome.out);
  }
  EXPECT_EQ(Json::parse(sluice(all + "-p 1,3 --json --rows 3").out)["steps"][1]["processes"], 3);
  EXPECT_EQ(Json::parse(sluice(all + "-p 6 --json --rows 6").out)["steps"].size(), 3u); // 1, 2, 6
  EXPECT_EQ(Json::parse(sluice(all + "-p 6 --json --scaling weak").out)["steps"].size(), 4u);
  EXPECT_NE(sluice(all + "-p 2").out.find("the artifact names no layers"), std::string::npos);
  // More processes have more latencies: sharding may be faster with a few processes alone.
  const std::string slow = model + "--bandwidth 1GB/s --flops 1Mflop/s -p 64 --rows 64 --latency ";
  Json sharded = Json::parse(sluice(slow + "20ms --json").out);
  std::vector<int64_t> faster = sharded["sharding_is_faster"];
  for (const Json &step : sharded["steps"]) {
    bool isFaster = step["sharded"]["step_ms"].get<double>() < step["step_ms"].get<double>();
    EXPECT_EQ(isFaster, std::ranges::count(faster, step["processes"].get<int64_t>()) == 1) << step;
  }
  ASSERT_GT(faster.size(), 1u);
  ASSERT_LT(faster.back(), 64);
  EXPECT_NE(sluice(slow + "20ms")
                .out.find("(--shard) makes the step faster with 2 to " +
                          std::to_string(faster.back()) + " processes\n"),
            std::string::npos);
  EXPECT_NE(sluice(slow + "1s").out.find("(--shard) makes the step faster in none of these\n"),
            std::string::npos);
  refuses(all + "-p 3", "divide the 4 rows of a step, found 3");
  refuses(all + "-p 1,1", "rising numbers");
  refuses(all + "-p 0", "found \"0\"");
  refuses(all + "-p 2 --step 4", "ROWS=TIME");
  refuses(all + "-p 2 --step 4=0", "ROWS=TIME");
  refuses(all + "-p 2 --step 2=1s --step 4=1s", "do not rise");
  refuses(network + "-p 2 --flops 1e6 --bandwidth 10GB", "100Gbit/s");
  refuses(network + "-p 2 --flops 1e6 --bandwidth 0", "above 0");
  refuses(network + "-p 2 --flops -1e6 --bandwidth 1e5B/s", "above 0");
  refuses(network + "-p 2 --bandwidth 1e5B/s", "--flops or --step");
  refuses(model + "-p 2 --bandwidth 1e5B/s --flops 1e6 --latency 1h", "20us");
  // Without a unit bytes could be bits, and seconds milliseconds.
  refuses(network + "-p 2 --flops 1e6 --bandwidth 1e5", "with its unit, such as 10GB/s");
  refuses(network + "-p 2 --flops 1e6 --bandwidth 1MB/s --memory-bandwidth 1e9", "with its unit");
  refuses(model + "-p 2 --bandwidth 1MB/s --flops 1e6 --latency 20", "with its unit, such as 20us");
  refuses(all + "-p 2 --step 4=1.25", "ROWS=TIME");
  refuses(all + "-p 2 --scaling wek", "did you mean weak?");
}

} // namespace
