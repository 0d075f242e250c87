// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Head and cross-entropy.
#include "Reference.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// Logarithm of softmax(x W^T + b).
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

/// Log-probabilities of row (b, p) for either op.
template <typename T, typename Op>
static std::vector<T> rowOf(Op op, Evaluator<T> &evaluator, int64_t b, int64_t p) {
  const T *bias = op.getBias() ? evaluator.getTensor(op.getBias()).data() : nullptr;
  return logProbabilities<T>(evaluator.rowAt(op.getInput(), b, p),
                             evaluator.getTensor(op.getWeight()), bias);
}

/// loss[p] = -log softmax(x[p] W^T + b)[token[p + offset]]
template <typename T, typename Op> static void defineLosses(Op op, Evaluator<T> &evaluator) {
  int64_t offset = op.getOffset();
  evaluator.define(op.getLosses(), [&](int64_t b, int64_t p) {
    return std::vector<T>{
        -rowOf<T>(op, evaluator, b, p)[evaluator.tokenAt(op.getTokens(), b, p + offset)]};
  });
}

template <typename T> static void evaluate(CrossEntropyOp op, Evaluator<T> &evaluator) {
  defineLosses<T>(op, evaluator);
}

/// With g = (softmax - onehot) / (rows positions): dx = g W, dW = init + sum of g^T x, db = init +
/// sum of g
template <typename T> static void evaluate(CrossEntropyBackwardOp op, Evaluator<T> &evaluator) {
  defineLosses<T>(op, evaluator);
  const std::vector<T> &weight = evaluator.getTensor(op.getWeight());
  int64_t width = evaluator.getColumns(op.getInput());
  int64_t vocabulary = static_cast<int64_t>(weight.size()) / width;
  std::vector<T> weightGradient(weight.size()), biasGradient(vocabulary);
  if (op.getInitWeight()) {
    weightGradient = evaluator.getTensor(op.getInitWeight());
  }
  if (op.getInitBias()) {
    biasGradient = evaluator.getTensor(op.getInitBias());
  }
  T count = static_cast<T>(evaluator.getRows() * evaluator.getPositions(op.getInput()));
  evaluator.define(op.getInputGradient(), [&](int64_t b, int64_t p) {
    std::vector<T> g = rowOf<T>(op, evaluator, b, p), dx(width);
    int64_t target = evaluator.tokenAt(op.getTokens(), b, p + op.getOffset());
    for (int64_t v = 0; v < vocabulary; ++v) {
      g[v] = (std::exp(g[v]) - (v == target ? T(1) : T(0))) / count;
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

SLUICE_REFERENCE(CrossEntropyOp)
SLUICE_REFERENCE(CrossEntropyBackwardOp)
