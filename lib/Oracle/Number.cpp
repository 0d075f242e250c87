// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Number.h"

#include <algorithm>

using namespace sluice::oracle;

Number sluice::oracle::divide(Number a, Number b) {
  double least = std::abs(b.value) - b.error; // minimum magnitude of the divisor
  if (!(least > 0)) {
    bool isExact = b.error == 0; // x / 0 is exact
    return {a.value / b.value, isExact ? 0 : INFINITY};
  }
  double value = a.value / b.value;
  double error = (a.error + std::abs(value) * b.error) / least;
  double own = error + division * (std::abs(value) + error);
  return {value, std::isnan(own) ? INFINITY : own};
}

Number sluice::oracle::monotone(Number x, llvm::function_ref<double(double)> function) {
  double value = function(x.value);
  double error = 0;
  if (!(x.error <= 0)) {
    error = std::max(std::abs(function(x.value + x.error) - value),
                     std::abs(function(x.value - x.error) - value));
    error = std::isnan(error) ? INFINITY : error; // root or logarithm of a possibly negative number
  }
  return {value, error + elementary * (std::abs(value) + error)};
}

Number sluice::oracle::gentle(Number x, llvm::function_ref<double(double)> function) {
  return {function(x.value), x.error + elementary};
}
