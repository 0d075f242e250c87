// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds scalar code in the regions of maps. Operators and functions create ops of arith and math.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec_to_sluice {

/// A scalar: an f32, an i32 argument, or a condition. An operand that is a C++ number becomes a
/// constant right before the op; `get` creates a constant earlier.
class ScalarValue {
public:
  ScalarValue(mlir::ImplicitLocOpBuilder &builder, mlir::Value value) : b(&builder), value(value) {}
  ScalarValue(mlir::ImplicitLocOpBuilder &builder, double number)
      : b(&builder), value(mlir::arith::ConstantOp::create(
                         builder, builder.getF32FloatAttr(static_cast<float>(number)))) {}

  operator mlir::Value() const { return value; }
  /// Creates a constant next to this number.
  ScalarValue get(double number) const { return {*b, number}; }
  /// Creates an op with these operands and returns its result.
  template <typename Op, typename... Operands> ScalarValue create(Operands... operands) const {
    return {*b, mlir::Value(Op::create(*b, operands...))};
  }

private:
  mlir::ImplicitLocOpBuilder *b;
  mlir::Value value;
};

inline ScalarValue operator+(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::AddFOp>(x, y);
}
inline ScalarValue operator-(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::SubFOp>(x, y);
}
inline ScalarValue operator*(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::MulFOp>(x, y);
}
inline ScalarValue operator/(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::DivFOp>(x, y);
}
inline ScalarValue operator+(ScalarValue x, double y) { return x + x.get(y); }
inline ScalarValue operator-(ScalarValue x, double y) { return x - x.get(y); }
inline ScalarValue operator*(ScalarValue x, double y) { return x * x.get(y); }
inline ScalarValue operator/(ScalarValue x, double y) { return x / x.get(y); }
inline ScalarValue operator-(double x, ScalarValue y) { return y.get(x) - y; }
inline ScalarValue operator/(double x, ScalarValue y) { return y.get(x) / y; }
inline ScalarValue operator-(ScalarValue x) { return x.create<mlir::arith::NegFOp>(x); }

inline ScalarValue max(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::MaximumFOp>(x, y);
}
inline ScalarValue min(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::MinimumFOp>(x, y);
}
inline ScalarValue max(ScalarValue x, double y) { return max(x, x.get(y)); }
inline ScalarValue min(ScalarValue x, double y) { return min(x, x.get(y)); }
inline ScalarValue exp(ScalarValue x) { return x.create<mlir::math::ExpOp>(x); }
inline ScalarValue log(ScalarValue x) { return x.create<mlir::math::LogOp>(x); }
inline ScalarValue log1p(ScalarValue x) { return x.create<mlir::math::Log1pOp>(x); }
inline ScalarValue sqrt(ScalarValue x) { return x.create<mlir::math::SqrtOp>(x); }
inline ScalarValue tanh(ScalarValue x) { return x.create<mlir::math::TanhOp>(x); }
inline ScalarValue erf(ScalarValue x) { return x.create<mlir::math::ErfOp>(x); }
inline ScalarValue floor(ScalarValue x) { return x.create<mlir::math::FloorOp>(x); }

inline ScalarValue isAbove(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OGT, x, y);
}
inline ScalarValue isAtLeast(ScalarValue x, ScalarValue y) {
  return x.create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OGE, x, y);
}
inline ScalarValue select(ScalarValue condition, ScalarValue yes, ScalarValue no) {
  return yes.create<mlir::arith::SelectOp>(condition, yes, no);
}
/// Returns `yes` where x > threshold, else `no`.
inline ScalarValue selectAbove(ScalarValue x, ScalarValue threshold, ScalarValue yes,
                               ScalarValue no) {
  return select(isAbove(x, threshold), yes, no);
}
/// Returns one of two constants, 1 and 0 for example, by the same condition.
inline ScalarValue selectAbove(ScalarValue x, double threshold, double yes, double no) {
  ScalarValue limit = x.get(threshold), one = x.get(yes);
  return selectAbove(x, limit, one, x.get(no));
}

/// Applies an activation; returns x itself for `none`. Not for swiglu, which has two inputs.
ScalarValue applyActivation(spec::ActivationFunction activation, ScalarValue x);
/// Returns one / (1 + exp(-x)).
ScalarValue sigmoid(ScalarValue x, ScalarValue one);
/// Returns the logarithm of the gamma function of x >= 1: Stirling's series at x + 4, minus the
/// logarithm of x (x + 1) (x + 2) (x + 3). Its derivative is digamma.
ScalarValue logGamma(ScalarValue x);

} // namespace sluice::spec_to_sluice
