// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Proof/Staircase.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Support/WorkBudget.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace sluice;

/// Sums and products of numbers up to this do not overflow where an expression is evaluated.
constexpr double largestStair = 0x1p60;

//===----------------------------------------------------------------------===//
// Periods
//===----------------------------------------------------------------------===//

/// Returns a period and its rise, both multiplied by `times`.
static Repeat stretched(Repeat x, int64_t times) {
  int64_t period, rise;
  if (x.period == 0 || __builtin_mul_overflow(x.period, times, &period) || period > longestRepeat ||
      __builtin_mul_overflow(x.rise, times, &rise)) {
    return {0, 0};
  }
  return {period, rise};
}

Repeat sluice::multiplied(Repeat x, int64_t factor) {
  int64_t rise;
  if (x.period == 0 || __builtin_mul_overflow(x.rise, factor, &rise)) {
    return {0, 0};
  }
  return {x.period, rise};
}

Repeat sluice::divided(Repeat x, int64_t c) {
  Repeat whole = stretched(x, c / std::gcd(c, x.rise));
  return {whole.period, whole.rise / c};
}

Repeat sluice::added(Repeat x, Repeat y) {
  if (x.period == 0 || y.period == 0) {
    return {0, 0};
  }
  int64_t common = std::gcd(x.period, y.period);
  Repeat left = stretched(x, y.period / common), right = stretched(y, x.period / common);
  int64_t rise;
  if (left.period == 0 || right.period == 0 ||
      __builtin_add_overflow(left.rise, right.rise, &rise)) {
    return {0, 0};
  }
  return {left.period, rise};
}

namespace {
/// A period, and a bound |e(p)| <= slope |p| + constant.
struct Measure {
  Repeat repeat;
  double slope = 0, constant = 0;
};
} // namespace

static std::optional<Measure> measure(AffineExpr expression, int64_t longest) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    return Measure{{1, 0}, 0, std::abs(static_cast<double>(constant.getValue()))};
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expression)) {
    return dim.getPosition() == 0 ? std::optional(Measure{{1, 1}, 1, 0}) : std::nullopt;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  std::optional<Measure> x = binary ? measure(binary.getLHS(), longest) : std::nullopt;
  std::optional<Measure> result;
  auto constant = binary ? dyn_cast<AffineConstantExpr>(binary.getRHS()) : AffineConstantExpr();
  int64_t c = constant ? constant.getValue() : 0;
  if (x && binary.getKind() == AffineExprKind::Add) {
    if (std::optional<Measure> y = measure(binary.getRHS(), longest)) {
      result = {added(x->repeat, y->repeat), x->slope + y->slope, x->constant + y->constant};
    }
  } else if (x && constant && binary.getKind() == AffineExprKind::Mul) {
    double factor = std::abs(static_cast<double>(c));
    result = {multiplied(x->repeat, c), x->slope * factor, x->constant * factor};
  } else if (x && c > 0) {
    auto by = static_cast<double>(c);
    bool isMod = binary.getKind() == AffineExprKind::Mod;
    Repeat repeat = divided(x->repeat, c); // the ceiling has the period of the floor
    result = isMod ? Measure{{repeat.period, 0}, 0, by}
                   : Measure{repeat, x->slope / by, x->constant / by + 1};
  }
  if (!result || result->repeat.period == 0 || result->repeat.period > longest ||
      result->slope * 2 * static_cast<double>(longest) + result->constant > largestStair) {
    return std::nullopt;
  }
  return result;
}

Repeat sluice::computeRepeat(AffineExpr expression, int64_t longest) {
  std::optional<Measure> found = measure(expression, longest);
  return found ? found->repeat : Repeat{0, 0};
}

size_t sluice::countFloors(AffineExpr expression) {
  size_t count = 0;
  expression.walk([&](AffineExpr part) {
    count += part.getKind() == AffineExprKind::FloorDiv ||
             part.getKind() == AffineExprKind::CeilDiv || part.getKind() == AffineExprKind::Mod;
  });
  return count;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

std::optional<Staircase> sluice::tabulate(AffineExpr expression, int64_t longest) {
  Staircase result{computeRepeat(expression, longest), {}};
  if (!spendWork(result.repeat.period * static_cast<int64_t>(countFloors(expression) + 1))) {
    return std::nullopt;
  }
  for (int64_t p = 0; p < result.repeat.period; ++p) {
    result.values.push_back(reference::evaluateAffine(expression, p, 0, 0));
  }
  return result.values.empty() ? std::nullopt : std::optional(std::move(result));
}

int64_t Staircase::at(int64_t p) const {
  int64_t t = llvm::divideFloorSigned(p, repeat.period);
  return values[static_cast<size_t>(p - t * repeat.period)] + t * repeat.rise;
}

bool Staircase::isNonDecreasing() const {
  return std::is_sorted(values.begin(), values.end()) &&
         values.front() + repeat.rise >= values.back();
}

void Staircase::shorten() {
  for (int64_t shorter = 1; shorter <= repeat.period / 2; ++shorter) {
    if (repeat.period % shorter != 0 || repeat.rise % (repeat.period / shorter) != 0) {
      continue;
    }
    int64_t rise = repeat.rise / (repeat.period / shorter);
    bool repeats = true;
    for (int64_t p = shorter; repeats && p < repeat.period; ++p) {
      repeats = values[static_cast<size_t>(p)] == values[static_cast<size_t>(p - shorter)] + rise;
    }
    if (repeats) {
      repeat = {shorter, rise};
      values.resize(static_cast<size_t>(shorter));
      return;
    }
  }
}

/// Sums terms floor((p + period - t) / period) with t >= 1, each of which rises by one at every t
/// modulo the period.
std::optional<AffineExpr> Staircase::toExpression(MLIRContext *context, size_t mostFloors) const {
  AffineExpr p = getAffineDimExpr(0, context);
  if (repeat.period == 1) {
    return p * repeat.rise + values[0];
  }
  AffineExpr sum = getAffineConstantExpr(values[0], context);
  size_t floors = 0;
  for (int64_t t = 1; t <= repeat.period; ++t) {
    int64_t step = (t < repeat.period ? values[static_cast<size_t>(t)] : values[0] + repeat.rise) -
                   values[static_cast<size_t>(t - 1)];
    if (step < 0 || (step > 0 && ++floors > mostFloors)) {
      return std::nullopt;
    }
    if (step > 0) {
      sum = sum + (p + (repeat.period - t)).floorDiv(repeat.period) * step;
    }
  }
  return sum;
}

std::optional<Staircase> sluice::maximum(const Staircase &x, const Staircase &y, int64_t longest) {
  Repeat left = stretched(x.repeat, y.repeat.period / std::gcd(x.repeat.period, y.repeat.period));
  Repeat right = stretched(y.repeat, x.repeat.period / std::gcd(x.repeat.period, y.repeat.period));
  if (left.period == 0 || left.period > longest || left.rise != right.rise) {
    return std::nullopt;
  }
  Staircase result{left, {}};
  for (int64_t p = 0; p < left.period; ++p) {
    result.values.push_back(std::max(x.at(p), y.at(p)));
  }
  return result;
}
