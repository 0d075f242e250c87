// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice boundaries`: where a model's segments end in a text, how long they are, and how sure the
// predictor is.
#include "Commands.h"
#include "Common.h"
#include "Recompile.h"
#include "sluice/Runtime/Checkpoint.h"
#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Evaluator.h"
#include "sluice/Spec/Expansion.h"

#include <cmath>
#include <iostream>
#include <map>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

struct BoundaryFlags {
  std::string artifact, weights, data, name;
  int64_t most = 1000;
  DeviceOptions device;
  bool json = false;
};

/// What a text's boundaries are like. A segment begins behind a boundary, or with the text.
struct Boundaries {
  static constexpr size_t bins = 10;

  bool isPredicted = false;
  bool begins = false;                      ///< boundaries begin segments
  std::string marked;                       ///< the text, with | where a segment ends
  int64_t tokens = 0, ends = 0, length = 0; ///< length: of the segment that is open
  std::map<int64_t, int64_t> lengths;       ///< segments by tokens
  std::vector<int64_t> certainties = std::vector<int64_t>(bins); ///< tokens by probability

  void add(uint8_t byte, double probability, int64_t mostMarked) {
    bool isSet = probability > 0.5;
    if (tokens++ < mostMarked) {
      marked += isSet && begins && tokens > 1 ? "|" : "";
      marked += static_cast<char>(byte);
      marked += isSet && !begins ? "|" : "";
    }
    length += begins ? 0 : 1;
    ++certainties[std::min(bins - 1, static_cast<size_t>(probability * bins))];
    ends += isSet ? 1 : 0;
    if (isSet && length > 0) {
      ++lengths[std::exchange(length, 0)];
    }
    length += begins ? 1 : 0;
  }
};

/// The boundaries stage of that name, or the first one. Throws UserError where there is none.
spec::Primitive findBoundaries(const Plan &plan, const std::string &name) {
  std::string names;
  for (const spec::Primitive &stage : spec::expand(readSpecOf(plan, {}))) {
    const auto *made = std::get_if<spec::Boundaries>(&stage.settings);
    if (made && (name.empty() || made->name == name)) {
      return stage;
    }
    names += made ? (names.empty() ? "" : ", ") + made->name : "";
  }
  throw UserError(names.empty()
                      ? "sluice boundaries: expected a model with a boundaries stage, found "
                        "none; its groups have constant sizes"
                      : "--name: expected the name of segments (" + names + "), found \"" + name +
                            "\"; name another, or leave it out");
}

/// The value that has the logits of a stage's bits, their probabilities, or the bits.
std::string valueOf(const spec::Boundaries &made) {
  if (made.hidden > 0) {
    return ".out";
  }
  bool isChange = made.rule == spec::BoundaryRule::SpaceLike;
  bool isForced = made.begins && made.rule != spec::BoundaryRule::Every;
  return isForced ? ".begun" : made.documentEnd ? ".ended" : isChange ? ".change" : ".rule";
}

Boundaries find(const BoundaryFlags &flags, Progress &progress) {
  std::shared_ptr<const Artifact> artifact = Artifact::load(flags.artifact, flags.device.target);
  warnOfLeak(*artifact);
  spec::Primitive stage = findBoundaries(artifact->plan(), flags.name);
  const auto &made = std::get<spec::Boundaries>(stage.settings);
  if (!stage.segments.empty() || stage.factor != 1) {
    throw UserError("--name: expected segments of tokens, found \"" + made.name +
                    "\", which are of " +
                    (stage.segments.empty() ? "groups of " + std::to_string(stage.factor)
                                            : "the segments \"" + stage.segments + "\"") +
                    "; name others");
  }
  ByteFile text = readByteFiles({flags.data}, artifact->plan().model.vocabulary, 1,
                                "a byte that may end a segment")
                      .front();
  driver::CompileRequest request;
  request.everyRow = stage.prefix + valueOf(made);
  progress.draw(0, "compiling");
  std::unique_ptr<Executor> executor = recompile(*artifact, request, flags.device);
  loadWeights(flags.weights, *executor, printNotice);
  Boundaries found;
  bool areLogits = made.hidden > 0;
  found.isPredicted = areLogits || made.ratio > 0;
  found.begins = made.begins;
  double start =
      made.rule || !areLogits ? 0 : std::log(made.firstPrior() / (1 - made.firstPrior()));
  auto add = [&](std::span<const float> row) {
    double number = row.front();
    double probability = areLogits ? 1 / (1 + std::exp(-(number + start))) : number;
    auto at = static_cast<size_t>(found.tokens);
    bool isFirst = made.begins && found.tokens % artifact->plan().model.context == 0; // of a window
    bool isEnd =
        made.documentEnd && !isFirst && text.bytes[at - (made.begins ? 1 : 0)] == *made.documentEnd;
    probability = areLogits && (isFirst || isEnd) ? 1 : probability;
    found.add(text.bytes[static_cast<size_t>(found.tokens)], probability, flags.most);
  };
  computeRows(*executor, text, 1, add,
              [&](double share) { progress.draw(share, "cutting the text"); });
  if (found.begins && found.length > 0) { // the last one ends with the text
    ++found.lengths[found.length];
  }
  return found;
}

void print(const Boundaries &found) {
  std::cout << found.marked << "\n\n";
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
  for (size_t i = 0; found.isPredicted && i < Boundaries::bins; ++i) {
    double width = 1.0 / Boundaries::bins;
    std::cout << (i == 0 ? "\nprobability, tokens\n" : "")
              << format("%.1f-%.1f  %lld\n", static_cast<double>(i) * width,
                        static_cast<double>(i + 1) * width,
                        static_cast<long long>(found.certainties[i]));
  }
}

nlohmann::ordered_json toJson(const Boundaries &found) {
  nlohmann::ordered_json lengths = nlohmann::ordered_json::array();
  for (auto [length, count] : found.lengths) {
    lengths.push_back({{"tokens", length}, {"segments", count}});
  }
  nlohmann::ordered_json json = {{"tokens", found.tokens},
                                 {"boundaries", found.ends},
                                 {"lengths", lengths},
                                 {"text", found.marked}};
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
  Boundaries found = find(flags, progress);
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
  addModelOptions(*command, flags->artifact, flags->weights);
  command->add_option("--data", flags->data, "Text: a file whose bytes are token ids")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--name", flags->name,
                   "Which segments, by the name of a boundaries stage; none takes the first")
      ->type_name("NAME")
      ->default_str("");
  command->add_option("--tokens", flags->most, "Tokens of the text to print; all of it is counted");
  command->add_flag("--json", flags->json, "Print one JSON object");
  addDeviceOptions(*command, flags->device);
  command->callback([flags] { runBoundaries(*flags); });
}

} // namespace sluice::cli
