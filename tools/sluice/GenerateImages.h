// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice generate --images`: completes images.
#pragma once

#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Generate/Sampling.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

struct ImageFlags {
  std::string size; ///< empty: text is written
  std::vector<std::string> files;
  std::string out; ///< a folder
  int64_t keep = -1;
};

void addImageFlags(CLI::App &command, ImageFlags &flags);

/// Writes `samples` images for each image of `flags.files`, whose first rows are given, or new
/// images without files, as PNG files in the folder `flags.out`. Prints their names.
void writeImages(const ImageFlags &flags, int64_t samples, bool noCache, const std::string &weights,
                 std::optional<int64_t> step, const runtime::WeightNames &names,
                 const runtime::SamplingOptions &options, runtime::Executor &executor);

} // namespace sluice::cli
