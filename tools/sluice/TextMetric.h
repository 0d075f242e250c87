// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scores lines of text against references: `sluice score` and `sluice eval --metric`.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::cli {

struct MetricFlags {
  std::string metric = {}; ///< "bleu" or "rouge"; empty: none
  std::string tokenize = "13a", sentences = {};
};

/// Adds --metric, --tokenize and --sentences.
void addMetricFlags(CLI::App &command, MetricFlags &flags);
/// Throws UserError for flags that the metric does not use, and for values that no line can
/// contain.
void checkMetricFlags(const CLI::App &command, const MetricFlags &flags);

/// The lines of a file of text.
struct TextLines {
  std::string name; ///< for messages
  std::vector<std::string> lines;
};

/// Reads a file of at least one line. Prints notes on its format, and on bytes that are not UTF-8.
TextLines readTextLines(const std::string &path, bool isRaw);
/// Reads references, which must have as many lines as `other`, and `count` is that number.
std::vector<TextLines> readReferences(const std::vector<std::string> &paths, bool isRaw,
                                      int64_t count, const std::string &other);
/// Prints a note if lines have bytes that are not UTF-8.
void noteInvalidText(const TextLines &text);

/// Computes the metric of the texts. Returns the keys of `--json`, with the unrounded values.
nlohmann::ordered_json computeMetric(const MetricFlags &flags, const TextLines &texts,
                                     const std::vector<TextLines> &references);
/// Returns the result of computeMetric as one line for people.
std::string describeMetric(const nlohmann::ordered_json &result);

} // namespace sluice::cli
