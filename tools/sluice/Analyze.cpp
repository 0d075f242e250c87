// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice analyze`: what a trained model does with its context and with rare tokens.
#include "Commands.h"
#include "Common.h"
#include "sluice/Runtime/Analyses.h"
#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Text.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

struct AnalyzeFlags {
  std::string kind, artifact, weights, picture;
  std::vector<std::string> data, train;
  ContextOptions context;
  int64_t bins = 5;
  DeviceOptions device;
  bool json = false;
};

/// Flags that mean nothing to the analysis that was asked for.
void checkFlags(const AnalyzeFlags &flags, const CLI::App &command) {
  bool isContext = flags.kind == "context";
  for (const char *flag : {"--length", "--windows", "--seed"}) {
    if (!isContext && command.count(flag) > 0) {
      throw UserError(std::string("expected ") + flag +
                      " with the analysis context alone, found frequency; leave it out");
    }
  }
  for (const char *flag : {"--train", "--bins"}) {
    if (isContext && command.count(flag) > 0) {
      throw UserError(std::string("expected ") + flag +
                      " with the analysis frequency alone, found context; leave it out");
    }
  }
  if (flags.bins < 2 || flags.bins > 256) {
    throw UserError("--bins: expected a number from 2 to 256, found " + std::to_string(flags.bins));
  }
  if (flags.context.mostWindows < 0) {
    throw UserError("--windows: expected 0, for all, or more, found " +
                    std::to_string(flags.context.mostWindows));
  }
}

nlohmann::json toJson(const ContextResult &result) {
  nlohmann::json places = nlohmann::json::array();
  for (const ContextResult::Place &place : result.places) {
    places.push_back({{"distance", place.distance},
                      {"bits", place.plain},
                      {"bits_shuffled", place.shuffled},
                      {"increase", place.increase()},
                      {"standard_error", place.error}});
  }
  return {{"analysis", "context"},
          {"length", result.length},
          {"windows", result.windows},
          {"seed", result.seed},
          {"places", places}};
}

nlohmann::json toJson(const FrequencyResult &result) {
  nlohmann::json bins = nlohmann::json::array();
  for (const FrequencyResult::Bin &bin : result.bins) {
    bins.push_back({{"tokens", bin.tokens},
                    {"share", bin.share},
                    {"scored", bin.scored},
                    {"bits", bin.scored > 0 ? nlohmann::json(bin.bits) : nlohmann::json()},
                    {"standard_error", bin.error}});
  }
  return {{"analysis", "frequency"}, {"bins", bins}};
}

/// Distances in runs that double: 1, 2, 3-4, 5-8, ...
void print(const ContextResult &result) {
  std::cout << format("%lld windows of %lld tokens, the first half of each shuffled\n",
                      static_cast<long long>(result.windows),
                      static_cast<long long>(result.length))
            << "tokens behind it    bits  shuffled  increase\n";
  auto half = static_cast<int64_t>(result.places.size());
  for (int64_t first = 1, last = 1; first <= half; first = last + 1, last = std::min(half, 2 * last)) {
    double plain = 0, shuffled = 0;
    for (int64_t distance = first; distance <= last; ++distance) {
      const ContextResult::Place &place = result.places[static_cast<size_t>(distance - 1)];
      plain += place.plain / static_cast<double>(last - first + 1);
      shuffled += place.shuffled / static_cast<double>(last - first + 1);
    }
    std::string span = std::to_string(first);
    span += last > first ? "-" + std::to_string(last) : "";
    std::cout << format("%16s  %6.3f  %8.3f  %8.3f\n", span.c_str(), plain, shuffled,
                        shuffled - plain);
  }
}

void print(const FrequencyResult &result) {
  std::cout << "bin  kinds   share    scored    bits\n";
  for (size_t i = 0; i < result.bins.size(); ++i) {
    const FrequencyResult::Bin &bin = result.bins[i];
    std::string bits = bin.scored > 0 ? format("%.3f", bin.bits) : "-";
    std::cout << format("%3zu  %5zu  %5.1f%%  %8lld  %6s\n", i + 1, bin.tokens.size(),
                        100 * bin.share, static_cast<long long>(bin.scored), bits.c_str());
  }
}

template <typename Result>
void report(const AnalyzeFlags &flags, const Result &result, const std::string &page) {
  if (!flags.picture.empty()) {
    replaceFile(flags.picture, asBytes(page));
  }
  if (flags.json) {
    printJson(toJson(result));
  } else {
    print(result);
  }
}

void runAnalyze(const AnalyzeFlags &flags, const CLI::App &command) {
  checkFlags(flags, command);
  if (!flags.picture.empty()) {
    std::vector<std::string> inputs = flags.data;
    inputs.insert(inputs.end(), flags.train.begin(), flags.train.end());
    inputs.insert(inputs.end(), {flags.artifact, flags.weights});
    requireOther("--picture", flags.picture, inputs);
    requireWritable(flags.picture);
  }
  std::unique_ptr<Executor> executor = openExecutor(flags.artifact, flags.device);
  int64_t vocabulary = executor->plan().model.vocabulary;
  auto read = [&](const std::vector<std::string> &names) {
    return readByteFiles({names.begin(), names.end()}, vocabulary, 2,
                         "one byte to predict from another");
  };
  std::vector<ByteFile> files = read(flags.data);
  std::vector<ByteFile> counted = flags.train.empty() ? files : read(flags.train);
  loadWeights(flags.weights, *executor, printNotice);
  Progress progress;
  auto draw = [&](double share) { progress.draw(share, "evaluating"); };
  const std::string &model = executor->plan().model.name;
  if (flags.kind == "context") {
    ContextResult result = measureContext(*executor, files, flags.context, draw);
    progress.clear();
    report(flags, result, drawContext(result, model));
  } else {
    FrequencyResult result = measureFrequency(*executor, counted, files, flags.bins, draw);
    progress.clear();
    report(flags, result, drawFrequency(result, model));
  }
}

} // namespace

void registerAnalyze(CLI::App &program) {
  auto flags = std::make_shared<AnalyzeFlags>();
  CLI::App *command = program.add_subcommand(
      "analyze", "Measure what a model does with its context, or with common and rare tokens");
  command
      ->add_option("KIND", flags->kind,
                   "context: how much worse tokens are predicted behind a shuffled half, by "
                   "distance; frequency: how well, by how common they are")
      ->check(CLI::IsMember({"context", "frequency"}))
      ->required();
  command->add_option("ART", flags->artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("-w,--weights", flags->weights,
                   "Weights: a run, a checkpoint or a safetensors file")
      ->required();
  command->add_option("--data", flags->data, "Files to score, whose bytes are token ids")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  command
      ->add_option("--length", flags->context.length,
                   "context: tokens a window, even; 0 takes the model's context")
      ->default_val(0);
  command
      ->add_option("--windows", flags->context.mostWindows,
                   "context: at most so many windows, evenly spread; 0 takes all")
      ->default_val(0);
  command->add_option("--seed", flags->context.seed, "context: seed of the shuffles")
      ->default_val(0);
  command
      ->add_option("--train", flags->train,
                   "frequency: files in which tokens are counted; else those that are scored")
      ->type_name("FILE")
      ->default_str("");
  command
      ->add_option("--bins", flags->bins,
                   "frequency: bins of equal shares of the counted tokens, from 2 to 256")
      ->default_val(5);
  command->add_option("--picture", flags->picture, "Page to write: HTML with a chart")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "Print one JSON object");
  addDeviceOptions(*command, flags->device);
  command->callback([flags, command] { runAnalyze(*flags, *command); });
}

} // namespace sluice::cli
