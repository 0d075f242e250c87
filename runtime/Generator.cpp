// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Generator.h"

#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Hash.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice::runtime {

void checkSampling(const SamplingOptions &options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw UserError("expected a temperature of at least 0, found " +
                    std::to_string(options.temperature));
  }
  if (options.topK < 0) {
    throw UserError("expected a top-k of at least 0, found " + std::to_string(options.topK));
  }
  if (!(options.topP > 0 && options.topP <= 1)) {
    throw UserError("expected a top-p above 0 and at most 1, found " +
                    std::to_string(options.topP));
  }
}

int64_t pickToken(std::span<const float> logits, const SamplingOptions &options, double uniform) {
  for (float logit : logits) {
    if (!std::isfinite(logit)) {
      throw JobError(
          "the model's predictions are not finite; use the weights of an earlier checkpoint");
    }
  }
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  if (options.temperature == 0) {
    return static_cast<int64_t>(order.front());
  }
  if (options.topK > 0 && static_cast<size_t>(options.topK) < order.size()) {
    order.resize(static_cast<size_t>(options.topK));
  }
  std::vector<double> weights;
  double sum = 0;
  for (size_t id : order) {
    weights.push_back(
        std::exp((static_cast<double>(logits[id]) - logits[order.front()]) / options.temperature));
    sum += weights.back();
  }
  // The nucleus: the shortest run of the likeliest ids whose probability reaches topP.
  double nucleus = 0;
  size_t kept = 0;
  while (kept < weights.size() && (kept == 0 || nucleus < options.topP * sum)) {
    nucleus += weights[kept++];
  }
  double target = uniform * nucleus;
  for (size_t i = 0; i + 1 < kept; ++i) {
    target -= weights[i];
    if (target < 0) {
      return static_cast<int64_t>(order[i]);
    }
  }
  return static_cast<int64_t>(order[kept - 1]);
}

void checkPrompt(std::string_view prompt, int64_t vocabulary) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (auto byte = static_cast<uint8_t>(prompt[i]); byte >= vocabulary) {
      throw UserError("the prompt: byte " + std::to_string(i) +
                      ": expected token ids below the vocabulary of " + std::to_string(vocabulary) +
                      ", found " + std::to_string(byte) + "; change the prompt");
    }
  }
}

void generate(Executor &executor, std::string_view prompt, int64_t count,
              const SamplingOptions &options, const std::function<bool(uint8_t)> &emit) {
  checkSampling(options);
  const ModelFacts &model = executor.plan().model;
  std::vector<uint8_t> text(prompt.begin(), prompt.end());
  checkPrompt(prompt, model.vocabulary);
  if (text.empty()) {
    throw UserError("expected a prompt of at least one byte, found none");
  }
  auto ids = static_cast<size_t>(std::min<int64_t>(model.vocabulary, 256));
  for (int64_t i = 0; i < count; ++i) {
    int64_t length = std::min<int64_t>(static_cast<int64_t>(text.size()), model.context);
    std::copy(text.end() - length, text.end(), executor.tokens().begin());
    executor.scalarI64("length") = length;
    executor.scalarI64("rows") = 1;
    executor.run("predict");
    std::span<const float> logits = executor.outputRow("logits", 0);
    if (logits.size() < ids) {
      throw UserError("expected logits for " + std::to_string(ids) + " ids, found " +
                      std::to_string(logits.size()) + "; compile the spec again");
    }
    double uniform =
        static_cast<double>(mix64(options.seed ^ mix64(static_cast<uint64_t>(i))) >> 11) * 0x1p-53;
    auto byte = static_cast<uint8_t>(pickToken(logits.first(ids), options, uniform));
    text.push_back(byte);
    if (!emit(byte)) {
      return;
    }
  }
}

} // namespace sluice::runtime
