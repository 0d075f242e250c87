// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program of a bundle for a machine with a GPU. It needs only the driver. Exit status: 0
// success; 1 a kernel was wrong; 2 bad input, or no driver.
#include "GpuCheck.h"

#include "sluice/Runtime/Data/TextLike.h"
#include "sluice/Runtime/Device/RecordLaunches.h"
#include "sluice/Runtime/Device/Recording.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Outputs.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace {

using namespace sluice::gpucheck;
using sluice::Path;

struct Flags {
  std::string artifact, recording, output, target, device = "cuda", bundle, torch;
  int64_t length = 0, rows = 0, vocabulary = 0, count = 0, rank = 0, ranks = 1;
};

void write(const Path &path, const Json &json) {
  sluice::replaceFile(path, sluice::asBytes(json.dump(1) + "\n"));
}

void checkOutput(const Flags &flags) {
  sluice::checkOutputs({{"--output", flags.output, sluice::FileKind::Recording}},
                       {flags.artifact, flags.recording}, /*force=*/false);
}

void record(const Flags &flags) {
  checkOutput(flags);
  auto artifact = sluice::runtime::Artifact::load(flags.artifact);
  const auto &model = artifact->plan().model;
  sluice::runtime::Recording recording =
      recordLaunches(artifact, flags.target, flags.length > 0 ? flags.length : model.context,
                     flags.rows > 0 ? flags.rows : model.batch);
  writeRecording(flags.output, recording);
  std::cout << recording.launches.size() << " kernels recorded" << std::endl;
}

int check(const Flags &flags) {
  checkOutput(flags);
  Json made = {{"checks",
                {checkRecording(flags.artifact, flags.recording, flags.device, flags.target,
                                flags.output)}}};
  for (const Json &kernel : made["checks"][0]["kernels"]) {
    std::cout << (isRight(kernel) ? "ok " : "WRONG ") << kernel["kernel"].get<std::string>() << ": "
              << kernel["wrong"] << " of " << kernel["checked"] << " numbers wrong, "
              << kernel["differing"] << " other bits than the recording's. "
              << kernel["first"].get<std::string>() << "\n";
  }
  return passed(made) ? 0 : 1;
}

int exchange(const Flags &flags) {
  Json made = checkExchange(flags.artifact, flags.rank, flags.ranks, flags.output);
  std::cout << made.dump() << std::endl;
  return made["wrong"] == 0 ? 0 : 1;
}

int run(const Flags &flags) {
  Path earlier = Path(flags.output) / "sluice.json";
  auto isEarlier = [&] {
    return sluice::isRegularFile(earlier) && readJson(earlier, "run").contains("checks");
  };
  sluice::checkOutputFolder("--output", flags.output, {"sluice.json"}, isEarlier, {flags.bundle},
                            /*force=*/false);
  sluice::makeFolder(flags.output);
  Json made = runBundle(flags.bundle, flags.output);
  return passed(made) ? 0 : 1;
}

void table(const Flags &flags) {
  Path folder = flags.output;
  Json bundle = readJson(Path(flags.bundle) / "bundle.json", "bundle"),
       ours = readJson(folder / "sluice.json", "run"),
       torch = flags.torch.empty() ? Json() : readJson(flags.torch, "run of PyTorch");
  std::cout << makeTable(bundle, ours, torch) << std::flush;
  write(folder / "gpu-check.json", {{"sluice", ours}, {"pytorch", torch}});
}

/// Prints one token per line for the references: their embeddings must get the same tokens.
void printTokens(const Flags &flags) {
  std::vector<int32_t> tokens(static_cast<size_t>(flags.count));
  sluice::runtime::fillTextLike(tokens, flags.vocabulary);
  std::string text;
  for (int32_t token : tokens) {
    text += std::to_string(token) + "\n";
  }
  std::cout << text << std::flush;
}

int parse(int argc, char **argv) {
  CLI::App program("Checks and times GPU code where there is a GPU and no compiler.",
                   "sluice-gpu-check");
  program.require_subcommand(1);
  Flags flags;
  int status = 0;
  CLI::App *recordCommand = program.add_subcommand("record", "Record launches on the emulator");
  recordCommand->add_option("ART", flags.artifact, "Artifact")->required();
  recordCommand->add_option("-o,--output", flags.output, "Recording to write")->required();
  recordCommand->add_option("--gpu-target", flags.target, "Code to run: sm_80, sm_90a");
  recordCommand->add_option("--length", flags.length, "Valid tokens a row; 0: all");
  recordCommand->add_option("--rows", flags.rows, "Valid rows; 0: all");
  recordCommand->callback([&] { record(flags); });
  CLI::App *checkCommand = program.add_subcommand("check", "Run a recording and compare");
  checkCommand->add_option("ART", flags.artifact, "Artifact")->required();
  checkCommand->add_option("REC", flags.recording, "Recording")->required();
  checkCommand->add_option("-d,--device", flags.device, "cuda or emulator")
      ->check(CLI::IsMember({"cuda", "emulator"}));
  checkCommand->add_option("--gpu-target", flags.target, "Code to run: sm_80, sm_90a");
  checkCommand->add_option("-o,--output", flags.output, "Recording to write: what the device left");
  checkCommand->callback([&] { status = check(flags); });
  CLI::App *exchangeCommand =
      program.add_subcommand("exchange", "Exchange memory of GPUs by NCCL and compare");
  exchangeCommand->add_option("ART", flags.artifact, "Artifact")->required();
  exchangeCommand->add_option("--rank", flags.rank, "This process, from 0, and its GPU")
      ->check(CLI::Range(int64_t(0), int64_t(63)));
  exchangeCommand->add_option("--ranks", flags.ranks, "Number of processes, one per GPU")
      ->check(CLI::Range(int64_t(1), int64_t(64)));
  exchangeCommand
      ->add_option("-o,--output", flags.output, "Empty folder that the processes have in common")
      ->required()
      ->check(CLI::ExistingDirectory);
  exchangeCommand->callback([&] { status = exchange(flags); });
  CLI::App *runCommand = program.add_subcommand("run", "Check and time all that a bundle holds");
  runCommand->add_option("BUNDLE", flags.bundle, "Folder of the bundle")->required();
  runCommand->add_option("-o,--output", flags.output, "Folder for results")->required();
  runCommand->callback([&] { status = run(flags); });
  CLI::App *tableCommand = program.add_subcommand("table", "Print a run as a table");
  tableCommand->add_option("BUNDLE", flags.bundle, "Folder of the bundle")->required();
  tableCommand->add_option("-o,--output", flags.output, "Folder of the results")->required();
  tableCommand->add_option("--torch", flags.torch, "What gpu_check_torch.py wrote");
  tableCommand->callback([&] { table(flags); });
  CLI::App *tokensCommand = program.add_subcommand("tokens", "Print the tokens that are timed");
  tokensCommand->add_option("VOCABULARY", flags.vocabulary, "How many ids there are")
      ->required()
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24));
  tokensCommand->add_option("COUNT", flags.count, "How many to print")
      ->required()
      ->check(CLI::Range(int64_t(0), int64_t(1) << 28));
  tokensCommand->callback([&] { printTokens(flags); });
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  return status;
}

} // namespace

int main(int argc, char **argv) {
  try {
    return parse(argc, argv);
  } catch (const sluice::JobError &error) {
    std::cerr << "sluice-gpu-check: error: " << error.what() << std::endl;
    return 1;
  } catch (const std::exception &error) {
    std::cerr << "sluice-gpu-check: error: " << error.what() << std::endl;
    return 2;
  }
}
