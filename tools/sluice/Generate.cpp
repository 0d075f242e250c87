// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Commands.h"
#include "Common.h"
#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Generator.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

struct GenerateFlags {
  std::string artifact, weights, prompt;
  int64_t tokens = 256;
  DeviceOptions device;
  SamplingOptions options;
  bool noCache = false, noEcho = false;
};

void runGenerate(const GenerateFlags &flags) {
  checkSampling(flags.options);
  if (flags.tokens < 0) {
    throw UserError("expected --tokens of at least 0, found " + std::to_string(flags.tokens));
  }
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  loadWeights(flags.weights, *executor, printNotice);
  // A model needs something to read: no prompt means the start of a line.
  std::string prompt = flags.prompt.empty() ? "\n" : flags.prompt;
  checkPrompt(prompt, executor->plan().model.vocabulary); // before it is printed
  if (!flags.noEcho) {
    std::cout << flags.prompt << std::flush;
  }
  generate(*executor, prompt, flags.tokens, flags.options, [](uint8_t byte) {
    std::cout.put(static_cast<char>(byte)).flush();
    return std::cout.good(); // stop quietly where the reader has gone
  });
  if (std::cout.good() && !flags.noEcho) {
    std::cout << std::endl;
  }
}

} // namespace

void registerGenerate(CLI::App &program) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App *command =
      program.add_subcommand("generate", "Continue a text, byte by byte, to the standard output");
  command->add_option("ART", flags->artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("-w,--weights", flags->weights,
                   "Weights: a run, a checkpoint or a safetensors file")
      ->required();
  command->add_option("-p,--prompt", flags->prompt,
                      "Text to continue; empty starts after a newline. Of a prompt longer than the "
                      "context, and of the "
                      "text as it grows, the model sees the last context tokens");
  command->add_option("-n,--tokens", flags->tokens, "Tokens (bytes) to write");
  command->add_option("-t,--temperature", flags->options.temperature,
                      "Divides the logits; 0 takes the likeliest");
  command->add_option("--top-k", flags->options.topK,
                      "Sample among the k likeliest; 0 samples among all");
  command->add_option("--top-p", flags->options.topP,
                      "Sample among the likeliest that together reach this probability");
  command->add_option("--seed", flags->options.seed, "Seed of the sampling");
  command->add_flag("--no-echo", flags->noEcho,
                    "Print the continuation alone: no prompt, no newline at the end");
  command->add_flag("--no-cache", flags->noCache,
                    "Recompute everything for each token (what this version does in any case)");
  addDeviceOptions(*command, flags->device);
  command->callback([flags] { runGenerate(*flags); });
}

} // namespace sluice::cli
