// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
#include "Scalars.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Returns x Phi(x), with the error function or its approximation by tanh (Hendrycks and Gimpel,
/// section 2).
static ScalarValue gelu(ScalarValue x, bool byTanh) {
  ScalarValue inner = x;
  if (byTanh) {
    ScalarValue cube = x * x * x;
    inner = tanh((x + cube * 0.044715) * std::sqrt(2 / std::numbers::pi));
  } else {
    inner = erf(x * (std::numbers::sqrt2 / 2));
  }
  ScalarValue half = x * 0.5;
  return half * (inner + 1);
}

ScalarValue spec_to_sluice::applyActivation(spec::ActivationFunction activation, ScalarValue x) {
  using spec::ActivationFunction;
  switch (activation) {
  case ActivationFunction::relu:
    return max(x, 0);
  case ActivationFunction::relu_squared: {
    ScalarValue kept = max(x, 0);
    return kept * kept;
  }
  case ActivationFunction::gelu:
  case ActivationFunction::gelu_tanh:
    return gelu(x, activation == ActivationFunction::gelu_tanh);
  case ActivationFunction::none:
  case ActivationFunction::swiglu:
    return x;
  }
  llvm_unreachable("unknown activation");
}

ScalarValue spec_to_sluice::sigmoid(ScalarValue x, ScalarValue one) {
  ScalarValue decay = exp(-x);
  return one / (one + decay);
}

ScalarValue spec_to_sluice::logGamma(ScalarValue x) {
  constexpr int steps = 4;
  ScalarValue product = x, z = x + steps;
  for (int i = 1; i < steps; ++i) {
    product = product * (x + i);
  }
  ScalarValue inverse = 1 / z, square = inverse * inverse;
  ScalarValue last = x.get(-1.0 / 360);
  ScalarValue series = last + square * (1.0 / 1260);
  ScalarValue first = x.get(1.0 / 12);
  series = inverse * (first + square * series);
  ScalarValue main = z - 0.5;
  main = main * log(z) - z + 0.5 * std::log(2 * std::numbers::pi);
  return main + series - log(product);
}
