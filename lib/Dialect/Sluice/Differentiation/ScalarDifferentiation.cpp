// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reverse-mode differentiation of straight-line scalar code.
#include "sluice/Dialect/Sluice/ScalarDifferentiation.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <numbers>

using namespace mlir;
using namespace sluice;

namespace {

/// The reverse sweep over one block.
class Sweep {
public:
  Sweep(OpBuilder &builder, Location loc) : b(loc, builder) {}

  /// Adds the contributions of `op`, whose result has gradient `g`, to its operands.
  LogicalResult visit(Operation *op, Value g);

  void add(Value value, Value contribution) {
    Value &sum = gradients[value];
    sum = sum ? Value(arith::AddFOp::create(b, sum, contribution)) : contribution;
  }
  Value lookup(Value value) const { return gradients.lookup(value); }

private:
  Value constant(double value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, x); }
  LogicalResult visitMath(Operation *op, Value g);
  void visitExtremum(Operation *op, Value g, arith::CmpFPredicate firstWins);

  ImplicitLocOpBuilder b;
  DenseMap<Value, Value> gradients;
};

/// A tie passes its gradient to the second operand, so relu's derivative at zero is zero.
void Sweep::visitExtremum(Operation *op, Value g, arith::CmpFPredicate firstWins) {
  Value first = arith::CmpFOp::create(b, firstWins, op->getOperand(0), op->getOperand(1));
  Value zero = constant(0);
  add(op->getOperand(0), arith::SelectOp::create(b, first, g, zero));
  add(op->getOperand(1), arith::SelectOp::create(b, first, zero, g));
}

LogicalResult Sweep::visitMath(Operation *op, Value g) {
  Value x = op->getOperand(0);
  Value y = op->getResult(0);
  if (isa<math::ExpOp>(op)) {
    add(x, mul(g, y));
  } else if (isa<math::Exp2Op>(op)) {
    add(x, mul(mul(g, y), constant(std::numbers::ln2)));
  } else if (isa<math::LogOp>(op)) {
    add(x, div(g, x));
  } else if (isa<math::Log1pOp>(op)) {
    add(x, div(g, arith::AddFOp::create(b, x, constant(1))));
  } else if (isa<math::TanhOp>(op)) {
    add(x, mul(g, sub(constant(1), mul(y, y))));
  } else if (isa<math::SqrtOp>(op)) {
    add(x, div(mul(g, constant(0.5)), y));
  } else if (isa<math::RsqrtOp>(op)) {
    add(x, mul(mul(g, constant(-0.5)), mul(y, mul(y, y))));
  } else if (isa<math::ErfOp>(op)) {
    Value bell = math::ExpOp::create(b, neg(mul(x, x)));
    add(x, mul(mul(g, constant(2 / std::sqrt(std::numbers::pi))), bell));
  } else if (isa<math::SinOp>(op)) {
    add(x, mul(g, math::CosOp::create(b, x)));
  } else if (isa<math::CosOp>(op)) {
    add(x, neg(mul(g, math::SinOp::create(b, x))));
  } else if (isa<math::AbsFOp>(op)) {
    add(x, mul(g, math::CopySignOp::create(b, constant(1), x)));
  } else if (isa<math::FmaOp>(op)) {
    add(x, mul(g, op->getOperand(1)));
    add(op->getOperand(1), mul(g, x));
    add(op->getOperand(2), g);
  } else if (!isa<math::FloorOp>(op)) { // with derivative 0
    return op->emitError("S-020: no derivative is known for ")
           << op->getName() << " in scalar code";
  }
  return success();
}

LogicalResult Sweep::visit(Operation *op, Value g) {
  Value x = op->getNumOperands() > 0 ? op->getOperand(0) : Value();
  Value y = op->getNumOperands() > 1 ? op->getOperand(1) : Value();
  if (isa<arith::AddFOp>(op)) {
    add(x, g);
    add(y, g);
  } else if (isa<arith::SubFOp>(op)) {
    add(x, g);
    add(y, neg(g));
  } else if (isa<arith::MulFOp>(op)) {
    add(x, mul(g, y));
    add(y, mul(g, x));
  } else if (isa<arith::DivFOp>(op)) {
    Value quotient = div(g, y);
    add(x, quotient);
    add(y, neg(mul(quotient, op->getResult(0))));
  } else if (isa<arith::NegFOp>(op)) {
    add(x, neg(g));
  } else if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op)) {
    visitExtremum(op, g, arith::CmpFPredicate::OGT);
  } else if (isa<arith::MinimumFOp, arith::MinNumFOp>(op)) {
    visitExtremum(op, g, arith::CmpFPredicate::OLT);
  } else if (isa<arith::SelectOp>(op)) {
    Value zero = constant(0);
    add(op->getOperand(1), arith::SelectOp::create(b, x, g, zero));
    add(op->getOperand(2), arith::SelectOp::create(b, x, zero, g));
  } else if (auto through = dyn_cast<dispatch::StraightThroughOp>(op)) {
    add(through.getSurrogate(), g);
  } else {
    return visitMath(op, g);
  }
  return success();
}

} // namespace

FailureOr<SmallVector<Value>> sluice::differentiateScalar(OpBuilder &builder, Block &body,
                                                          ValueRange arguments, Value gradient) {
  IRMapping mapping;
  mapping.map(body.getArguments(), arguments);
  SmallVector<Operation *> forward;
  for (Operation &op : body.without_terminator()) {
    forward.push_back(builder.clone(op, mapping));
  }
  Sweep sweep(builder, gradient.getLoc());
  sweep.add(mapping.lookupOrDefault(body.getTerminator()->getOperand(0)), gradient);
  for (Operation *op : llvm::reverse(forward)) {
    // Integers, comparisons, constants and random draws carry no gradient.
    bool carries = op->getNumResults() == 1 && isa<FloatType>(op->getResult(0).getType()) &&
                   llvm::any_of(op->getOperandTypes(), llvm::IsaPred<FloatType>);
    Value g = carries ? sweep.lookup(op->getResult(0)) : Value();
    if (g && failed(sweep.visit(op, g))) {
      return failure();
    }
  }
  SmallVector<Value> result;
  for (Value argument : arguments) {
    result.push_back(isa<FloatType>(argument.getType()) ? sweep.lookup(argument) : Value());
  }
  return result;
}

void sluice::eraseDeadOps(Block &block) {
  // Iterates by hand: a reversed range's iterator points to the op that it returned last, so
  // erasing that op would invalidate it.
  for (Operation *op = block.getTerminator()->getPrevNode(); op;) {
    Operation *previous = op->getPrevNode();
    if (op->use_empty()) {
      op->erase();
    }
    op = previous;
  }
}
