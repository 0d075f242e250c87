// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the collectives of a plan.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Support/StrictJson.h"

namespace sluice::runtime {

/// Reads a collective of the entry `name` that follows this number of launches.
Collective readCollective(const StrictJson &json, const std::string &name, size_t launches,
                          const Plan &plan);

/// Checks the collectives of all entries: each entry `gradient`, or none, exchanges all buckets
/// from the last to the first, each after the launches that write it or count segments. `json` is
/// the plan.
void checkCollectives(const StrictJson &json, const Plan &plan);

} // namespace sluice::runtime
