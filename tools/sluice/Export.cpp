// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice export` writes a model as a PyTorch file and its weights.
#include "Commands.h"
#include "Common.h"
#include "Recompile.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <iostream>

namespace sluice::cli {
namespace {

using namespace sluice::runtime;

constexpr const char *modelName = "model.py";
constexpr const char *weightsName = "weights.safetensors";
/// Key of the weights' metadata for the hash of the model.py that was written with them.
constexpr const char *modelKey = "sluice.model_sha256";

struct ExportFlags {
  std::string artifact, weights, out;
  WeightNames names;
  DeviceOptions device;
  std::optional<int64_t> factor, step;
  bool force = false;
};

/// Prints the artifact's model as Python. Throws UserError for an op without a printer.
std::string printModel(const Artifact &artifact, std::optional<int64_t> factor) {
  const Plan &plan = artifact.plan();
  requireFacts(plan);
  driver::CompileRequest request;
  request.spec = plan.model.name + ".json";
  request.text = plan.model.spec;
  request.emit = "pytorch";
  request.allowLeak = plan.verdict != "proved";
  request.factor = factor                 ? factor
                   : plan.factors.empty() ? std::nullopt
                                          : std::optional(plan.factors.front());
  driver::Outcome outcome = driver::compile(request);
  if (outcome.status == 3) {
    throw std::runtime_error("printing a model: " + outcome.message);
  }
  if (outcome.status != 0) {
    throw UserError(outcome.message);
  }
  return outcome.output;
}

/// Recognizes the files of an earlier export. A model.py that was changed since is not one.
bool isUnchangedExport(const Path &folder) {
  return isRegularFile(folder / modelName) && readMetadata(folder / weightsName, modelKey) ==
                                                  hashFile(folder / modelName, "model").sha256;
}

/// Creates a folder with its parents, and removes those that it created unless `keep` was called.
class NewFolder {
public:
  explicit NewFolder(const Path &folder) {
    std::error_code error;
    for (Path each = std::filesystem::absolute(folder, error).lexically_normal();
         !error && each.has_relative_path() && !isThere(each); each = each.parent_path()) {
      created.push_back(each);
    }
    makeFolder(folder);
  }
  ~NewFolder() {
    std::error_code ignored;
    for (const Path &each : created) {
      std::filesystem::remove(each, ignored); // if empty
    }
  }
  NewFolder(const NewFolder &) = delete;
  NewFolder &operator=(const NewFolder &) = delete;

  void keep() { created.clear(); }

private:
  std::vector<Path> created; ///< the innermost first
};

/// Writes both files. Neither gets its name before both are durable.
void writeBoth(const Path &folder, const std::string &model,
               const std::vector<NamedTensor> &tensors) {
  NewFolder place(folder);
  OutputFile weightsFile(folder / weightsName), modelFile(folder / modelName);
  writeSafetensors(weightsFile, tensors, {{modelKey, sha256Hex(model)}});
  modelFile.write(asBytes(model));
  weightsFile.stage();
  modelFile.stage();
  weightsFile.finish();
  modelFile.finish();
  place.keep();
}

void runExport(const ExportFlags &flags) {
  checkOutputFolder(
      "--out", flags.out, {modelName, weightsName}, [&] { return isUnchangedExport(flags.out); },
      {flags.artifact, flags.weights}, flags.force);
  std::shared_ptr<const Artifact> artifact = Artifact::load(flags.artifact, flags.device.target);
  std::string model = printModel(*artifact, flags.factor);
  warnOfLeak(*artifact);
  std::unique_ptr<Executor> executor = openExecutor(artifact, flags.device);
  loadWeights(flags.weights, *executor, printNotice, flags.step, flags.names);
  std::vector<NamedTensor> tensors;
  for (const Tensor &tensor : executor->plan().tensors) {
    tensors.push_back({tensor.name, tensor.shape, executor->tensor(tensor, Access::Read)});
  }
  writeBoth(flags.out, model, tensors);
  std::cerr << "wrote " << modelName << " and " << weightsName << " to " << showPath(flags.out)
            << std::endl;
}

} // namespace

void registerExport(CLI::App &program) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App *command = program.add_subcommand(
      "export", "Write a model as a PyTorch file, model.py, and its weights");
  addModelOptions(*command, flags->artifact, flags->weights, flags->names);
  addStep(*command, flags->step);
  command
      ->add_option("-o,--out", flags->out,
                   "Directory to write model.py, whose load() returns the model with its weights, "
                   "and weights.safetensors to; it needs the Python packages torch and safetensors")
      ->type_name("DIR")
      ->required();
  addForce(*command, flags->force);
  addFactor(*command, flags->factor, "the exported model has this one");
  addDeviceOptions(*command, flags->device);
  command->callback([flags] { runExport(*flags); });
}

} // namespace sluice::cli
