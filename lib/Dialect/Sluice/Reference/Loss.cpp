// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Head and cross-entropy.
#include "Numbers.h"
#include "Reference.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// Returns the logarithm of softmax(x W^T + b).
template <typename T>
static std::vector<T> logProbabilities(const std::vector<T> &x, const std::vector<T> &weight,
                                       const T *bias) {
  std::vector<T> logits(weight.size() / x.size());
  for (size_t v = 0; v < logits.size(); ++v) {
    for (size_t i = 0; i < x.size(); ++i) {
      logits[v] += x[i] * weight[v * x.size() + i];
    }
    logits[v] += bias ? bias[v] : T(0);
  }
  T maximum = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (T logit : logits) {
    sum += std::exp(logit - maximum);
  }
  for (T &logit : logits) {
    logit = logit - maximum - std::log(sum);
  }
  return logits;
}

/// Returns the log-probabilities of row (b, p), for either op.
template <typename T, typename Op>
static std::vector<T> computeRow(Op op, Evaluator<T> &evaluator, int64_t b, int64_t p) {
  const T *bias = op.getBias() ? evaluator.getTensor(op.getBias()).data() : nullptr;
  return logProbabilities<T>(evaluator.rowAt(op.getInput(), b, p),
                             evaluator.getTensor(op.getWeight()), bias);
}

/// Returns the target distribution of row (b, p): y[v] = (1 - s) [v = token[p + offset]] + s / V.
template <typename T, typename Op>
static std::vector<T> getWantedDistribution(Op op, Evaluator<T> &evaluator, int64_t b, int64_t p,
                                            size_t vocabulary) {
  T smoothing = op.getSmoothing().convertToFloat();
  if constexpr (requires { op.getTarget(); }) {
    if (!op.getTarget().empty()) {
      return getTargetToken<T>(evaluator, op.getTokens(), b, p, vocabulary);
    }
  }
  std::vector<T> wanted(vocabulary, smoothing / static_cast<T>(vocabulary));
  wanted[evaluator.tokenAt(op.getTokens(), b, p + op.getOffset())] += 1 - smoothing;
  return wanted;
}

/// loss[p] = - sum over v of y[v] log softmax(x[p] W^T + b)[v], and 0 for p < first.
template <typename T, typename Op> static void defineLosses(Op op, Evaluator<T> &evaluator) {
  evaluator.define(op.getLosses(), [&](int64_t b, int64_t p) {
    T loss = 0;
    if (p >= static_cast<int64_t>(op.getFirst())) {
      std::vector<T> logs = computeRow<T>(op, evaluator, b, p);
      std::vector<T> wanted = getWantedDistribution<T>(op, evaluator, b, p, logs.size());
      for (size_t v = 0; v < logs.size(); ++v) {
        loss -= wanted[v] != 0 ? wanted[v] * logs[v] : T(0);
      }
    }
    return std::vector<T>{loss};
  });
}

template <typename T> static void evaluate(CrossEntropyOp op, Evaluator<T> &evaluator) {
  if (isa<SequenceType>(op.getWeight().getType())) { // the losses of another op
    evaluator.define(op.getLosses(),
                     [&](int64_t b, int64_t p) { return evaluator.rowAt(op.getWeight(), b, p); });
    return;
  }
  defineLosses<T>(op, evaluator);
}

/// With g = a (softmax - y), where a is the row's incoming gradient, factor / (scored rows) unless
/// it is given: dx = g W, dW = init + sum of g^T x, db = init +
/// sum of g
template <typename T> static void evaluate(CrossEntropyBackwardOp op, Evaluator<T> &evaluator) {
  defineLosses<T>(op, evaluator);
  const std::vector<T> &weight = evaluator.getTensor(op.getWeight());
  int64_t width = reference::getColumns(op.getInput());
  int64_t vocabulary = static_cast<int64_t>(weight.size()) / width;
  std::vector<T> weightGradient(weight.size()), biasGradient(vocabulary);
  if (op.getInitWeight()) {
    weightGradient = evaluator.getTensor(op.getInitWeight());
  }
  if (op.getInitBias()) {
    biasGradient = evaluator.getTensor(op.getInitBias());
  }
  int64_t first = op.getFirst();
  int64_t scored = std::max<int64_t>(evaluator.getPositions(op.getInput()) - first, 1);
  T count = op.getGradient() ? 1 : static_cast<T>(evaluator.getSetting().rows * scored);
  evaluator.define(op.getInputGradient(), [&](int64_t b, int64_t p) {
    std::vector<T> g = computeRow<T>(op, evaluator, b, p), dx(width);
    std::vector<T> wanted = getWantedDistribution<T>(op, evaluator, b, p, g.size());
    T incoming = op.getGradient() ? evaluator.at(op.getGradient(), b, p, 0)
                                  : static_cast<T>(op.getFactor().convertToFloat());
    incoming = p < first ? T(0) : incoming;
    for (int64_t v = 0; v < vocabulary; ++v) {
      g[v] = incoming * (std::exp(g[v]) - wanted[v]) / count;
      for (int64_t i = 0; i < width; ++i) {
        dx[i] += g[v] * weight[v * width + i];
        weightGradient[v * width + i] += g[v] * evaluator.at(op.getInput(), b, p, i);
      }
      biasGradient[v] += g[v];
    }
    return dx;
  });
  evaluator.setTensor(op.getWeightGradient(), std::move(weightGradient));
  if (op.getBiasGradient()) {
    evaluator.setTensor(op.getBiasGradient(), std::move(biasGradient));
  }
}

/// The objective is not a value of the model.
template <typename T> static void evaluate(ObjectiveOp, Evaluator<T> &) {}

/// The sum is not a value of the model: ops that divide by it compute it.
template <typename T> static void evaluate(WeightSumOp, Evaluator<T> &) {}

/// Returns the sum of weights that the model computes; none if the host provides them.
template <typename T>
static std::optional<T> sumCounted(MeanGradientOp op, Evaluator<T> &evaluator) {
  for (auto sum : op->getBlock()->getOps<WeightSumOp>()) {
    if (sum.getName() == op.getWeights()) {
      std::vector<T> weights = evaluator.getSequence(sum.getWeights());
      return std::accumulate(weights.begin(), weights.end(), T(0));
    }
  }
  return std::nullopt;
}

/// The evaluator has one batch: the other batches of an update are assumed to be the same.
template <typename T> static void evaluate(MeanGradientOp op, Evaluator<T> &evaluator) {
  int64_t scored = evaluator.getPositions(op.getResult()) - static_cast<int64_t>(op.getFirst());
  int64_t count = evaluator.getSetting().rows * std::max<int64_t>(scored, 1);
  for (int64_t b = 0; op.getPadded() && b < evaluator.getSetting().rows; ++b) {
    for (auto p = static_cast<int64_t>(op.getFirst()); p < evaluator.getPositions(op.getResult());
         ++p) {
      count -= evaluator.getSetting().isPadding(b, p);
    }
  }
  count *= static_cast<int64_t>(op.getBatches());
  T total = static_cast<T>(std::max<int64_t>(count, 1));
  if (!op.getWeights().empty()) {
    std::optional<T> counted = sumCounted(op, evaluator);
    total = counted.value_or(T(0));
    for (int64_t b = 0; !counted && b < evaluator.getSetting().rows; ++b) {
      for (auto p = static_cast<int64_t>(op.getFirst()); p < evaluator.getPositions(op.getResult());
           ++p) {
        total += weightAt<T>(b, p);
      }
    }
    total = total == 0 ? T(1) : total * static_cast<T>(op.getBatches());
  }
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    T share = op.getFactor().convertToFloat() / total;
    return std::vector<T>{op.getPadded() && evaluator.getSetting().isPadding(b, p) ? T(0) : share};
  });
}

SLUICE_REFERENCE(ObjectiveOp)
SLUICE_REFERENCE(WeightSumOp)
SLUICE_REFERENCE(MeanGradientOp)
SLUICE_REFERENCE(CrossEntropyOp)
SLUICE_REFERENCE(CrossEntropyBackwardOp)
