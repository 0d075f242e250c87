// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Error bounds in the PTX ISA: ex2.approx.f32 is within 2 ulp of 2^x, rcp.approx within 1 ulp of
// 1/x, div.full.f32 within 2 ulp of x/y. Polynomials are minimax fits of the relative error
// (Remez). The error given for each function is the maximum over all f32 arguments of both signs,
// with approximations at either end of their bounds. test/unit/Target/CudaMathTest.cpp checks it in
// the emulator, whose approximations have errors of that size.
#include "Math.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Builds arithmetic on one type, scalar or vector, in f32 except for calls.
class Calculator {
public:
  Calculator(PatternRewriter &rewriter, Location loc, Type type) : b(loc, rewriter), type(type) {}

  Value constant(double value) {
    TypedAttr number = b.getF32FloatAttr(float(value));
    if (auto shaped = dyn_cast<ShapedType>(type)) {
      number = DenseElementsAttr::get(shaped, Attribute(number));
    }
    return arith::ConstantOp::create(b, number);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  /// One instruction (the lowering of arith's op has four); NaN stays NaN.
  Value least(Value x, double bound) { return LLVM::MaximumOp::create(b, x, constant(bound)); }
  Value most(Value x, double bound) { return LLVM::MinimumOp::create(b, x, constant(bound)); }
  Value absolute(Value x) { return math::AbsFOp::create(b, x); }
  Value select(arith::CmpFPredicate predicate, Value x, double bound, Value then, Value otherwise) {
    Value holds = arith::CmpFOp::create(b, predicate, x, constant(bound));
    return arith::SelectOp::create(b, holds, then, otherwise);
  }
  Value withSign(Value size, Value sign) { return math::CopySignOp::create(b, size, sign); }

  /// Evaluates coefficients[0] + x (coefficients[1] + x (...)).
  Value horner(Value x, ArrayRef<double> coefficients) {
    Value sum = constant(coefficients.back());
    for (double coefficient : llvm::reverse(coefficients.drop_back())) {
      sum = fma(sum, x, constant(coefficient));
    }
    return sum;
  }

  /// Calls an NVVM intrinsic for each element.
  Value call(StringRef intrinsic, ValueRange operands) {
    auto one = [&](ValueRange scalars) -> Value {
      return LLVM::CallIntrinsicOp::create(b, getElementTypeOrSelf(type),
                                           b.getStringAttr(intrinsic), scalars)
          .getResult(0);
    };
    auto vector = dyn_cast<VectorType>(type);
    if (!vector) {
      return one(operands);
    }
    SmallVector<Value> results;
    for (int64_t i = 0; i < vector.getDimSize(0); ++i) {
      SmallVector<Value> scalars;
      for (Value operand : operands) {
        scalars.push_back(vector::ExtractOp::create(b, operand, ArrayRef<int64_t>{i}));
      }
      results.push_back(one(scalars));
    }
    return vector::FromElementsOp::create(b, vector, results);
  }
  Value exp2(Value x) { return call("llvm.nvvm.ex2.approx.f32", x); }

  ImplicitLocOpBuilder b;
  Type type;
};

/// Computes 2^y for the rounded product y = x log2(e), corrected by its rounding error. 3.0 ulp.
Value expandExp(Calculator &c, math::ExpOp op) {
  constexpr double log2e = 0x1.715476p+0, rest = 1.4426950408889634074 - log2e;
  Value x = c.least(op.getOperand(), -128); // keeps the rounding error finite
  Value y = c.mul(x, c.constant(log2e)), power = c.exp2(y);
  Value lost = c.fma(x, c.constant(log2e), arith::NegFOp::create(c.b, y));
  lost = c.mul(c.fma(x, c.constant(rest), lost), c.constant(0.69314718055994530942));
  return c.select(arith::CmpFPredicate::OEQ, power, std::numeric_limits<double>::infinity(), power,
                  c.fma(power, lost, power));
}

Value expandExp2(Calculator &c, math::Exp2Op op) { return c.exp2(op.getOperand()); }

/// Computes x + x p(x^2) near zero, else 1 - erfc, where log2 of erfc is a polynomial of |x|. An
/// error of 2^q counts at most a fifth, since erfc(0.9) is 0.2. 1.3 ulp.
Value expandErf(Calculator &c, math::ErfOp op) {
  Value x = op.getOperand(), size = c.absolute(x);
  Value p =
      c.horner(c.mul(x, x), {0.12837915122509003, -0.3761252462863922, 0.11282140761613846,
                             -0.02677890844643116, 0.005011961795389652, -0.0006090355454944074});
  Value q = c.horner(c.most(size, 4), // 1 - erfc(4) rounds to 1
                     {-0.0025788545608520508, -1.616573691368103, -0.9381503462791443,
                      -0.1319272667169571, 0.022640997543931007, -0.0018275073962286115});
  Value far = arith::SubFOp::create(c.b, c.constant(1), c.exp2(q));
  return c.select(arith::CmpFPredicate::OLT, size, 0.9, c.fma(p, x, x), c.withSign(far, x));
}

/// Computes x + x^3 p(x^2) near zero, else 1 - 2 / (e^2x + 1). 2.0 ulp.
Value expandTanh(Calculator &c, math::TanhOp op) {
  Value x = op.getOperand(), size = c.absolute(x), square = c.mul(x, x);
  Value p = c.horner(square, {-0.33332502841949463, 0.13311240077018738, -0.0521090105175972,
                              0.015446009114384651});
  Value power = c.exp2(c.mul(size, c.constant(2.8853900817779268)));
  Value share = c.call("llvm.nvvm.rcp.approx.ftz.f", c.add(power, c.constant(1)));
  Value far = c.fma(c.constant(-2), share, c.constant(1));
  return c.select(arith::CmpFPredicate::OLT, size, 0.6, c.fma(c.mul(p, square), x, x),
                  c.withSign(far, x));
}

/// Expands `Op` of f32 by `expand(calculator, op)`.
template <typename Op, Value (*expand)(Calculator &, Op)> struct Expansion : OpRewritePattern<Op> {
  Expansion(MLIRContext *context) : OpRewritePattern<Op>(context, /*benefit=*/20) {}
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32()) {
      return rewriter.notifyMatchFailure(op, "only f32 has approximations");
    }
    Calculator calculator(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, expand(calculator, op));
    return success();
  }
};

/// Divides by a constant whose reciprocal is a normal number with a product, at most 1.5 ulp off;
/// else uses div.full, 2 ulp.
struct Division : OpRewritePattern<arith::DivFOp> {
  Division(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/20) {}
  LogicalResult matchAndRewrite(arith::DivFOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<VectorType>(op.getType());
    if (!type || type.getRank() != 1 || !type.getElementType().isF32()) {
      return rewriter.notifyMatchFailure(op, "only vectors of f32 are divided approximately");
    }
    Calculator c(rewriter, op.getLoc(), type);
    DenseElementsAttr divisor;
    if (matchPattern(op.getRhs(), m_Constant(&divisor)) && divisor.isSplat()) {
      float reciprocal = 1 / divisor.getSplatValue<APFloat>().convertToFloat();
      if (std::isnormal(reciprocal)) {
        rewriter.replaceOp(op, c.mul(op.getLhs(), c.constant(reciprocal)));
        return success();
      }
    }
    rewriter.replaceOp(op, c.call("llvm.nvvm.div.full", {op.getLhs(), op.getRhs()}));
    return success();
  }
};

/// Emits two instructions that ptxas fuses to one (IMAD.WIDE) if registers allow. LLVM would emit a
/// 64-bit product, which ptxas turns into an IMAD.WIDE and an addition of zero.
struct WideProduct : OpRewritePattern<arith::MulUIExtendedOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulUIExtendedOp op,
                                PatternRewriter &rewriter) const override {
    Type type = op.getLhs().getType();
    if (!getElementTypeOrSelf(type).isInteger(32)) {
      return rewriter.notifyMatchFailure(op, "only 32 bits have a product of their upper half");
    }
    Calculator c(rewriter, op.getLoc(), type);
    Value low = arith::MulIOp::create(c.b, op.getLhs(), op.getRhs());
    rewriter.replaceOp(op, {low, c.call("llvm.nvvm.mulhi.ui", {op.getLhs(), op.getRhs()})});
    return success();
  }
};

/// Uniform numbers are integers below 2^24 times 2^-24. Comparing the integers with the scaled
/// constant gives exactly the same result, and LLVM then needs no conversion.
struct UniformComparison : OpRewritePattern<arith::CmpFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::CmpFOp op, PatternRewriter &rewriter) const override {
    auto product = op.getLhs().getDefiningOp<arith::MulFOp>();
    auto integer = product ? product.getLhs().getDefiningOp<arith::SIToFPOp>() : nullptr;
    std::optional<float> scale = getConstantValue(product ? product.getRhs() : Value());
    std::optional<float> bound = getConstantValue(op.getRhs());
    bool isExact = bound && std::abs(*bound) > 0x1p-100f && std::abs(*bound) < 1;
    if (!integer || scale != 0x1p-24f || !isExact) {
      return rewriter.notifyMatchFailure(op, "no uniform number compared with a constant");
    }
    Calculator c(rewriter, op.getLoc(), op.getRhs().getType());
    rewriter.replaceOpWithNewOp<arith::CmpFOp>(op, op.getPredicate(), integer.getResult(),
                                               c.constant(*bound * 0x1p24f));
    return success();
  }

  /// Returns the constant value of a scalar, or of all elements of a vector.
  static std::optional<float> getConstantValue(Value value) {
    FloatAttr number;
    DenseElementsAttr numbers;
    if (value && matchPattern(value, m_Constant(&number)) && number.getType().isF32()) {
      return number.getValue().convertToFloat();
    }
    bool isSplat = value && matchPattern(value, m_Constant(&numbers)) && numbers.isSplat() &&
                   numbers.getElementType().isF32();
    return isSplat ? std::optional(numbers.getSplatValue<APFloat>().convertToFloat())
                   : std::nullopt;
  }
};

} // namespace

void cuda::populateMathExpansions(RewritePatternSet &patterns) {
  patterns.add<Expansion<math::ExpOp, expandExp>, Expansion<math::Exp2Op, expandExp2>,
               Expansion<math::ErfOp, expandErf>, Expansion<math::TanhOp, expandTanh>, Division,
               WideProduct, UniformComparison>(patterns.getContext());
}
