// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data of the C interface: files and arrays that a model is trained or evaluated on.
#pragma once

#include "Lines.h"
#include "sluice/Runtime/Execute/HeldOut.h"

#include <memory>

/// Data for training, or held-out data.
struct sluice_data {
  std::shared_ptr<sluice::interface::LoadedModel> state;
  std::unique_ptr<const sluice::runtime::TrainingSource> source;
  std::unique_ptr<const sluice::runtime::HeldOut> heldOut; ///< null with `source`
  bool isInOrder = false;
  int64_t seed = 0; ///< of the order of rows
};

namespace sluice::interface {

/// Files and arrays in the form in which the readers take them.
struct GivenData {
  runtime::SourceFiles files;
  bool isHeldOut = false, isInOrder = false;
};

/// Checks the caller's parts for the model. Arrays become files in memory. Throws UserError.
GivenData readParts(const LoadedModel &state, const sluice_part *parts, int64_t count,
                    const sluice_data_options *options);

/// Returns remarks as a text that sluice_free_text frees.
char *copyNotes(const std::vector<std::string> &notes);

} // namespace sluice::interface
