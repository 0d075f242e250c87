// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice boundaries` shows where a model's segments end in a text, their lengths, and the
// predictor's probabilities.
#include "Commands.h"
#include "Common.h"
#include "CutText.h"
#include "DataOptions.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

struct BoundaryFlags {
  std::string artifact, weights, data, name, tokenizer;
  WeightNames names;
  std::optional<int64_t> step;
  int64_t most = 1000;
  DeviceOptions device;
  bool json = false, raw = false;
};

/// Returns the boundaries stage of that name, or the first one. Throws UserError if there is none
/// that cuts tokens.
const BoundaryFacts &chooseBoundaries(const Plan &plan, const std::string &name) {
  std::string names;
  for (const BoundaryFacts &each : requireFacts(plan).boundaries) {
    if (!name.empty() && each.name != name) {
      names += (names.empty() ? "" : ", ") + each.name;
      continue;
    }
    if (std::string cut = describeCut(each); !cut.empty()) {
      throw UserError("--name: expected segments of tokens, found \"" + each.name +
                      "\", which are of " + cut + "; name others");
    }
    return each;
  }
  throw UserError(names.empty()
                      ? "sluice boundaries: expected a model with a boundaries stage, found "
                        "none; its groups have constant sizes"
                      : "--name: expected the name of segments (" + names + "), found \"" + name +
                            "\"; name another, or leave it out");
}

SegmentedText find(const BoundaryFlags &flags, Progress &progress) {
  std::shared_ptr<const Artifact> artifact = Artifact::load(flags.artifact, flags.device.target);
  warnOfLeak(*artifact);
  const BoundaryFacts &boundaries = chooseBoundaries(artifact->plan(), flags.name);
  checkPredicts(artifact->plan(), flags.artifact);
  int64_t vocabulary = artifact->plan().model.vocabulary;
  ByteFile text =
      openTexts({flags.data}, vocabulary, 1, "a token that may end a segment",
                {.isRaw = flags.raw,
                 .encoder = findEncoder(flags.tokenizer, flags.weights, vocabulary, flags.step),
                 .tokenizer = readTokenizerHash(flags.weights, flags.step)})
          .front();
  driver::CompileRequest request;
  request.everyRow = boundaries.value;
  progress.draw(0, "compiling");
  std::unique_ptr<Executor> executor = recompile(*artifact, request, flags.device);
  loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  return cutText(*executor, boundaries, text, flags.most,
                 [&](double share) { progress.draw(share, "cutting the text"); });
}

void print(const SegmentedText &found) {
  std::cout << showText(found.marked()) << "\n\n";
  std::cout << format("%lld tokens, %lld boundaries", static_cast<long long>(found.tokens),
                      static_cast<long long>(found.ends));
  if (found.ends > 0) {
    std::cout << format(", %.3f tokens a boundary",
                        static_cast<double>(found.tokens) / static_cast<double>(found.ends));
  }
  std::cout << "\n\ntokens of a segment, segments\n";
  for (auto [length, count] : found.lengths) {
    std::cout << format("%6lld  %lld\n", static_cast<long long>(length),
                        static_cast<long long>(count));
  }
  for (size_t i = 0; found.isPredicted && i < SegmentedText::bins; ++i) {
    double width = 1.0 / SegmentedText::bins;
    std::cout << (i == 0 ? "\nprobability, tokens\n" : "")
              << format("%.1f-%.1f  %lld\n", static_cast<double>(i) * width,
                        static_cast<double>(i + 1) * width,
                        static_cast<long long>(found.certainties[i]));
  }
}

nlohmann::ordered_json toJson(const SegmentedText &found) {
  nlohmann::ordered_json lengths = nlohmann::ordered_json::array();
  for (auto [length, count] : found.lengths) {
    lengths.push_back({{"tokens", length}, {"segments", count}});
  }
  nlohmann::ordered_json json = {{"tokens", found.tokens},
                                 {"boundaries", found.ends},
                                 {"lengths", lengths},
                                 {"text", found.marked()}};
  if (found.isPredicted) {
    json["probabilities"] = found.certainties;
  }
  return json;
}

void runBoundaries(const BoundaryFlags &flags) {
  if (flags.most < 0) {
    throw UserError("--tokens: expected a number of tokens to print of at least 0, found " +
                    std::to_string(flags.most));
  }
  Progress progress;
  SegmentedText found = find(flags, progress);
  progress.clear();
  if (flags.json) {
    std::cout << toJson(found).dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << "\n";
  } else {
    print(found);
  }
}

} // namespace

void registerBoundaries(CLI::App &program) {
  auto flags = std::make_shared<BoundaryFlags>();
  CLI::App *command = program.add_subcommand(
      "boundaries", "Show where a model's segments end in a text: | between them, how many have "
                    "which length, how probable boundaries are");
  addModelOptions(*command, flags->artifact, flags->weights, flags->names);
  addStep(*command, flags->step);
  command
      ->add_option("--data", flags->data,
                   "Text: a file whose bytes, or whose tokens, are token ids")
      ->type_name("FILE")
      ->required();
  addRaw(*command, flags->raw);
  addTokenizer(*command, flags->tokenizer, "default: the one of the run that --weights names");
  command
      ->add_option("--name", flags->name,
                   "Name of the boundaries stage whose segments are shown; default: the first")
      ->type_name("NAME")
      ->default_str("");
  command->add_option("--tokens", flags->most, "Tokens of the text to print; all of it is counted");
  command->add_flag("--json", flags->json, "Print one JSON object");
  addDeviceOptions(*command, flags->device);
  command->callback([flags] { runBoundaries(*flags); });
}

} // namespace sluice::cli
