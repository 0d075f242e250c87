// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Elementary functions as straight-line arithmetic. Arguments are reduced with split constants and
// fused multiply-adds; then a Taylor series of sufficient length for the type is evaluated by
// Horner's rule: 1 to 2 ulp each.
#include "sluice/Target/Common/Math.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Builds arithmetic on one float type, scalar or vector.
class Calculator {
public:
  Calculator(PatternRewriter &rewriter, Location loc, Type type)
      : b(loc, rewriter), floatType(type), isDouble(getElementTypeOrSelf(type).isF64()) {
    Type element = b.getIntegerType(isDouble ? 64 : 32);
    auto shaped = dyn_cast<ShapedType>(type);
    intType = shaped ? Type(shaped.clone(element)) : element;
  }

  Value constant(double value) {
    TypedAttr attribute = b.getFloatAttr(getElementTypeOrSelf(floatType), value);
    return splat(attribute, floatType);
  }
  Value integer(int64_t value) {
    TypedAttr attribute = b.getIntegerAttr(getElementTypeOrSelf(intType), value);
    return splat(attribute, intType);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value bits(Value x) { return arith::BitcastOp::create(b, intType, x); }
  Value number(Value x) { return arith::BitcastOp::create(b, floatType, x); }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }

  /// Evaluates coefficients[0] + x (coefficients[1] + x (...)).
  Value horner(Value x, ArrayRef<double> coefficients) {
    Value sum = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) {
      sum = fma(sum, x, constant(coefficient));
    }
    return sum;
  }

  /// Returns the nearest integer to x, as a float and as an integer, by adding 1.5 * 2^(mantissa
  /// bits). NaN stays NaN (a conversion to an integer would be undefined).
  std::pair<Value, Value> round(Value x, double scale) {
    Value magic = constant(isDouble ? 6755399441055744.0 : 12582912.0);
    Value shifted = fma(x, constant(scale), magic);
    return {sub(shifted, magic), arith::SubIOp::create(b, bits(shifted), bits(magic))};
  }

  /// Computes 2^n if n is the exponent of a normal number.
  Value powerOfTwo(Value n) {
    Value biased = arith::AddIOp::create(b, n, integer(isDouble ? 1023 : 127));
    return number(arith::ShLIOp::create(b, biased, integer(isDouble ? 52 : 23)));
  }

  Value exp(Value x);
  Value log(Value x);
  Value log1p(Value x);
  Value sinCos(Value x, int quadrant);

  ImplicitLocOpBuilder b;
  Type floatType, intType;
  bool isDouble;

private:
  Value splat(TypedAttr attribute, Type type) {
    if (auto shaped = dyn_cast<ShapedType>(type)) {
      attribute = DenseElementsAttr::get(shaped, Attribute(attribute));
    }
    return arith::ConstantOp::create(b, attribute);
  }
};

} // namespace

/// Computes exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2.
Value Calculator::exp(Value x) {
  // Beyond these bounds the result is infinite, or rounds to zero. The comparisons are false for
  // NaN, which propagates.
  Value high = constant(isDouble ? 710.0 : 89.0), low = constant(isDouble ? -746.0 : -104.0);
  x = select(compare(arith::CmpFPredicate::OGT, x, high), high, x);
  x = select(compare(arith::CmpFPredicate::OLT, x, low), low, x);
  auto [n, integerN] = round(x, 1.4426950408889634);
  Value r = fma(n, constant(isDouble ? -0.693147180369123816490 : -0.693359375), x);
  r = fma(n, constant(isDouble ? -1.90821492927058770002e-10 : 2.12194440e-4), r);
  SmallVector<double> inverseFactorials{1.0};
  for (int k = 1; k <= (isDouble ? 13 : 7); ++k) {
    inverseFactorials.push_back(inverseFactorials.back() / k);
  }
  Value series = horner(r, inverseFactorials);
  // Two factors, because 2^n may be outside the range of normal numbers.
  Value half = arith::ShRSIOp::create(b, integerN, integer(1));
  Value scaled = mul(series, powerOfTwo(half));
  return mul(scaled, powerOfTwo(arith::SubIOp::create(b, integerN, half)));
}

/// log(2^e (1 + f)) = e ln 2 + log(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = 2
/// atanh(s), s = f / (2 + f).
Value Calculator::log(Value x) {
  Value tiny = compare(arith::CmpFPredicate::OLT, x, constant(isDouble ? 0x1p-1022 : 0x1p-126));
  Value scale = select(tiny, constant(isDouble ? 0x1p54 : 0x1p25), constant(1.0));
  Value bias = select(tiny, constant(isDouble ? -54.0 : -25.0), constant(0.0));
  Value image = bits(mul(x, scale));
  Value mantissaBits = integer(isDouble ? 52 : 23);
  Value offset = arith::SubIOp::create(b, image, bits(constant(0.70710678118654752)));
  Value exponent = arith::ShRSIOp::create(b, offset, mantissaBits);
  Value mantissa =
      number(arith::SubIOp::create(b, image, arith::ShLIOp::create(b, exponent, mantissaBits)));
  Value e = add(arith::SIToFPOp::create(b, floatType, exponent), bias);
  Value f = sub(mantissa, constant(1.0));
  Value s = div(f, add(f, constant(2.0)));
  Value z = mul(s, s);
  SmallVector<double> coefficients;
  for (int k = 1; k <= (isDouble ? 11 : 5); ++k) {
    coefficients.push_back(2.0 / (2 * k + 1));
  }
  Value series = mul(z, horner(z, coefficients));
  Value halfSquare = mul(constant(0.5), mul(f, f));
  // f - (f^2/2 - s (f^2/2 + series)) avoids cancellation; the low part of e ln 2 is added to the
  // small terms.
  Value small = fma(s, add(halfSquare, series),
                    mul(e, constant(isDouble ? 1.90821492927058770002e-10 : -2.12194440e-4)));
  Value tail = sub(halfSquare, small);
  Value result = fma(e, constant(isDouble ? 0.693147180369123816490 : 0.693359375), sub(f, tail));
  double infinity = std::numeric_limits<double>::infinity();
  result =
      select(compare(arith::CmpFPredicate::OEQ, x, constant(0.0)), constant(-infinity), result);
  result = select(compare(arith::CmpFPredicate::OEQ, x, constant(infinity)), x, result);
  Value nan = constant(std::numeric_limits<double>::quiet_NaN());
  return select(compare(arith::CmpFPredicate::UGE, x, constant(0.0)),
                select(compare(arith::CmpFPredicate::UNO, x, x), x, result), nan);
}

/// log(1 + x) = log(u) + (x - (u - 1)) / u with u = fl(1 + x): the second term corrects the
/// rounding error of u.
Value Calculator::log1p(Value x) {
  Value u = add(x, constant(1.0));
  Value result = add(log(u), div(sub(x, sub(u, constant(1.0))), u));
  Value infinite =
      compare(arith::CmpFPredicate::OEQ, u, constant(std::numeric_limits<double>::infinity()));
  Value zero = compare(arith::CmpFPredicate::OEQ, u, constant(0.0));
  Value same = compare(arith::CmpFPredicate::OEQ, u, constant(1.0));
  result = select(infinite, u, result);
  result = select(zero, constant(-std::numeric_limits<double>::infinity()), result);
  return select(same, x, result);
}

/// Computes sin(x + quadrant pi / 2), from the sine and cosine of r = x - n pi / 2, |r| <= pi / 4.
Value Calculator::sinCos(Value x, int quadrant) {
  auto [n, integerN] = round(x, 0.63661977236758134308);
  const double parts[] = {isDouble ? 1.57079632673412561417 : 1.5703125,
                          isDouble ? 6.07710050630396597660e-11 : 4.837512969970703125e-4,
                          isDouble ? 2.02226624879595063154e-21 : 7.54978995489188216e-8};
  Value r = x;
  for (double part : parts) {
    r = fma(n, constant(-part), r);
  }
  SmallVector<double> sine{1.0}, cosine{1.0};
  for (int k = 1; k <= (isDouble ? 8 : 5); ++k) {
    sine.push_back(-sine.back() / (2 * k * (2 * k + 1)));
    cosine.push_back(-cosine.back() / (2 * k * (2 * k - 1)));
  }
  Value z = mul(r, r);
  // The leading 1 of each series is added last, so that only this addition rounds noticeably.
  Value sineOfR = fma(mul(r, z), horner(z, ArrayRef(sine).drop_front()), r);
  Value cosineOfR = fma(z, horner(z, ArrayRef(cosine).drop_front()), constant(1.0));
  Value turned = arith::AddIOp::create(b, integerN, integer(quadrant));
  auto isSet = [&](int64_t bit) -> Value {
    Value masked = arith::AndIOp::create(b, turned, integer(bit));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, integer(0));
  };
  Value result = select(isSet(1), cosineOfR, sineOfR);
  return select(isSet(2), arith::NegFOp::create(b, result), result);
}

namespace {

/// Expands `Op` by `expand(calculator, op)`.
template <typename Op, Value (*expand)(Calculator &, Op)> struct Expansion : OpRewritePattern<Op> {
  Expansion(MLIRContext *context) : OpRewritePattern<Op>(context, /*benefit=*/10) {}
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Type element = getElementTypeOrSelf(op.getType());
    if (!element.isF32() && !element.isF64()) {
      return rewriter.notifyMatchFailure(op, "only f32 and f64 are expanded");
    }
    Calculator calculator(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, expand(calculator, op));
    return success();
  }
};

Value expandExp(Calculator &c, math::ExpOp op) { return c.exp(op.getOperand()); }
Value expandExp2(Calculator &c, math::Exp2Op op) {
  return c.exp(c.mul(op.getOperand(), c.constant(0.69314718055994530942)));
}
Value expandLog(Calculator &c, math::LogOp op) { return c.log(op.getOperand()); }
Value expandLog2(Calculator &c, math::Log2Op op) {
  return c.mul(c.log(op.getOperand()), c.constant(1.4426950408889634));
}
Value expandLog1p(Calculator &c, math::Log1pOp op) { return c.log1p(op.getOperand()); }
Value expandSin(Calculator &c, math::SinOp op) { return c.sinCos(op.getOperand(), 0); }
Value expandCos(Calculator &c, math::CosOp op) { return c.sinCos(op.getOperand(), 1); }

/// Computes x^y = exp(y log x) in f64, because y multiplies the error of the logarithm.
Value expandPow(Calculator &c, math::PowFOp op) {
  Value base = op.getLhs(), power = op.getRhs();
  if (c.isDouble) {
    Value result = c.exp(c.mul(power, c.log(base)));
    return c.select(c.compare(arith::CmpFPredicate::OEQ, power, c.constant(0.0)), c.constant(1.0),
                    result);
  }
  auto shaped = dyn_cast<ShapedType>(op.getType());
  Type wide = shaped ? Type(shaped.clone(c.b.getF64Type())) : Type(c.b.getF64Type());
  Value result = math::PowFOp::create(c.b, arith::ExtFOp::create(c.b, wide, base),
                                      arith::ExtFOp::create(c.b, wide, power));
  return arith::TruncFOp::create(c.b, op.getType(), result);
}

} // namespace

void target::populateMathExpansions(RewritePatternSet &patterns) {
  patterns.add<Expansion<math::ExpOp, expandExp>, Expansion<math::Exp2Op, expandExp2>,
               Expansion<math::LogOp, expandLog>, Expansion<math::Log2Op, expandLog2>,
               Expansion<math::Log1pOp, expandLog1p>, Expansion<math::SinOp, expandSin>,
               Expansion<math::CosOp, expandCos>, Expansion<math::PowFOp, expandPow>>(
      patterns.getContext());
  math::populateExpansionPatterns(
      patterns, {"sinh", "cosh", "tan", "asinh", "acosh", "atanh", "fpowi", "rsqrt", "clampf"});
  populateMathPolynomialApproximationPatterns(patterns);
}
