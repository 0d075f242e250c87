// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Sources.h"

#include "sluice/Runtime/Data/Labels.h"
#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Support/Error.h"

namespace sluice::runtime {

std::unique_ptr<ItemSource> openItems(const SourceFiles &files, const Plan &plan, uint64_t seed) {
  if (files.reading.encoder && files.images) {
    throw UserError("--tokenizer: expected a model of texts, found images; leave --tokenizer out");
  }
  ReadingOptions reading = files.reading;
  reading.takesIds = false; // images and lines are no arrays
  if (files.images) {
    refuseInputs(plan, "--images");
    if (std::vector<std::string> numbers = getNumberNames(plan); !numbers.empty()) {
      throw UserError(
          "--images: expected a model whose losses read its tokens alone, found one with "
          "the input \"" +
          numbers.front() + "\"; train it on texts");
    }
    return std::make_unique<Images>(files.data, *files.images, plan, seed, reading);
  }
  requireInputs(plan, files.inputs, files.inputFlag);
  if (!plan.given.empty()) {
    return std::make_unique<LinePairs>(files.data, files.inputs, plan, seed, reading);
  }
  return nullptr;
}

std::unique_ptr<TrainingSource> openTraining(const SourceFiles &files, const Plan &plan,
                                             uint64_t seed) {
  requireLabels(plan, files, /*areNeeded=*/true);
  if (std::unique_ptr<ItemSource> items = openItems(files, plan, seed)) {
    if (plan.cyclic) {
      throw UserError("expected texts where training.order is \"cyclic\", found " +
                      std::string(items->noun()) +
                      ", which have no end to shift around; take "
                      "\"cut\"");
    }
    return items;
  }
  return std::make_unique<TrainingData>(
      files.data, plan.model.vocabulary, plan.model.context, seed, plan.cyclic, files.labels,
      chooseNumbers(plan, files, /*areTrained=*/true), files.reading);
}

} // namespace sluice::runtime
