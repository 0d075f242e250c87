// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Interpreter of scalar regions: arith, math and the dispatch ops that depend on the place alone.
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;

namespace sluice::reference {

/// Values of one run of a region.
template <typename T> class ScalarRun {
public:
  explicit ScalarRun(const ScalarPlace &place) : place(place) {}
  void set(Value value, Scalar<T> scalar) { values[value] = scalar; }
  Scalar<T> get(Value value) const { return values.lookup(value); }
  void run(Operation &op) { set(op.getResult(0), compute(op)); }

private:
  Scalar<T> compute(Operation &op) const;

  const ScalarPlace &place;
  llvm::SmallDenseMap<Value, Scalar<T>, 16> values;
};

template <typename T> Scalar<T> ScalarRun<T>::compute(Operation &op) const {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    return scalar::constantOf<T>(constant.getValue());
  }
  if (auto random = dyn_cast<dispatch::RandomOp>(op)) {
    uint64_t element = place.globalRow * random.getWidth() + place.column;
    return {.real = static_cast<T>(uniform(place.seed, random.getFixedStep() ? 0 : place.step,
                                           random.getId(), element))};
  }
  if (isa<dispatch::PositionOp>(op)) {
    return {.integer = place.position};
  }
  if (isa<dispatch::ColumnOp>(op)) {
    return {.integer = place.column};
  }
  scalar::Rule<T> rule = scalar::ruleOf<T>(op);
  if (!rule) {
    op.emitError("reference: expected scalar arith or math");
    llvm::report_fatal_error("reference: an op of a scalar region is unknown");
  }
  SmallVector<Scalar<T>, 4> operands;
  for (Value operand : op.getOperands()) {
    operands.push_back(get(operand));
  }
  return rule(op, operands);
}

template <typename T>
SmallVector<Scalar<T>> evaluateScalar(Region &region, ArrayRef<Scalar<T>> arguments,
                                      const ScalarPlace &place) {
  Block &block = region.front();
  ScalarRun<T> run(place);
  for (auto [argument, scalar] : llvm::zip_equal(block.getArguments(), arguments)) {
    run.set(argument, scalar);
  }
  for (Operation &op : block.without_terminator()) {
    run.run(op);
  }
  SmallVector<Scalar<T>> results;
  for (Value value : block.getTerminator()->getOperands()) {
    results.push_back(run.get(value));
  }
  return results;
}

template SmallVector<Scalar<double>> evaluateScalar(Region &, ArrayRef<Scalar<double>>,
                                                    const ScalarPlace &);
template SmallVector<Scalar<float>> evaluateScalar(Region &, ArrayRef<Scalar<float>>,
                                                   const ScalarPlace &);

int64_t evaluateAffine(AffineExpr expression, int64_t p, int64_t q, int64_t n) {
  switch (expression.getKind()) {
  case AffineExprKind::Constant:
    return cast<AffineConstantExpr>(expression).getValue();
  case AffineExprKind::DimId:
    return cast<AffineDimExpr>(expression).getPosition() == 0 ? p : q;
  case AffineExprKind::SymbolId:
    return n;
  default:
    break;
  }
  auto binary = cast<AffineBinaryOpExpr>(expression);
  int64_t left = evaluateAffine(binary.getLHS(), p, q, n),
          right = evaluateAffine(binary.getRHS(), p, q, n);
  switch (expression.getKind()) {
  case AffineExprKind::Add:
    return left + right;
  case AffineExprKind::Mul:
    return left * right;
  case AffineExprKind::FloorDiv:
    return llvm::divideFloorSigned(left, right);
  case AffineExprKind::CeilDiv:
    return llvm::divideCeilSigned(left, right);
  case AffineExprKind::Mod:
    return llvm::mod(left, right);
  default:
    llvm_unreachable("every kind of expression is above");
  }
}

bool contains(IntegerSet set, int64_t p, int64_t q, int64_t n) {
  for (unsigned i = 0; i < set.getNumConstraints(); ++i) {
    int64_t value = evaluateAffine(set.getConstraint(i), p, q, n);
    if (set.isEq(i) ? value != 0 : value < 0) {
      return false;
    }
  }
  return true;
}

} // namespace sluice::reference
