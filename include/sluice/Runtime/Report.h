// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs as one HTML page.
#pragma once

#include "sluice/Runtime/Files.h"
#include "sluice/Runtime/SegmentedText.h"

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

/// Segments of a text.
struct ShownSegments {
  std::string source;              ///< which text, for people
  std::vector<SegmentedText> cuts; ///< one for each name of segments
  std::vector<std::string> notes;  ///< what cannot be shown, and why
};

/// A name and its value, with a note in small type under it: at which step, of which tokens.
struct Fact {
  std::string name, value, note = {};
};

/// In the order in which they are shown.
using Facts = std::vector<Fact>;

/// One self-contained page (no scripts, nothing fetched): results, data and hyperparameters, curves
/// from metrics.jsonl, samples.jsonl, costs.json, run.json, spec.json, and where the run has them
/// eval.json (of `sluice eval --json`), ngram.json (of `sluice ngram --json`) and, without
/// `causality`, causality.svg (of `sluice check --picture`). Throws UserError where `run` is no
/// run.
std::string makeReport(const Path &run, const std::optional<Causality> &causality = std::nullopt,
                       const Facts &hyperparameters = {}, const ShownSegments &segments = {});

/// A run among others, with the hyperparameters of its spec.
struct ComparedRun {
  Path run;
  Facts hyperparameters;
};

/// One page that compares runs: their results side by side, hyperparameters that differ, their
/// curves in one chart. Runs of different lengths also have their losses at the last step that all
/// of them reached. Throws UserError where one of them is no run.
std::string makeComparison(const std::vector<ComparedRun> &runs);

/// The run's chart of bits per byte as an SVG file. Throws UserError where `run` is no run, or has
/// no such numbers.
std::string makeCurve(const Path &run);

} // namespace sluice::runtime
