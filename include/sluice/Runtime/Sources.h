// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which kind of data a model is given: texts, lines with named inputs, or images.
#pragma once

#include "sluice/Runtime/Evaluator.h"
#include "sluice/Runtime/Images.h"
#include "sluice/Runtime/LinePairs.h"

#include <memory>
#include <optional>

namespace sluice::runtime {

struct SourceFiles {
  std::vector<Path> data;
  InputFiles inputs;                 // of the model's named inputs
  std::optional<ImageSize> images;   // what `data` holds; none: text
  std::string inputFlag = "--input"; // what gives `inputs`
  InputFiles labels = {};            // of the model's segments that learn labels
  std::string labelFlag = "--labels";
  ReadingOptions reading = {};
};

/// Names of the labels that kernels of a plan read, and the plan's input that holds some.
std::vector<std::string> labelsOf(const Plan &plan);
std::string labelsInput(const std::string &name);
/// Names of the numbers that kernels of a plan read, and the plan's input that holds some.
std::vector<std::string> numbersOf(const Plan &plan);
std::string numbersInput(const std::string &name);
/// What `files` give of them; `areTrained`: all are demanded, else those alone that evaluation
/// reads are taken. Throws UserError of others.
NumberInputs chooseNumbers(const Plan &plan, const SourceFiles &files, bool areTrained);

/// Refuses labels that the plan does not have, and, where they are needed, labels that have no
/// files. Refuses images of a model that has labels.
void requireLabels(const Plan &plan, const SourceFiles &files, bool areNeeded);

/// Items that each stand by themselves; null where `files` are texts. Throws UserError as LinePairs
/// and Images do, where the model has other named inputs, and where it has any beside images.
std::unique_ptr<ItemSource> openItems(const SourceFiles &files, const Plan &plan, uint64_t seed);

/// What training draws its batches from.
std::unique_ptr<TrainingSource> openTraining(const SourceFiles &files, const Plan &plan,
                                             uint64_t seed);

/// What is scored. Without data there is none.
class HeldOut {
public:
  HeldOut(const SourceFiles &files, const Plan &plan);

  bool isThere() const { return items || !texts.empty(); }
  /// Texts, or the files of the items.
  const std::vector<ByteFile> &usedFiles() const { return items ? items->usedFiles() : texts; }
  const std::vector<ByteFile> &skippedFiles() const { return skipped; }
  /// Items; null where texts are scored.
  const ItemSource *getItems() const { return items.get(); }
  /// What a user should know of the data, a line each.
  std::vector<std::string> notes() const;

  /// Throws UserError where `options` cut windows and items are scored. See `evaluate`.
  EvaluationResult score(Executor &executor, const EvaluationOptions &options,
                         const std::function<void(double)> &progress = {},
                         const NumberSink &losses = {}) const;

  /// With each factor that steps draw; `tell` is given each one's bits per byte. The result, and
  /// the executor's factor from then on, is that of generation. `progress` gets the share of all
  /// that is done, after each batch.
  EvaluationResult scoreEach(Executor &executor, const EvaluationOptions &options,
                             const std::function<void(int64_t, double)> &tell,
                             const std::function<void(double)> &progress = {}) const;

private:
  std::unique_ptr<ItemSource> items;
  std::vector<ByteFile> skipped, texts; // in this order: reading texts sets what was skipped
  LabelFiles labels;
};

} // namespace sluice::runtime
