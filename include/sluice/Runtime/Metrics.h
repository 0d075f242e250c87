// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run's metrics.jsonl: one JSON object a line, with its step.
#pragma once

#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/Plan.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::runtime {

/// Drops the lines of steps after `step`: those that a resumed run makes again. Lines that are no
/// object with a step (cut short by a kill, damaged) move to the file `path`.damaged. Returns how
/// many did.
int64_t keepLinesUpTo(const Path &path, int64_t step);

/// The lines of steps after `step`, as they are.
std::string linesAfter(const Path &path, int64_t step);

/// Appends one line; the file is created where there is none.
void appendLine(const Path &path, const nlohmann::json &line);

/// The objects with a step; none where there is no file. `damaged` gets the number of other lines.
std::vector<nlohmann::json> readLines(const Path &path, int64_t *damaged = nullptr);

/// By the name of segments, the tokens that one has: the inverse of the share of tokens that end
/// one, which is among `losses`, means by name. Null where there are no segments.
nlohmann::json shorteningOf(const Plan &plan, const nlohmann::json &losses);

} // namespace sluice::runtime
