// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Interprets scalar regions: arith, math and the dispatch ops that depend only on the place.
#include "ScalarProgram.h"

using namespace mlir;

namespace sluice::reference {

/// Computes an op that depends on its position.
template <typename T> static Scalar<T> readPlace(Operation &op, const ScalarPlace &place) {
  if (auto random = dyn_cast<dispatch::RandomOp>(op)) {
    uint64_t element = place.globalRow * random.getWidth() + place.column;
    return {.real = static_cast<T>(uniform(place.seed, random.getFixedStep() ? 0 : place.step,
                                           random.getId(), element))};
  }
  return {.integer = isa<dispatch::PositionOp>(op) ? place.position : place.column};
}

template <typename T> ScalarProgram<T>::ScalarProgram(Region &region) {
  Block &block = region.front();
  llvm::SmallDenseMap<Value, size_t, 16> numbers;
  for (BlockArgument argument : block.getArguments()) {
    numbers[argument] = argument.getArgNumber();
  }
  values.resize(numbers.size());
  for (Operation &op : block.without_terminator()) {
    size_t result = numbers[op.getResult(0)] = values.size();
    values.emplace_back();
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      values[result] = scalar::getConstantValue<T>(constant.getValue());
      continue;
    }
    bool readsPlace = isa<dispatch::RandomOp, dispatch::PositionOp, dispatch::ColumnOp>(op);
    ScalarStep &step =
        steps.emplace_back(&op, readsPlace ? nullptr : scalar::getScalarRule<T>(op), result);
    if (!readsPlace && !step.rule) {
      op.emitError("reference: expected scalar arith or math");
      llvm::report_fatal_error("reference: an op of a scalar region is unknown");
    }
    for (Value operand : op.getOperands()) {
      step.operands.push_back(numbers.find(operand)->second);
    }
  }
  for (Value value : block.getTerminator()->getOperands()) {
    yields.push_back(numbers.find(value)->second);
  }
}

template <typename T>
SmallVector<Scalar<T>> ScalarProgram<T>::run(ArrayRef<Scalar<T>> arguments,
                                             const ScalarPlace &place) {
  llvm::copy(arguments, values.begin());
  for (const ScalarStep &step : steps) {
    if (!step.rule) {
      values[step.result] = readPlace<T>(*step.op, place);
      continue;
    }
    SmallVector<Scalar<T>, 4> operands;
    for (size_t operand : step.operands) {
      operands.push_back(values[operand]);
    }
    values[step.result] = step.rule(*step.op, operands);
  }
  SmallVector<Scalar<T>> results;
  for (size_t yield : yields) {
    results.push_back(values[yield]);
  }
  return results;
}

template class ScalarProgram<double>;
template class ScalarProgram<float>;

template <typename T>
SmallVector<Scalar<T>> evaluateScalar(Region &region, ArrayRef<Scalar<T>> arguments,
                                      const ScalarPlace &place) {
  return ScalarProgram<T>(region).run(arguments, place);
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
