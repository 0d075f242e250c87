// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers in the regions of maps. Operators and functions create ops of arith and math.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec_to_sluice {

/// An f32, an argument that is an i32, or a condition. An operand that is a C++ number becomes a
/// constant right before the op; `get` creates a constant earlier.
class Scalar {
public:
  Scalar(mlir::ImplicitLocOpBuilder &builder, mlir::Value value) : b(&builder), value(value) {}
  Scalar(mlir::ImplicitLocOpBuilder &builder, double number)
      : b(&builder), value(mlir::arith::ConstantOp::create(
                         builder, builder.getF32FloatAttr(static_cast<float>(number)))) {}

  operator mlir::Value() const { return value; }
  /// A constant next to this number.
  Scalar get(double number) const { return {*b, number}; }
  /// The result of an op of these operands.
  template <typename Op, typename... Operands> Scalar create(Operands... operands) const {
    return {*b, mlir::Value(Op::create(*b, operands...))};
  }

private:
  mlir::ImplicitLocOpBuilder *b;
  mlir::Value value;
};

inline Scalar operator+(Scalar x, Scalar y) { return x.create<mlir::arith::AddFOp>(x, y); }
inline Scalar operator-(Scalar x, Scalar y) { return x.create<mlir::arith::SubFOp>(x, y); }
inline Scalar operator*(Scalar x, Scalar y) { return x.create<mlir::arith::MulFOp>(x, y); }
inline Scalar operator/(Scalar x, Scalar y) { return x.create<mlir::arith::DivFOp>(x, y); }
inline Scalar operator+(Scalar x, double y) { return x + x.get(y); }
inline Scalar operator-(Scalar x, double y) { return x - x.get(y); }
inline Scalar operator*(Scalar x, double y) { return x * x.get(y); }
inline Scalar operator/(Scalar x, double y) { return x / x.get(y); }
inline Scalar operator-(double x, Scalar y) { return y.get(x) - y; }
inline Scalar operator/(double x, Scalar y) { return y.get(x) / y; }
inline Scalar operator-(Scalar x) { return x.create<mlir::arith::NegFOp>(x); }

inline Scalar max(Scalar x, Scalar y) { return x.create<mlir::arith::MaximumFOp>(x, y); }
inline Scalar min(Scalar x, Scalar y) { return x.create<mlir::arith::MinimumFOp>(x, y); }
inline Scalar max(Scalar x, double y) { return max(x, x.get(y)); }
inline Scalar min(Scalar x, double y) { return min(x, x.get(y)); }
inline Scalar exp(Scalar x) { return x.create<mlir::math::ExpOp>(x); }
inline Scalar log(Scalar x) { return x.create<mlir::math::LogOp>(x); }
inline Scalar log1p(Scalar x) { return x.create<mlir::math::Log1pOp>(x); }
inline Scalar sqrt(Scalar x) { return x.create<mlir::math::SqrtOp>(x); }
inline Scalar tanh(Scalar x) { return x.create<mlir::math::TanhOp>(x); }
inline Scalar erf(Scalar x) { return x.create<mlir::math::ErfOp>(x); }
inline Scalar floor(Scalar x) { return x.create<mlir::math::FloorOp>(x); }

inline Scalar isAbove(Scalar x, Scalar y) {
  return x.create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OGT, x, y);
}
inline Scalar isAtLeast(Scalar x, Scalar y) {
  return x.create<mlir::arith::CmpFOp>(mlir::arith::CmpFPredicate::OGE, x, y);
}
inline Scalar select(Scalar condition, Scalar yes, Scalar no) {
  return yes.create<mlir::arith::SelectOp>(condition, yes, no);
}
/// `yes` where x > threshold, else `no`.
inline Scalar selectAbove(Scalar x, Scalar threshold, Scalar yes, Scalar no) {
  return select(isAbove(x, threshold), yes, no);
}
/// The same with constants, 1 and 0 for example.
inline Scalar selectAbove(Scalar x, double threshold, double yes, double no) {
  Scalar limit = x.get(threshold), one = x.get(yes);
  return selectAbove(x, limit, one, x.get(no));
}

/// x itself for `none`; swiglu, of two numbers, is none of these.
Scalar applyActivation(spec::ActivationFunction activation, Scalar x);
/// one / (1 + exp(-x)).
Scalar sigmoid(Scalar x, Scalar one);
/// The logarithm of the gamma function of x >= 1: Stirling's series at x + 4,
/// less the logarithm of x (x + 1) (x + 2) (x + 3). Its derivative is digamma.
Scalar logGamma(Scalar x);

} // namespace sluice::spec_to_sluice
