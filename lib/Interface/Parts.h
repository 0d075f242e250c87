// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files and arrays that a caller of the C interface gives.
#pragma once

#include "Model.h"
#include "sluice/Runtime/Data/Sources.h"

namespace sluice::interface {

/// Files and arrays in the form in which the readers take them.
struct GivenData {
  runtime::SourceFiles files;
  bool isHeldOut = false, isInOrder = false;
};

/// Checks the caller's parts for the model. Arrays become files in memory. Throws UserError.
GivenData readParts(const LoadedModel &state, const sluice_part *parts, int64_t count,
                    const sluice_data_options *options);

} // namespace sluice::interface
