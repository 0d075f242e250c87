// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides the sign of a quasi-affine function of one variable for every p >= 0.
#include "sluice/Proof/QuasiAffine.h"
#include "mlir/Analysis/Presburger/Fraction.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Proof/IntegerPoint.h"
#include "sluice/Proof/Residues.h"
#include "sluice/Proof/Staircase.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;
using presburger::Fraction;

namespace {

/// Maximum number of evaluations of a decision: 0.2 s.
constexpr int64_t mostSteps = longestRepeat;
/// Maximum period that is enumerated without another test: microseconds.
constexpr int64_t quickSteps = int64_t{1} << 10;
/// Bound beyond which evaluating an expression could overflow.
constexpr int64_t largestFraction = int64_t{1} << 60;

/// Bounds slope p + low <= e(p) <= slope p + high, and the repetition e(p + period) = e(p) + rise.
struct AffineShape {
  Fraction slope = 0, low = 0, high = 0;
  Repeat repeat;
};

AffineShape scaled(AffineShape x, int64_t factor) {
  Fraction f(factor, 1);
  if (factor < 0) {
    std::swap(x.low, x.high);
  }
  return {x.slope * f, x.low * f, x.high * f, multiplied(x.repeat, factor)};
}

/// Returns the shape of floor(e / c), which is within ((c - 1) / c, 0] of e / c.
AffineShape floored(const AffineShape &x, int64_t c) {
  Fraction inverse(1, c);
  return {x.slope * inverse, (x.low - Fraction(c - 1, 1)) * inverse, x.high * inverse,
          divided(x.repeat, c)};
}

AffineShape sum(const AffineShape &x, const AffineShape &y) {
  return {x.slope + y.slope, x.low + y.low, x.high + y.high, added(x.repeat, y.repeat)};
}

std::optional<AffineShape> findShape(AffineExpr expression) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    Fraction value(constant.getValue(), 1);
    return AffineShape{0, value, value, {1, 0}};
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expression)) {
    return dim.getPosition() == 0 ? std::optional(AffineShape{1, 0, 0, {1, 1}}) : std::nullopt;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary) {
    return std::nullopt;
  }
  std::optional<AffineShape> x = findShape(binary.getLHS());
  if (x && binary.getKind() == AffineExprKind::Add) {
    std::optional<AffineShape> y = findShape(binary.getRHS());
    return y ? std::optional(sum(*x, *y)) : std::nullopt;
  }
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (!x || !constant) {
    return std::nullopt;
  }
  int64_t c = constant.getValue();
  if (binary.getKind() == AffineExprKind::Mul) {
    return scaled(*x, c);
  }
  if (c <= 0) {
    return std::nullopt;
  }
  switch (binary.getKind()) {
  case AffineExprKind::FloorDiv:
    return floored(*x, c);
  case AffineExprKind::CeilDiv: // -floor(-e / c)
    return scaled(floored(scaled(*x, -1), c), -1);
  case AffineExprKind::Mod:
    return AffineShape{0, 0, Fraction(c - 1, 1), {divided(x->repeat, c).period, 0}};
  default:
    return std::nullopt;
  }
}

bool isSmall(const Fraction &x) {
  return x <= Fraction(largestFraction, 1) && x >= Fraction(-largestFraction, 1);
}

} // namespace

/// Searches for p >= 0 with e(p) > 0. Leaves divisions by large numbers that bounds do not decide
/// to the Presburger library.
static CommonPoint findPositive(AffineExpr expression) {
  constexpr size_t fewFloors = 4;
  CommonPoint point = findCommonPoint({expression - 1}, /*everywhere=*/false);
  if (point.kind != CommonPoint::Unknown || countFloors(expression) > fewFloors ||
      isWorkExhausted()) {
    return point;
  }
  AffineExpr p = getAffineDimExpr(0, expression.getContext());
  IntegerPoint asked = findIntegerPoint(IntegerSet::get(1, 0, {p, expression - 1}, {false, false}));
  switch (asked.kind) {
  case IntegerPoint::None:
    return {CommonPoint::None, 0};
  case IntegerPoint::Found:
    return {CommonPoint::Found, asked.at[0]};
  case IntegerPoint::Unknown:
    return {};
  }
}

/// Decides by slope: with a falling slope, e(p) can be positive only for p below high / -slope;
/// with slope 0, one period is sufficient; with a rising slope, e(p) is positive for some p up to
/// -low / slope + 1.
SignAnswer sluice::isNeverPositive(AffineExpr expression, bool wantFirst) {
  std::optional<AffineShape> shape = findShape(expression);
  if (!shape || !isSmall(shape->slope) || !isSmall(shape->low) || !isSmall(shape->high)) {
    return {};
  }
  if (shape->slope <= Fraction(0, 1) && shape->high <= Fraction(0, 1)) {
    return {SignAnswer::Always, 0};
  }
  Fraction steps(shape->repeat.period, 1);
  if (shape->slope < Fraction(0, 1)) {
    steps = Fraction(1, 1) - shape->high / shape->slope;
  } else if (shape->slope > Fraction(0, 1)) {
    steps = Fraction(2, 1) - shape->low / shape->slope;
  }
  // Searches a long period by remainders, and enumerates only to find the first failure.
  std::optional<int64_t> somewhere;
  if (shape->repeat.period == 0 || steps > Fraction(quickSteps, 1)) {
    CommonPoint point = findPositive(expression);
    if (point.kind != CommonPoint::Found) {
      return {point.kind == CommonPoint::None ? SignAnswer::Always : SignAnswer::Unknown, 0};
    }
    somewhere = point.at;
  }
  if (somewhere && (!wantFirst || shape->repeat.period == 0)) {
    return {SignAnswer::Fails, *somewhere};
  }
  auto cost = static_cast<int64_t>(countFloors(expression)) + 1;
  for (int64_t p = 0; p == 0 || Fraction(p, 1) <= steps; ++p) {
    bool hasWork = spendWork(cost);
    if (somewhere && (p >= std::min(mostSteps, *somewhere) || !hasWork)) {
      return {SignAnswer::Fails, *somewhere};
    }
    if (!hasWork) {
      return {};
    }
    if (reference::evaluateAffine(expression, p, 0, 0) > 0) {
      return {SignAnswer::Fails, p};
    }
  }
  return shape->slope > Fraction(0, 1) ? SignAnswer{} : SignAnswer{SignAnswer::Always, 0};
}

std::optional<AffineExpr> sluice::linearBound(AffineExpr expression) {
  std::optional<AffineShape> shape = findShape(expression);
  constexpr int64_t most = int64_t{1} << 40;
  auto isTame = [&](const presburger::Fraction &x) {
    return x.num <= most && x.num >= -most && x.den <= most;
  };
  if (!shape || !isTame(shape->slope) || !isTame(shape->high)) {
    return std::nullopt;
  }
  AffineExpr p = getAffineDimExpr(0, expression.getContext());
  auto a = int64_t(shape->slope.num), c = int64_t(shape->slope.den), h = int64_t(shape->high.num),
       d = int64_t(shape->high.den);
  int64_t common, slope, constant;
  int64_t part = std::gcd(c, d);
  if (__builtin_mul_overflow(c, d / part, &common) || __builtin_mul_overflow(a, d / part, &slope) ||
      __builtin_mul_overflow(h, c / part, &constant)) {
    return std::nullopt;
  }
  return (p * slope + constant).floorDiv(common);
}
