// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the data of a run that pages show.
#pragma once

#include "Chart.h"
#include "sluice/Runtime/Report/Report.h"
#include "sluice/Runtime/Train/RunRecord.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::runtime {

/// The files of a run that are displayed on a page.
struct RunFiles {
  /// Throws UserError if `run` is not a run.
  explicit RunFiles(const Path &run);

  Path run;
  std::string name;                        ///< name of the model, or else of the folder
  std::vector<nlohmann::json> lines;       ///< lines of metrics.jsonl; at least one
  int64_t damaged = 0;                     ///< number of invalid lines
  nlohmann::json costs, evaluation, ngram; ///< null if missing
  std::optional<RunRecord> record;         ///< empty for runs of older versions

  bool isLeakAllowed() const;
  /// Returns the finite values of a field over steps; if the field is an object, the values of one
  /// member.
  std::vector<Point> series(const char *field, const std::string &member = "") const;
  /// Returns the evaluation with the minimum loss on the most recently evaluated held-out text, the
  /// first one in ties, if there is any.
  std::optional<Point> bestEvaluation() const;
  /// Returns the names of all members of a field that is an object.
  std::vector<std::string> findMembers(const char *field) const;
  /// Returns "2.3456 bits per character" for the held-out text after a step, or the reason why
  /// there is no such number; empty if the run has neither.
  std::string describeCharacters(double step) const;
  /// Returns the unit of losses in bits: "byte" of a text, "token" of token ids, or "chunk" of a
  /// contrast.
  std::string unit() const;
  /// Return losses in bits per unit over steps.
  std::vector<Point> trainingBits() const;
  std::vector<Point> heldOutBits() const;
  /// Returns the smoothed training loss in bits per unit over steps.
  std::vector<Point> smoothedLoss() const;
  /// Returns the bits per byte of the n-gram models in ngram.json by name.
  std::vector<std::pair<std::string, double>> ngrams() const;
  /// Returns the last logged step.
  double lastStep() const;
  /// Returns the results, one per row: steps, time, losses. Names do not depend on the length of a
  /// run; steps and counts are in notes.
  Facts results() const;
  /// Returns the files and the number of epochs over them.
  Facts data() const;
};

/// Number of logged steps over which the training loss is averaged, in results and in curves.
constexpr size_t smoothedSteps = 50;

/// Returns a JSON file of the run, or null if it is missing or invalid.
nlohmann::json optionalJson(const Path &path);

/// Return a member of an object; 0, {} or "" if it has no member of this kind.
double numberIn(const nlohmann::json &json, const char *key);
nlohmann::json objectIn(const nlohmann::json &json, const char *key);
std::string textIn(const nlohmann::json &json, const char *key);

} // namespace sluice::runtime
