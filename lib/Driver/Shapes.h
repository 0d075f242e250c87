// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models whose lines are batched by length: one artifact with the entries of a few batch shapes.
#pragma once

#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Runtime/Plan/Plan.h"

#include "llvm/Support/JSON.h"

namespace sluice::driver {

/// Returns the tokens that a batch of lines by length may have; 0 without "batch_tokens".
int64_t getBatchTokens(const ParsedSpec &spec);

/// Returns the batch shapes of a spec, longest lines first; none without "batch_tokens". The first
/// has the capacities of the spec. Each next one halves them, as long as they are multiples of all
/// factors, until "batch" lines fit.
std::vector<runtime::BatchShape> chooseShapes(const ParsedSpec &spec);

/// Returns shapes as the plan has them, without their entries.
llvm::json::Array shapesToJson(const std::vector<runtime::BatchShape> &shapes);

/// Sets the rows of the first shape in the only variant of a model, and adds a variant for each
/// other shape: the same module with smaller capacities.
void addShapes(std::vector<ImportedVariant> &variants,
               const std::vector<runtime::BatchShape> &shapes);

} // namespace sluice::driver
