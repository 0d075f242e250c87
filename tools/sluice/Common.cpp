// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Common.h"

#include "CommandLine.h"
#include "Failures.h"
#include "sluice/Runtime/Data/TokenIds.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <iostream>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

void addWeightNames(CLI::App &command, WeightNames &names) {
  command
      .add_option("--weights-prefix", names.prefix,
                  "Prefix to remove from the names of the tensors in a file of weights, such as "
                  "_orig_mod. of torch.compile")
      ->type_name("TEXT")
      ->default_str("");
  command
      .add_option("--ignore", names.ignore,
                  "Leave out the tensors of a file of weights that match this pattern, as in "
                  "'lm_head.*'; may be given several times")
      ->type_name("GLOB")
      ->default_str("")
      ->allow_extra_args(false);
}

void addModelOptions(CLI::App &command, std::string &artifact, std::string &weights,
                     WeightNames &names) {
  command.add_option("ART", artifact, "Artifact, from sluice compile")
      ->type_name("FILE")
      ->required();
  command.add_option("-w,--weights", weights, "Weights: a run, a checkpoint or a safetensors file")
      ->required();
  addWeightNames(command, names);
}

void addStep(CLI::App &command, std::optional<int64_t> &step) {
  command
      .add_option(
          "--step", step,
          "Where --weights is a run: the step of the checkpoint to take; default: the latest")
      ->type_name("UINT")
      ->default_str("")
      ->check(wholeNumber(0, INT64_MAX));
}

void addFactor(CLI::App &command, std::optional<int64_t> &factor, const std::string &use) {
  command
      .add_option("--factor", factor,
                  "For a model whose training steps draw their factor from a set: " + use)
      ->type_name("UINT")
      ->default_str("");
}

void addInputs(CLI::App &command, std::vector<std::string> &inputs, const std::string &use) {
  command
      .add_option("--input", inputs,
                  "A file for a named input of the model: " + use + "; may be given several times")
      ->type_name("NAME=FILE")
      ->default_str("")
      ->allow_extra_args(false);
}

void addLabels(CLI::App &command, const std::string &flag, std::vector<std::string> &labels,
               const std::string &texts) {
  command
      .add_option(flag, labels,
                  "Labels of segments that learn them, 0 or 1 for each byte of " + texts +
                      ": file i of a name belongs to text i; may be given several times")
      ->type_name("NAME=FILE")
      ->default_str("")
      ->allow_extra_args(false);
}

void addImages(CLI::App &command, std::string &images, const std::string &files) {
  command
      .add_option("--images", images,
                  files + ": images of this size, PNG or their bytes one after the other, and no "
                          "text; as many bytes each as the context has tokens")
      ->type_name("WxHxC")
      ->default_str("");
}

std::optional<ImageSize> parseImages(const std::string &images) {
  return images.empty() ? std::nullopt : std::optional(parseImageSize("--images", images));
}

void addOperations(CLI::App &command, int64_t &operations) {
  command
      .add_option("--operations", operations,
                  "Operations that the causality check may take, and again the derivation of the "
                  "decode step, counted the same on every machine; beyond it the verdict is \"not "
                  "proved\", or a proved model has no step and generation computes whole sequences")
      ->type_name("UINT")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50))
      ->capture_default_str();
}

void addKernelCache(CLI::App &command, std::string &value) {
  CLI::Validator isName(
      [](std::string &text) {
        return !text.empty() && !text.starts_with("--")
                   ? std::string()
                   : "expected a directory or off, found " + quote(text) + "; name a directory";
      },
      "", "directory");
  command
      .add_option(
          "--kernel-cache", value,
          "Directory of compiled kernels, for CPUs and GPUs, that later compiles reuse; off: "
          "none. Without it SLUICE_KERNEL_CACHE, or else ~/.cache/sluice/kernels")
      ->type_name("DIR|off")
      ->default_str("")
      ->check(isName);
}

void addDeviceOptions(CLI::App &command, DeviceOptions &options) {
  options.notice = printNotice;
  command
      .add_option("-d,--device", options.device,
                  "Where to run: cpu; cuda, the first NVIDIA GPU (under mpirun one GPU per "
                  "process); emulator, GPU code on the CPU, "
                  "checked and slow. The last two want an artifact with code for a GPU")
      ->check(matchChoice({"cpu", "cuda", "emulator"}));
  command
      .add_option("-j,--threads", options.threads,
                  "CPU threads; 0 takes all that the process may use")
      ->check(wholeNumber(0, 1024));
  command.add_option("--cpu-target", options.target,
                     "Instruction set: cpu-amx, cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512 or "
                     "cpu-avx2; "
                     "default: SLUICE_CPU_TARGET or else the best");
  command
      .add_option("--gpu-target", options.gpuTarget,
                  "GPU code to run: sm_80 or sm_90a; default: the one that fits the GPU best")
      ->check(matchChoice({"sm_80", "sm_90a"}));
  addKernelCache(command, options.kernelCache);
}

std::unique_ptr<Executor> openExecutor(const std::string &artifact, const DeviceOptions &options) {
  std::shared_ptr<const Artifact> loaded = Artifact::load(artifact, options.target);
  warnOfLeak(*loaded);
  return openExecutor(loaded, options);
}

void warnOfLeak(const Artifact &artifact) {
  const std::string &verdict = artifact.plan().verdict;
  if (verdict != "proved") {
    printMessage("warning: " + showPath(artifact.path()) +
                 (verdict == "not-proved"
                      ? " was compiled with --allow-leak and is not proved causal: whether its "
                        "predictions read what they predict is not known, so losses may come out "
                        "too low"
                      : " was compiled with --allow-leak: its predictions may read what they "
                        "predict, so losses come out too low and mean nothing for generated text"));
  }
}

void printNotice(const std::string &text) { printMessage(text); }

void addForce(CLI::App &command, bool &force) {
  command.add_flag("--force", force,
                   "Let outputs replace files of another kind; files that are read, and those of a "
                   "run, are never replaced");
}

std::vector<Path> joinPaths(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<Path> paths;
  for (const std::vector<std::string> &list : lists) {
    for (const std::string &path : list) {
      paths.push_back(splitTokenPath(path).second);
      if (size_t equals = path.find('='); equals != std::string::npos) {
        paths.emplace_back(path.substr(equals + 1));
      }
    }
  }
  return paths;
}

std::string describeShortening(const nlohmann::json &factors) {
  std::string text;
  for (const auto &[name, factor] : factors.items()) {
    text += factor.is_null() ? "shortening      no segments of " + name + "\n"
                             : format("shortening      %.3f tokens a segment of %s\n",
                                      factor.get<double>(), name.c_str());
  }
  return text;
}

void printJson(const nlohmann::json &json) {
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

} // namespace sluice::cli
