// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes of the batches of a plan (Plan::shapes).
#pragma once

#include "sluice/Runtime/Plan/Plan.h"

namespace sluice {
class StrictJson;
}

namespace sluice::runtime {

/// Returns the name in `Plan::entries` of an entry for batch shape `shape`, the plain name for 0.
std::string entryOfShape(const std::string &entry, size_t shape);

/// Returns shape `number` of batches; without shapes, the capacities of the model.
BatchShape getBatchShape(const Plan &plan, size_t number);

/// Reads the shapes of batches, without their entries, into a plan whose inputs were read.
void readShapes(const StrictJson &json, Plan &plan);
/// Checks that the arena holds the inputs, outputs and numbers of rows of every shape. `json` is
/// the place of an error.
void checkShapes(const StrictJson &json, const Plan &plan);

/// Returns the rows of the largest batch.
int64_t countMostRows(const Plan &plan);

} // namespace sluice::runtime
