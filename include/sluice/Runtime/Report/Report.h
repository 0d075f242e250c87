// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Renders runs as HTML pages.
#pragma once

#include "sluice/Runtime/Data/SegmentedText.h"
#include "sluice/Support/Files.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The result of the causality check of a run's spec.
struct Causality {
  std::string verdict;               ///< one or more lines
  std::vector<std::string> findings; ///< warnings and notes
  std::string picture;               ///< SVG document of the check, embedded in the page
};

/// Segments of a text.
struct ShownSegments {
  std::string source;              ///< description of the text for people
  std::vector<SegmentedText> cuts; ///< one per name of segments
  std::vector<std::string> notes;  ///< segments that cannot be shown, with the reason
};

/// A name and its value, with a note in small type below it, such as the step or the tokens.
struct Fact {
  std::string name, value, note = {};
};

/// Facts in display order.
using Facts = std::vector<Fact>;

/// Returns a self-contained page without scripts and external resources: results, data and
/// hyperparameters, and curves, from metrics.jsonl, samples.jsonl, costs.json, run.json and
/// spec.json. If the run has them, also from eval.json (`sluice eval --json`), ngram.json (`sluice
/// ngram --json`) and, without `causality`, causality.svg (`sluice check --picture`). Throws
/// UserError if `run` is not a run.
std::string makeReport(const Path &run, const std::optional<Causality> &causality = std::nullopt,
                       const Facts &hyperparameters = {}, const ShownSegments &segments = {});

/// A run to compare, with the hyperparameters of its spec.
struct ComparedRun {
  Path run;
  Facts hyperparameters;
};

/// Returns a page that compares runs: results, differing hyperparameters, and curves in one chart.
/// Runs of different lengths also have their losses at the last step that all of them reached.
/// Throws UserError if one of them is not a run.
std::string makeComparison(const std::vector<ComparedRun> &runs);

/// Returns an SVG chart of the run's bits per byte. Throws UserError if `run` is not a run or has
/// no such numbers.
std::string makeCurve(const Path &run);

} // namespace sluice::runtime
