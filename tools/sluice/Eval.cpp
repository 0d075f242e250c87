// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Commands.h"
#include "Common.h"
#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Evaluator.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

struct EvalFlags {
  std::string artifact, weights;
  std::vector<std::string> data;
  DeviceOptions device;
  EvaluationOptions options;
  bool json = false;
};

void runEval(const EvalFlags &flags) {
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  std::vector<ByteFile> files =
      readByteFiles({flags.data.begin(), flags.data.end()}, executor->plan().model.vocabulary, 2,
                    "one byte to predict from another");
  Path weights = loadWeights(flags.weights, *executor, printNotice);
  EvaluationResult result;
  {
    Progress progress;
    result = evaluate(*executor, files, flags.options,
                      [&](double share) { progress.draw(share, "evaluating"); });
  }
  if (flags.json) {
    printJson({{"bits_per_token", result.bitsPerToken()},
               {"bits_per_byte", result.bitsPerByte()},
               {"perplexity", result.perplexity()},
               {"nats", result.nats},
               {"tokens", result.tokens},
               {"bytes", result.tokens},
               {"window", result.window},
               {"stride", result.stride},
               {"protocol", describeProtocol(result)},
               {"weights", weights.string()}});
    return;
  }
  std::cout << format("bits per token  %.4f\nbits per byte   %.4f\nperplexity      %.4f\nscored "
                      "tokens   %lld\n",
                      result.bitsPerToken(), result.bitsPerByte(), result.perplexity(),
                      static_cast<long long>(result.tokens))
            << "weights         " << weights.string() << "\nprotocol        "
            << describeProtocol(result) << std::endl;
}

} // namespace

void registerEval(CLI::App &program) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App *command =
      program.add_subcommand("eval", "Measure bits per byte of text that a model has not seen");
  command->add_option("ART", flags->artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("-w,--weights", flags->weights,
                   "Weights: a run, a checkpoint or a safetensors file")
      ->required();
  command->add_option("--data", flags->data, "Text to score: files whose bytes are token ids")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  command->add_option("--window", flags->options.window, "Tokens a window; 0 takes the context");
  command->add_option("--stride", flags->options.stride,
                      "Tokens from a window's start to the next's; 0 takes half the window");
  command->add_option("--tokens", flags->options.mostTokens,
                      "Tokens to score at most; 0 scores all");
  command->add_flag("--json", flags->json, "Print one JSON object");
  addDeviceOptions(*command, flags->device);
  command->callback([flags] { runEval(*flags); });
}

} // namespace sluice::cli
