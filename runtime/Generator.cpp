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

int64_t windowStart(int64_t size, int64_t start, int64_t context, int64_t period) {
  if (size - start <= context) {
    return start;
  }
  int64_t oldest = size - std::max<int64_t>(context / 2, 1);
  int64_t aligned = (oldest + period - 1) / period * period;
  aligned = aligned < size ? aligned : (size - 1) / period * period;
  return size - aligned <= context ? aligned : oldest; // no multiple lies in so short a context
}

Predictor::Predictor(Executor &executor, bool cached)
    : executor(executor), cached(cached && executor.plan().generation) {}

std::span<const float> Predictor::predict(std::span<const uint8_t> text) {
  const Plan &plan = executor.plan();
  int64_t period = plan.generation ? plan.generation->period : 1;
  auto size = static_cast<int64_t>(text.size());
  int64_t from = windowStart(size, start, plan.model.context, period);
  std::span<const uint8_t> window = text.subspan(static_cast<size_t>(from));
  bool moved = from != start;
  start = from;
  if (!cached) {
    return recompute(window);
  }
  auto last = static_cast<int64_t>(window.size()) - 1;
  if (moved || seen != last) {
    refill(window.first(static_cast<size_t>(last)));
  }
  executor.tokens()[static_cast<size_t>(last)] = window.back();
  std::ranges::fill(executor.take(), 0);
  executor.take()[0] = 1;
  executor.run("step");
  seen = last + 1;
  return executor.outputRow("logits", 0);
}

std::span<const float> Predictor::recompute(std::span<const uint8_t> window) {
  std::copy(window.begin(), window.end(), executor.tokens().begin());
  executor.scalarI64("length") = static_cast<int64_t>(window.size());
  executor.scalarI64("rows") = 1;
  executor.run("predict");
  return executor.outputRow("logits", 0);
}

/// States of row 0 as after `tokens`: the one behind them is then a step.
void Predictor::refill(std::span<const uint8_t> tokens) {
  std::span<int64_t> take = executor.take();
  std::ranges::fill(take, 0);
  take[0] = 1;
  executor.run("reset");
  if (tokens.empty()) {
    return;
  }
  std::copy(tokens.begin(), tokens.end(), executor.tokens().begin());
  executor.scalarI64("length") = take[0] = static_cast<int64_t>(tokens.size());
  executor.scalarI64("rows") = 1;
  executor.run("prefill");
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
  Predictor predictor(executor, options.cached);
  for (int64_t i = 0; i < count; ++i) {
    std::span<const float> logits = predictor.predict(text);
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
