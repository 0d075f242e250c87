// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Linear maps and their gradients.
#include "Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// y = x W^T + b
template <typename T> static void evaluate(LinearOp op, Evaluator<T> &evaluator) {
  const std::vector<T> &weight = evaluator.getTensor(op.getWeight());
  int64_t outputs = reference::getColumns(op.getResult());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> x = evaluator.rowAt(op.getInput(), b, p), y(outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      for (size_t i = 0; i < x.size(); ++i) {
        y[o] += x[i] * weight[o * x.size() + i];
      }
      y[o] += op.getBias() ? evaluator.getTensor(op.getBias())[o] : T(0);
    }
    return y;
  });
}

/// dx = dy W
template <typename T> static void evaluate(LinearInputGradientOp op, Evaluator<T> &evaluator) {
  const std::vector<T> &weight = evaluator.getTensor(op.getWeight());
  int64_t inputs = reference::getColumns(op.getResult());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> dy = evaluator.rowAt(op.getGradient(), b, p), dx(inputs);
    for (size_t o = 0; o < dy.size(); ++o) {
      for (int64_t i = 0; i < inputs; ++i) {
        dx[i] += dy[o] * weight[o * inputs + i];
      }
    }
    return dx;
  });
}

/// dW = init + sum of dy^T x, db = init + sum of dy, over valid rows
template <typename T> static void evaluate(LinearWeightGradientOp op, Evaluator<T> &evaluator) {
  int64_t inputs = reference::getColumns(op.getInput()),
          outputs = reference::getColumns(op.getGradient());
  std::vector<T> weight(inputs * outputs), bias(outputs);
  if (op.getInitWeight()) {
    weight = evaluator.getTensor(op.getInitWeight());
  }
  if (op.getInitBias()) {
    bias = evaluator.getTensor(op.getInitBias());
  }
  evaluator.forEachPosition(op.getGradient(), [&](int64_t b, int64_t p) {
    std::vector<T> dy = evaluator.rowAt(op.getGradient(), b, p),
                   x = evaluator.rowAt(op.getInput(), b, p);
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t i = 0; i < inputs; ++i) {
        weight[o * inputs + i] += dy[o] * x[i];
      }
      bias[o] += dy[o];
    }
  });
  if (op.getWeight()) {
    evaluator.setTensor(op.getWeight(), std::move(weight));
  }
  if (op.getBias()) {
    evaluator.setTensor(op.getBias(), std::move(bias));
  }
}

SLUICE_REFERENCE(LinearOp)
SLUICE_REFERENCE(LinearInputGradientOp)
SLUICE_REFERENCE(LinearWeightGradientOp)
