// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run's metrics.jsonl: one JSON object per line, with its step.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Support/Files.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace sluice::runtime {

/// Drops the lines of steps after `step`, which a resumed run recomputes. Lines that are not
/// objects with a step (truncated by a kill, damaged) move to the file `path`.damaged. Returns the
/// number of moved lines.
int64_t keepLinesUpTo(const Path &path, int64_t step);

/// Returns the lines of steps after `step` unchanged.
std::string linesAfter(const Path &path, int64_t step);

/// Appends one line; creates a missing file.
void appendLine(const Path &path, const nlohmann::json &line);

/// Returns the objects with a step; empty if the file is missing. `damaged` receives the number of
/// other lines.
std::vector<nlohmann::json> readLines(const Path &path, int64_t *damaged = nullptr);

/// Returns the unit of the losses in bits of a line, "chunk", "byte" or "token", whose keys begin
/// with `prefix`: "bits_per_" or "eval_bits_per_"; empty if the line has no number. A tokenizer's
/// text has bits per byte and per token.
std::string findLossUnit(const nlohmann::json &line, const std::string &prefix);

/// Returns the mean tokens per segment by name of segments: the inverse of the share of tokens that
/// end a segment, which is in `losses` (means by name). Null if there are no segments.
nlohmann::json measureShortening(const Plan &plan, const nlohmann::json &losses);

} // namespace sluice::runtime
