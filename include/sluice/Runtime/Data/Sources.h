// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the data of a model: texts, lines with named inputs, or images.
#pragma once

#include "sluice/Runtime/Data/Images.h"
#include "sluice/Runtime/Data/LinePairs.h"

#include <memory>
#include <optional>

namespace sluice::runtime {

struct SourceFiles {
  std::vector<Path> data;
  InputFiles inputs;                 // files of the model's named inputs
  std::optional<ImageSize> images;   // format of `data`; empty: text
  std::string inputFlag = "--input"; // flag that specifies `inputs`
  InputFiles labels = {};            // files of labels, for the model's segments
  std::string labelFlag = "--labels";
  ReadingOptions reading = {};
};

/// Opens items that are independent of each other; returns null if `files` are texts. Throws
/// UserError as LinePairs and Images do, if the model has other named inputs, or if images are
/// combined with named inputs.
std::unique_ptr<ItemSource> openItems(const SourceFiles &files, const Plan &plan, uint64_t seed);

/// Opens the source of training batches.
std::unique_ptr<TrainingSource> openTraining(const SourceFiles &files, const Plan &plan,
                                             uint64_t seed);

} // namespace sluice::runtime
