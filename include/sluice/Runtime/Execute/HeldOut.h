// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens and scores held-out data.
#pragma once

#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Runtime/Execute/Evaluator.h"

namespace sluice::runtime {

/// The held-out data that is scored; may be empty.
class HeldOut {
public:
  HeldOut(const SourceFiles &files, const Plan &plan);

  bool isThere() const { return items || !texts.empty(); }
  /// Returns the texts, or the files of the items.
  const std::vector<ByteFile> &usedFiles() const { return items ? items->usedFiles() : texts; }
  const std::vector<ByteFile> &skippedFiles() const { return skipped; }
  /// Returns the items; null if texts are scored.
  const ItemSource *getItems() const { return items.get(); }
  /// Returns the SHA-256 over the contents of the files in use, and of their labels.
  std::string hash() const;
  /// Returns remarks on the data for the user, one per line.
  std::vector<std::string> notes() const;

  /// Scores the data as `evaluate` does. Throws UserError if `options` specify windows for items.
  EvaluationResult score(Executor &executor, const EvaluationOptions &options,
                         const std::function<void(double)> &progress = {},
                         const NumberSink &losses = {}) const;

  /// Scores the data with each factor that steps draw, and passes the factor and its bits per
  /// token, or per chunk, to the callback. Returns the result of the factor of generation, which
  /// stays selected. `progress` receives the completed share over all factors after each batch.
  EvaluationResult scoreEach(Executor &executor, const EvaluationOptions &options,
                             const std::function<void(int64_t, std::optional<double>)> &tell,
                             const std::function<void(double)> &progress = {}) const;

private:
  std::unique_ptr<ItemSource> items;
  std::vector<ByteFile> skipped, texts; // declared in this order: reading `texts` fills `skipped`
  LabelFiles labels;
};

} // namespace sluice::runtime
