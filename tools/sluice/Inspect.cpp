// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/Inspect.h"
#include "Commands.h"
#include "Common.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice;
using namespace sluice::runtime;

struct InspectFlags {
  std::string artifact, extract;
  bool json = false, memory = false, force = false;
};

/// Writes bitcode, PTX and cubins of every GPU target, one folder each. Returns the folders' names.
std::string extractCode(const Artifact &artifact, const Path &folder) {
  constexpr std::pair<const char *, const char *> parts[] = {
      {"_bitcode", ".bc"}, {"_ptx", ".ptx"}, {"_cubin", ".cubin"}};
  std::string names;
  for (const std::string &target : artifact.plan().gpuTargets()) {
    makeFolder(folder / target);
    names += ", " + target + "/";
    for (const PlanKernel &kernel : artifact.plan().kernels) {
      auto variant = kernel.deviceVariants.find(target);
      if (variant == kernel.deviceVariants.end()) {
        continue;
      }
      for (auto [symbol, suffix] : parts) {
        std::span<const uint8_t> bytes = artifact.blob(variant->second.module + symbol);
        if (!bytes.empty()) {
          replaceFile(folder / target / (kernel.name + suffix), bytes);
        }
      }
    }
  }
  return names;
}

/// Returns the names of the written files.
std::string extractParts(const Artifact &artifact, const Path &folder) {
  makeFolder(folder);
  replaceFile(folder / "spec.json", asBytes(artifact.plan().model.spec));
  replaceFile(folder / "plan.json",
              asBytes(nlohmann::ordered_json::parse(artifact.planText()).dump(2) + "\n"));
  replaceFile(folder / "kernels.so", artifact.elf());
  std::string code = extractCode(artifact, folder);
  const std::string &certificate = artifact.plan().certificate;
  if (certificate.empty()) { // an allowed leak, or model IR without a spec
    return "spec.json, plan.json" + code + " and kernels.so";
  }
  replaceFile(folder / "certificate.txt", asBytes(certificate));
  return "spec.json, plan.json" + code + ", kernels.so and certificate.txt";
}

void runInspect(const InspectFlags &flags) {
  if (!flags.extract.empty()) {
    auto isEarlier = [folder = Path(flags.extract)] {
      auto spec = recognizeFile(folder / "spec.json"); // empty: of model IR
      bool isSpec = spec == FileKind::Spec || spec == FileKind::Json || spec == FileKind::Empty;
      return isSpec && recognizeFile(folder / "plan.json") == FileKind::Json &&
             recognizeFile(folder / "kernels.so") == FileKind::Elf;
    };
    checkOutputFolder("--extract", flags.extract,
                      {"spec.json", "plan.json", "kernels.so", "certificate.txt"}, isEarlier,
                      {flags.artifact}, flags.force);
  }
  std::shared_ptr<const Artifact> artifact = Artifact::loadForAnyMachine(flags.artifact);
  warnOfLeak(*artifact);
  if (!flags.extract.empty()) {
    std::string names = extractParts(*artifact, flags.extract);
    std::cerr << "wrote " << names << " to " << showPath(flags.extract) << std::endl;
  }
  if (flags.json) {
    nlohmann::json json = describeArtifact(*artifact);
    if (flags.memory) {
      json["buffers"] = nlohmann::json::array();
      for (const Buffer &buffer : artifact->plan().buffers) {
        json["buffers"].push_back({{"name", buffer.name},
                                   {"class", buffer.kind},
                                   {"offset", buffer.offset},
                                   {"bytes", buffer.bytes}});
      }
    }
    printJson(json);
  } else {
    std::cout << showText(describeForPeople(*artifact, flags.memory)) << std::flush;
  }
}

} // namespace

void registerInspect(CLI::App &program) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App *command =
      program.add_subcommand("inspect", "Show what an artifact holds and what a step costs");
  command->add_option("ART", flags->artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  command->add_flag("--json", flags->json, "Print one JSON object; sizes are bytes");
  command->add_flag(
      "-m,--memory", flags->memory,
      "Show what the arena holds when it is fullest, by scale, and list every buffer");
  command->add_option(
      "--extract", flags->extract,
      "Directory to write the spec, the plan, the kernels' code (for GPUs bitcode, PTX and cubins) "
      "and the certificate of the causality proof to");
  addForce(*command, flags->force);
  command->callback([flags] { runInspect(*flags); });
}

} // namespace sluice::cli
