// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions shared by subcommands: flags of the device, opening an executor, progress.
#pragma once

#include "Progress.h"
#include "sluice/Loading/DeviceOptions.h"
#include "sluice/Runtime/Data/Images.h"
#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Outputs.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>

namespace sluice::cli {

using loading::DeviceOptions;
using loading::openExecutor;

void addDeviceOptions(CLI::App &command, DeviceOptions &options);

/// Adds --weights-prefix and --ignore, for files of weights from other programs.
void addWeightNames(CLI::App &command, runtime::WeightNames &names);

/// Adds --kernel-cache to a command that compiles.
void addKernelCache(CLI::App &command, std::string &value);
/// Adds --operations of the causality check.
void addOperations(CLI::App &command, int64_t &operations);

/// Adds the artifact and its weights, both required.
void addModelOptions(CLI::App &command, std::string &artifact, std::string &weights,
                     runtime::WeightNames &names);

/// Adds --step, for a run given by `--weights`.
void addStep(CLI::App &command, std::optional<int64_t> &step);

/// Adds --factor, for an artifact with sampled factors; `use` is its use in the help text.
void addFactor(CLI::App &command, std::optional<int64_t> &factor, const std::string &use);

/// Adds --input, files for the named inputs of a model; `use` describes the use of a line.
void addInputs(CLI::App &command, std::vector<std::string> &inputs, const std::string &use);

/// Adds `flag` for files of labels of the texts of `texts`.
void addLabels(CLI::App &command, const std::string &flag, std::vector<std::string> &labels,
               const std::string &texts);

/// Adds --images, the format of files; `files` names their flags.
void addImages(CLI::App &command, std::string &images, const std::string &files);
/// Returns none if the flag was not given.
std::optional<runtime::ImageSize> parseImages(const std::string &images);

/// Loads the artifact, warns of an allowed leak and creates an executor for it. Throws UserError
/// for a device that the machine or the artifact does not have.
std::unique_ptr<runtime::Executor> openExecutor(const std::string &artifact,
                                                const DeviceOptions &options);

/// Prints one line on stderr if the artifact was compiled with --allow-leak.
void warnOfLeak(const runtime::Artifact &artifact);

/// Prints one note to stderr: information for users that is not an error.
void printNotice(const std::string &text);

/// Adds --force to a command that writes files: see checkOutputs.
void addForce(CLI::App &command, bool &force);

/// Joins the paths of several lists, and of FILE in NAME=FILE, as inputs for checkOutputs.
std::vector<Path> joinPaths(std::initializer_list<std::vector<std::string>> lists);

/// Returns a line for each name of segments in the result of runtime::measureShortening.
std::string describeShortening(const nlohmann::json &factors);

/// Prints to stdout. The program ends with an error if that fails.
void printJson(const nlohmann::json &json);

} // namespace sluice::cli
