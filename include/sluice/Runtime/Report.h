// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run as one HTML page.
#pragma once

#include "sluice/Runtime/Files.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// What the causality check says of a run's spec.
struct Causality {
  std::string verdict;               ///< one line or several
  std::vector<std::string> findings; ///< warnings and notes
  std::string picture; ///< an SVG document of the check's own; it is put into the page
};

/// One self-contained page (no scripts, nothing fetched): curves from metrics.jsonl, samples.jsonl,
/// costs.json, and where the run holds them eval.json (of `sluice eval --json`), ngram.json (of
/// `sluice ngram --json`) and, without `causality`, causality.svg (of `sluice check --picture`).
/// Throws UserError where `run` is no run.
std::string makeReport(const Path &run, const std::optional<Causality> &causality = std::nullopt);

} // namespace sluice::runtime
