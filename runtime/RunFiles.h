// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What pages show of a run, read from its files.
#pragma once

#include "Chart.h"
#include "sluice/Runtime/Report.h"
#include "sluice/Runtime/RunRecord.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::runtime {

/// The files of a run that a page is made of.
struct RunFiles {
  /// Throws UserError where `run` is no run.
  explicit RunFiles(const Path &run);

  Path run;
  std::string name;                        ///< the model's, or else the folder's
  std::vector<nlohmann::json> lines;       ///< of metrics.jsonl; at least one
  int64_t damaged = 0;                     ///< lines that are none
  nlohmann::json costs, evaluation, ngram; ///< null where there are none
  std::optional<RunRecord> record;         ///< none of runs of older versions

  bool isLeakAllowed() const;
  /// The finite values of one field over steps; of a field that is an object, those of one member.
  std::vector<Point> series(const char *field, const std::string &member = "") const;
  /// The evaluation of the lowest loss on the held-out text that was evaluated last, the first of
  /// equals; none where there was none.
  std::optional<Point> bestEvaluation() const;
  /// The names of all members of such a field.
  std::vector<std::string> membersOf(const char *field) const;
  /// "2.3456 bits per character" of the held-out text after a step, or why there is no such number;
  /// empty where the run has neither.
  std::string describeCharacters(double step) const;
  /// The training loss in bits per byte, smoothed, over steps.
  std::vector<Point> smoothedLoss() const;
  /// Bits per byte of the n-gram models of ngram.json, by name.
  std::vector<std::pair<std::string, double>> ngrams() const;
  /// The last logged step.
  double lastStep() const;
  /// Results, one a row: steps, time, losses. Names are the same for runs of different lengths;
  /// steps and counts are in notes.
  Facts results() const;
  /// Files and how often they were read.
  Facts data() const;
};

/// Logged steps of which the smoothed training loss is the mean, in the results and in curves.
constexpr size_t smoothedSteps = 50;

/// A JSON file of the run, or null where there is none that parses.
nlohmann::json optionalJson(const Path &path);

/// Members of an object, 0, {} or "" where it has none of this kind.
double numberIn(const nlohmann::json &json, const char *key);
nlohmann::json objectIn(const nlohmann::json &json, const char *key);
std::string textIn(const nlohmann::json &json, const char *key);

} // namespace sluice::runtime
