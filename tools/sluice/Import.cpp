// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice import` converts another program's state dict to weights by a map.
#include "CommandLine.h"
#include "Commands.h"
#include "Common.h"
#include "Recompile.h"
#include "sluice/Driver/SpecFacts.h"
#include "sluice/Runtime/Data/FileContents.h"
#include "sluice/Runtime/Import/ImportWeights.h"
#include "sluice/Runtime/Plan/Artifact.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

struct ImportFlags {
  std::vector<std::string> states, settings, sizes;
  std::string map, model, out;
  bool force = false;
};

/// Parses the values of --size.
std::map<std::string, int64_t> parseSizes(const std::vector<std::string> &written) {
  std::map<std::string, int64_t> sizes;
  for (const std::string &text : written) {
    size_t sign = text.find('=');
    std::string number = sign == std::string::npos ? "" : text.substr(sign + 1);
    bool isNumber = !number.empty() && number.size() <= 9 &&
                    std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    if (sign == 0 || !isNumber || std::stol(number) == 0) {
      throw UserError("--size: expected a name and a number of at least 1, as in head_size=64, "
                      "found " +
                      quote(text));
    }
    if (!sizes.emplace(text.substr(0, sign), std::stol(number)).second) {
      throw UserError("--size: expected each name once, found " + quote(text) +
                      " after another value; leave one out");
    }
  }
  return sizes;
}

/// Reads names and shapes of the plan. Sizes of heads come from the artifact's spec.
ImportModel readArtifact(const std::string &path, const std::vector<std::string> &settings) {
  if (!settings.empty()) {
    throw UserError("--set " + settings.front() +
                    ": expected --model to name a spec, found the "
                    "artifact " +
                    showPath(path) + "; name the spec, or leave --set out");
  }
  ImportModel model{showPath(path), {}};
  std::shared_ptr<const Artifact> artifact = Artifact::loadForAnyMachine(path);
  std::map<std::string, int64_t> heads; // empty if the artifact has model IR instead of a spec
  auto listed = driver::listWeights(artifact->plan().model.spec, {});
  for (const driver::SpecWeight &weight : listed.value_or(std::vector<driver::SpecWeight>())) {
    heads[weight.name] = weight.rotatedHead;
  }
  for (const Tensor &tensor : artifact->plan().tensors) {
    auto head = heads.find(tensor.name);
    model.weights.push_back({tensor.name, tensor.shape,
                             head == heads.end() ? std::nullopt : std::optional(head->second)});
  }
  return model;
}

ImportModel readSpec(const std::string &path, const std::vector<std::string> &written) {
  requireKind(path, FileKind::Spec, "a spec or an artifact");
  std::string text = readText(path, "spec or artifact");
  std::vector<spec::SpecOverride> settings = parseSettings(written);
  if (auto error = driver::findSpecError(text, showPath(path), settings)) {
    throw UserError(error->format());
  }
  ImportModel model{showPath(path), {}};
  std::vector<driver::SpecWeight> weights = driver::listWeights(text, settings).value();
  for (driver::SpecWeight &weight : weights) {
    model.weights.push_back({std::move(weight.name), std::move(weight.shape), weight.rotatedHead});
  }
  return model;
}

std::optional<ImportModel> readModel(const ImportFlags &flags) {
  if (flags.model.empty()) {
    return std::nullopt;
  }
  bool isArtifact = recognizeFile(flags.model) == FileKind::Artifact;
  return isArtifact ? readArtifact(flags.model, flags.settings)
                    : readSpec(flags.model, flags.settings);
}

std::string count(size_t number, const std::string &noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

void runImport(const ImportFlags &flags) {
  checkOutputs({{"--out", flags.out, FileKind::Weights}},
               joinPaths({flags.states, {flags.map, flags.model}}), flags.force);
  std::map<std::string, int64_t> sizes = parseSizes(flags.sizes);
  WeightMap map = parseWeightMap(readText(flags.map, "map"), showPath(flags.map), sizes);
  std::optional<ImportModel> model = readModel(flags);
  std::vector<FileMemory> memory;
  std::vector<StateFile> files;
  for (const std::string &path : flags.states) {
    requireKind(path, FileKind::Weights, "a state dict, in a safetensors file");
    memory.emplace_back(FileContents::open(path, "state dict"));
    std::string origin = showPath(path);
    files.push_back({origin, SafetensorsFile(memory.back().bytes(), origin,
                                             {.foreign = "; save the state dict again, with "
                                                         "safetensors.torch.save_file",
                                              .damaged = "; give another copy of it"})});
  }
  ImportedWeights imported = importWeights(map, files, model);
  std::vector<NamedTensor> tensors;
  for (ImportedWeight &weight : imported.weights) {
    tensors.push_back({weight.name, weight.shape, weight.data});
  }
  writeSafetensors(flags.out, tensors);
  std::cerr << "wrote " << count(tensors.size(), "weight") << " to " << showPath(flags.out)
            << ": used " << count(imported.used, "tensor") << " of the state, dropped "
            << imported.dropped
            << (imported.filled ? ", filled " + count(imported.filled, "weight") + " with a number"
                                : "")
            << std::endl;
  if (!model) {
    printNotice(
        "names and shapes were not compared with a model; --model SPEC or ARTIFACT does so");
  }
}

} // namespace

void registerImport(CLI::App &program) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App *command = program.add_subcommand(
      "import", "Convert a state dict of another program to weights, by a map of names");
  command
      ->add_option("state", flags->states,
                   "State dict: a safetensors file, or all files of one that is stored in several")
      ->type_name("FILE")
      ->default_str("")
      ->required();
  command
      ->add_option("--map", flags->map,
                   "Map of names, JSON (docs/import.md); models/imported has some")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--model", flags->model,
                   "Spec or artifact that the weights are for: requires each of its weights, with "
                   "its shape")
      ->type_name("FILE")
      ->default_str("");
  addSettings(*command, flags->settings,
              "Use the spec of --model with another value, as in --set context=1024; repeatable");
  command
      ->add_option(
          "--size", flags->sizes,
          "Replace a number of the map's \"sizes\", as in --size head_size=128; repeatable")
      ->type_name("NAME=N")
      ->default_str("")
      ->allow_extra_args(false);
  command->add_option("-o,--out", flags->out, "Safetensors file of f32 weights to write")
      ->type_name("FILE")
      ->required();
  addForce(*command, flags->force);
  command->callback([flags] {
    if (!flags->settings.empty() && flags->model.empty()) {
      throw UserError("--set: expected --model with it, which names the spec, found none; give "
                      "--model SPEC");
    }
    runImport(*flags);
  });
}

} // namespace sluice::cli
