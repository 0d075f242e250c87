// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines of the C interface for models with named inputs.
#pragma once

#include "Model.h"
#include "sluice/Runtime/Data/LinePairs.h"

#include <memory>
#include <optional>
#include <span>

/// Lines of a text with their inputs, or of inputs alone.
struct sluice_lines {
  std::shared_ptr<sluice::interface::LoadedModel> state;
  std::unique_ptr<const sluice::runtime::LinePairs> pairs;
  std::unique_ptr<const sluice::runtime::InputLines> inputs; ///< null with `pairs`
  int32_t lineEnd = '\n';
};

namespace sluice::interface {

/// Throws UserError unless the model has named inputs of lines.
void requireLines(const LoadedModel &state);

/// Returns the lines of a text. Throws UserError for lines of another model, and for lines of
/// inputs alone.
const runtime::LinePairs &requirePairs(const LoadedModel &state, const sluice_lines *lines);

/// Returns the lines of inputs alone. Throws UserError for lines of another model, and for lines of
/// a text.
const runtime::InputLines &requireInputLines(const LoadedModel &state, const sluice_lines *lines);

/// Returns the numbers of the lines of a training step, one per row of all its batches.
std::vector<int64_t> readNumbers(const LoadedModel &state, const runtime::LinePairs &pairs,
                                 const int64_t *numbers, int64_t rows);

} // namespace sluice::interface
