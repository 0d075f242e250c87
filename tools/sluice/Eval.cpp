// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Commands.h"
#include "Common.h"
#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Npy.h"
#include "sluice/Runtime/Sources.h"
#include "sluice/Spec/Spec.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

struct EvalFlags {
  std::string artifact, weights, perToken, images;
  std::vector<std::string> data, inputs;
  DeviceOptions device;
  EvaluationOptions options;
  bool json = false;
};

HeldOut readScored(const EvalFlags &flags, const Plan &plan) {
  SourceFiles files;
  files.data.assign(flags.data.begin(), flags.data.end());
  files.inputs = parseInputFiles("--input", flags.inputs);
  files.images = parseImages(flags.images);
  HeldOut scored(files, plan);
  if (scored.getItems() && !flags.perToken.empty()) {
    throw UserError("sluice eval: expected no --per-token, as " +
                    std::string(scored.getItems()->noun()) +
                    " are scored one by one, found it; "
                    "leave it out");
  }
  for (const std::string &note : scored.notes()) {
    printNotice(note);
  }
  return scored;
}

void runEval(const EvalFlags &flags) {
  std::vector<std::string> inputs = flags.data;
  inputs.insert(inputs.end(), {flags.artifact, flags.weights});
  requireOther("--per-token", flags.perToken, inputs);
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  HeldOut scored = readScored(flags, executor->plan());
  Path weights = loadWeights(flags.weights, *executor, printNotice);
  std::optional<NpyWriter> losses;
  if (!flags.perToken.empty()) {
    losses.emplace(flags.perToken,
                   std::vector{countScored(scored.usedFiles(), flags.options.mostTokens,
                                           executor->plan().model.first)});
  }
  EvaluationResult result;
  {
    Progress progress;
    auto draw = [&](double share) { progress.draw(share, "evaluating"); };
    auto append = [&](std::span<const float> nats) { losses->append(nats); };
    result =
        scored.score(*executor, flags.options, draw, losses ? NumberSink(append) : NumberSink());
  }
  if (losses) {
    losses->finish();
  }
  if (flags.json) {
    nlohmann::ordered_json named = nlohmann::ordered_json::object();
    for (const auto &[name, nats] : result.losses) {
      named[name] = nats;
    }
    nlohmann::ordered_json json = {{"bits_per_token", result.bitsPerToken()},
                                   {"bits_per_byte", result.bitsPerByte()},
                                   {"perplexity", result.perplexity()},
                                   {"nats", result.nats},
                                   {"tokens", result.tokens},
                                   {"bytes", result.tokens},
                                   {"window", result.window},
                                   {"stride", result.stride},
                                   {"protocol", describeProtocol(result)},
                                   {"skipped_files", scored.skippedFiles().size()},
                                   {"leak_allowed", executor->plan().verdict != "proved"},
                                   {"weights", weights.string()}};
    if (!named.empty()) {
      json["losses"] = named;
    }
    if (result.words > 0) {
      json["words"] = result.words;
      json["word_perplexity"] = result.wordPerplexity();
    }
    if (!flags.images.empty()) {
      json["images"] = result.items;
      json["bits_per_dim"] = result.bitsPerToken();
    }
    printJson(json);
    return;
  }
  std::cout << format("bits per token  %.4f\nbits per byte   %.4f\nperplexity      %.4f\nscored "
                      "tokens   %lld\n",
                      result.bitsPerToken(), result.bitsPerByte(), result.perplexity(),
                      static_cast<long long>(result.tokens));
  if (result.words > 0) {
    std::cout << format("per word        %.4f perplexity, %lld words\n", result.wordPerplexity(),
                        static_cast<long long>(result.words));
  }
  if (!flags.images.empty()) {
    std::cout << format("bits per dim    %.4f\n", result.bitsPerToken());
  }
  for (const auto &[name, number] : result.losses) {
    if (name.ends_with(spec::boundaryShare)) {
      std::string segments = name.substr(0, name.size() - spec::boundaryShare.size());
      std::cout << (number > 0 ? format("shortening      %.3f tokens a segment of %s\n", 1 / number,
                                        segments.c_str())
                               : "shortening      no segments of " + segments + "\n");
    } else {
      std::cout << format("loss %-10s %.4f nats\n", name.c_str(), number);
    }
  }
  std::cout << "weights         " << weights.string() << "\nprotocol        "
            << describeProtocol(result) << std::endl;
}

} // namespace

void registerEval(CLI::App &program) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App *command =
      program.add_subcommand("eval", "Measure bits per byte of text that a model has not seen");
  addModelOptions(*command, flags->artifact, flags->weights);
  command->add_option("--data", flags->data, "Text to score: files whose bytes are token ids")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  command
      ->add_option("--input", flags->inputs,
                   "A file for a named input of the model: its line i belongs to line i of --data; "
                   "may be given several times")
      ->type_name("NAME=FILE")
      ->default_str("")
      ->allow_extra_args(false);
  addImages(*command, flags->images, "--data");
  command->add_option("--window", flags->options.window, "Tokens a window; 0 takes the context");
  command->add_option("--stride", flags->options.stride,
                      "Tokens from a window's start to the next's; 0 takes half the window");
  command->add_option("--tokens", flags->options.mostTokens,
                      "Tokens to score at most; 0 scores all");
  command
      ->add_option("--per-token", flags->perToken,
                   "Write the loss of every scored token, nats in the order of the text, as an "
                   "array of f32 (.npy)")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "Print one JSON object");
  addDeviceOptions(*command, flags->device);
  command->callback([flags] { runEval(*flags); });
}

} // namespace sluice::cli
