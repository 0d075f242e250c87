// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run's metrics.jsonl: one JSON object a line.
#pragma once

#include "sluice/Runtime/Files.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace sluice::runtime {

/// Drops the lines of steps after `step` (those that a resumed run makes again) and a last line cut
/// short.
void keepLinesUpTo(const Path &path, int64_t step);

/// Appends one line; the file is created where there is none.
void appendLine(const Path &path, const nlohmann::json &line);

/// The lines that parse; none where there is no file.
std::vector<nlohmann::json> readLines(const Path &path);

} // namespace sluice::runtime
