// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Layer norm and RMS norm.
#include "Reference.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// Returns the mean (zero for RMS) and 1/sqrt(mean((x - mean)^2) + epsilon).
template <typename T>
static std::pair<T, T> statistics(const std::vector<T> &row, bool rms, double epsilon) {
  T width = static_cast<T>(row.size());
  T mean = 0;
  if (!rms) {
    for (T x : row) {
      mean += x;
    }
    mean /= width;
  }
  T square = 0;
  for (T x : row) {
    square += (x - mean) * (x - mean);
  }
  return {mean, T(1) / std::sqrt(square / width + static_cast<T>(epsilon))};
}

/// y = (x - mean) rstd gain + bias
template <typename T> static void evaluate(NormOp op, Evaluator<T> &evaluator) {
  const std::vector<T> &gain = evaluator.getTensor(op.getGain());
  double epsilon = op.getEpsilon().convertToDouble();
  auto of = [&](int64_t b, int64_t p) {
    return statistics<T>(evaluator.rowAt(op.getInput(), b, p), op.getRms(), epsilon);
  };
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> row = evaluator.rowAt(op.getInput(), b, p);
    auto [mean, rstd] = of(b, p);
    for (size_t c = 0; c < row.size(); ++c) {
      row[c] = (row[c] - mean) * rstd * gain[c] +
               (op.getBias() ? evaluator.getTensor(op.getBias())[c] : T(0));
    }
    return row;
  });
  evaluator.define(op.getMean(),
                   [&](int64_t b, int64_t p) { return std::vector<T>{of(b, p).first}; });
  evaluator.define(op.getRstd(),
                   [&](int64_t b, int64_t p) { return std::vector<T>{of(b, p).second}; });
}

/// With h = (x - mean) rstd and e = dy gain: dx = rstd (e - mean(e) - h mean(e h)); RMS omits
/// mean(e).
template <typename T> static void evaluate(NormBackwardOp op, Evaluator<T> &evaluator) {
  const std::vector<T> &gain = evaluator.getTensor(op.getGain());
  int64_t width = reference::getColumns(op.getInput());
  auto hat = [&](int64_t b, int64_t p, int64_t c) {
    T mean = op.getRms() ? T(0) : evaluator.at(op.getMean(), b, p, 0);
    return (evaluator.at(op.getInput(), b, p, c) - mean) * evaluator.at(op.getRstd(), b, p, 0);
  };
  evaluator.define(op.getInputGradient(), [&](int64_t b, int64_t p) {
    std::vector<T> e = evaluator.rowAt(op.getGradient(), b, p);
    T meanE = 0, meanEh = 0;
    for (int64_t c = 0; c < width; ++c) {
      e[c] *= gain[c];
      meanE += e[c] / width;
      meanEh += e[c] * hat(b, p, c) / width;
    }
    for (int64_t c = 0; c < width; ++c) {
      T centered = op.getRms() ? e[c] : e[c] - meanE;
      e[c] = evaluator.at(op.getRstd(), b, p, 0) * (centered - hat(b, p, c) * meanEh);
    }
    return e;
  });
  std::vector<T> gainGradient(width), biasGradient(width);
  evaluator.forEachPosition(op.getInput(), [&](int64_t b, int64_t p) {
    for (int64_t c = 0; c < width; ++c) {
      T dy = evaluator.at(op.getGradient(), b, p, c);
      gainGradient[c] += dy * hat(b, p, c);
      biasGradient[c] += dy;
    }
  });
  evaluator.setTensor(op.getGainGradient(), gainGradient);
  if (op.getBiasGradient()) {
    evaluator.setTensor(op.getBiasGradient(), biasGradient);
  }
}

SLUICE_REFERENCE(NormOp)
SLUICE_REFERENCE(NormBackwardOp)
