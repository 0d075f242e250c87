// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/HeldOut.h"

#include "sluice/Support/Error.h"

#include <algorithm>

namespace sluice::runtime {

static constexpr const char *twoTokens = "one to predict from another";

HeldOut::HeldOut(const SourceFiles &files, const Plan &plan) {
  if (files.data.empty() && files.inputs.empty()) {
    if (!files.labels.empty()) {
      throw UserError(files.labelFlag +
                      ": expected held-out text with it, found none; give --eval-data FILE");
    }
    return;
  }
  requireLabels(plan, files, /*areNeeded=*/false);
  items = openItems(files, plan, 0);
  if (!items) {
    texts = readByteFiles(files.data, plan.model.vocabulary, 2, twoTokens, &skipped, files.reading);
    labels = LabelFiles(files.labels, files.data, texts, skipped,
                        chooseNumbers(plan, files, /*areTrained=*/false), files.reading);
  }
}

std::string HeldOut::hash() const {
  return items ? items->hash() : labels.hashWith(hashFiles(texts));
}

std::vector<std::string> HeldOut::notes() const {
  std::vector<std::string> list = items ? items->notes() : collectNotes(texts);
  if (!skipped.empty()) {
    list.push_back(describeSkipped(skipped, texts.size() + skipped.size(), 2, twoTokens));
  }
  return list;
}

EvaluationResult HeldOut::scoreEach(Executor &executor, const EvaluationOptions &options,
                                    const std::function<void(int64_t, std::optional<double>)> &tell,
                                    const std::function<void(double)> &progress) const {
  const std::vector<int64_t> &factors = executor.plan().factors;
  size_t done = 0;
  auto advance = [&](double share) {
    if (progress) {
      progress((static_cast<double>(done) + share) /
               static_cast<double>(std::max<size_t>(1, factors.size())));
    }
  };
  for (size_t i = factors.size(); i-- > 1; ++done) {
    executor.chooseFactor(factors[i]);
    tell(factors[i], score(executor, options, advance).bitsPerUnit());
  }
  executor.chooseFactor({});
  EvaluationResult result = score(executor, options, advance);
  if (!factors.empty()) {
    tell(factors.front(), result.bitsPerUnit());
  }
  return result;
}

EvaluationResult HeldOut::score(Executor &executor, const EvaluationOptions &options,
                                const std::function<void(double)> &progress,
                                const NumberSink &losses) const {
  if (!items) {
    EvaluationOptions labelled = options;
    labelled.labels = &labels;
    return evaluate(executor, texts, labelled, progress, losses);
  }
  if (options.window != 0 || options.stride != 0) {
    throw UserError("expected no --window and no --stride, as " + std::string(items->noun()) +
                    " are scored one by one, found one; leave it out");
  }
  return evaluateItems(executor, *items, options, progress, losses);
}

} // namespace sluice::runtime
