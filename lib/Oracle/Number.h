// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers with a bound on the error of an f32 evaluation.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace sluice::oracle {

constexpr double unit = 0x1p-24;       ///< half an ulp of 1 in f32: relative error of a rounding
constexpr double bf16Unit = 0x1p-8;    ///< the same in bf16
constexpr double sumUnit = 0x1p-23;    ///< error of one step of a sum: tensor cores may truncate
                                       ///< instead of rounding
constexpr double elementary = 0x1p-21; ///< relative error of an elementary function: 4 ulp
/// Relative error of a quotient: 2 ulp, the bound of div.full in the PTX ISA.
constexpr double division = 0x1p-22;

/// The result of exact arithmetic, and the maximum error of an f32 evaluation. Integers and
/// booleans are exact values; a boolean with an error may be either.
struct Number {
  double value = 0, error = 0;
};
/// Multiplies an error by a factor. The product is zero if either is zero, however large the other;
/// an unknown error gives an unbounded one.
inline double times(double factor, double error) {
  double product = factor == 0 || error == 0 ? 0 : std::abs(factor) * error;
  return std::isnan(product) ? INFINITY : product;
}
/// Returns the error of a product.
inline double productError(double a, double errorOfA, double b, double errorOfB) {
  return times(a, errorOfB) + times(b, errorOfA) + times(errorOfA, errorOfB);
}
using Numbers = std::vector<Number>;

/// Adds the error of one more rounding to f32.
inline Number rounded(double value, double error) {
  double own = error + unit * (std::abs(value) + error);
  return {value, std::isnan(own) ? INFINITY : own};
}
inline Number add(Number a, Number b) { return rounded(a.value + b.value, a.error + b.error); }
inline Number subtract(Number a, Number b) { return rounded(a.value - b.value, a.error + b.error); }
inline Number multiply(Number a, Number b) {
  return rounded(a.value * b.value, productError(a.value, a.error, b.value, b.error));
}
Number divide(Number a, Number b);
/// Applies a monotone function with a relative error of at most `elementary`.
Number monotone(Number x, llvm::function_ref<double(double)> function);
inline Number monotone(Number x, double (*function)(double)) { // an overloaded name
  return monotone(x, llvm::function_ref<double(double)>(function));
}
/// Applies a function of slope at most 1, with an absolute error of at most `elementary`.
Number gentle(Number x, llvm::function_ref<double(double)> function);
/// Rounds to bf16 and back, to nearest.
inline Number roundedToBf16(Number x) {
  return {x.value, x.error + bf16Unit * (std::abs(x.value) + x.error)};
}

/// Returns a number as the nearest i8 of [-127, 127]; where the error leaves several, all of them.
inline Number roundedToWhole(Number x) {
  auto whole = [](double value) { return std::nearbyint(std::clamp(value, -127.0, 127.0)); };
  double value = whole(x.value);
  return {value, std::max(whole(x.value + x.error) - value, value - whole(x.value - x.error))};
}

/// A sum of products in f32, in any order, with `splits` partial sums added at the end.
class ProductSum {
public:
  void add(Number a, Number b) {
    double product = a.value * b.value;
    value += product;
    magnitude += std::abs(product);
    error += productError(a.value, a.error, b.value, b.error);
    ++terms;
  }
  void add(Number a) { add(a, {1, 0}); }
  Number total(int64_t splits = 0) const {
    return {value, error + double(terms + splits) * sumUnit * (magnitude + error)};
  }

  /// Returns an upper bound of any partial sum, for any order of its terms.
  double most() const { return total().error + magnitude; }

private:
  double value = 0, magnitude = 0, error = 0;
  int64_t terms = 0;
};

} // namespace sluice::oracle
