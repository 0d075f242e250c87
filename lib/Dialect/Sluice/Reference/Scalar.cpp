// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Interpreter of scalar regions: arith, math and the dispatch ops that depend on the place alone.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;

namespace sluice::reference {

template <typename T> using Unary = T (*)(T);
template <typename T> using Binary = T (*)(T, T);
using Whole = int64_t (*)(int64_t, int64_t);

template <typename T> static Unary<T> unaryOf(StringRef name) {
  return llvm::StringSwitch<Unary<T>>(name)
      .Case("arith.negf", [](T x) { return -x; })
      .Cases({"arith.extf", "arith.truncf"}, [](T x) { return x; })
      .Case("math.absf", [](T x) { return std::fabs(x); })
      .Case("math.exp", [](T x) { return std::exp(x); })
      .Case("math.exp2", [](T x) { return std::exp2(x); })
      .Case("math.expm1", [](T x) { return std::expm1(x); })
      .Case("math.log", [](T x) { return std::log(x); })
      .Case("math.log1p", [](T x) { return std::log1p(x); })
      .Case("math.sqrt", [](T x) { return std::sqrt(x); })
      .Case("math.rsqrt", [](T x) { return T(1) / std::sqrt(x); })
      .Case("math.erf", [](T x) { return std::erf(x); })
      .Case("math.tanh", [](T x) { return std::tanh(x); })
      .Case("math.sin", [](T x) { return std::sin(x); })
      .Case("math.cos", [](T x) { return std::cos(x); })
      .Case("math.floor", [](T x) { return std::floor(x); })
      .Default(nullptr);
}

template <typename T> static Binary<T> binaryOf(StringRef name) {
  return llvm::StringSwitch<Binary<T>>(name)
      .Case("arith.addf", [](T x, T y) { return x + y; })
      .Case("arith.subf", [](T x, T y) { return x - y; })
      .Case("arith.mulf", [](T x, T y) { return x * y; })
      .Case("arith.divf", [](T x, T y) { return x / y; })
      // Maximum and minimum hand a NaN on; maxnum and minnum drop it.
      .Case("arith.maximumf", [](T x, T y) { return x != x ? x : (y != y ? y : (x > y ? x : y)); })
      .Case("arith.minimumf", [](T x, T y) { return x != x ? x : (y != y ? y : (x < y ? x : y)); })
      .Case("arith.maxnumf", [](T x, T y) { return std::fmax(x, y); })
      .Case("arith.minnumf", [](T x, T y) { return std::fmin(x, y); })
      .Case("math.powf", [](T x, T y) { return std::pow(x, y); })
      .Case("math.copysign", [](T x, T y) { return std::copysign(x, y); })
      .Default(nullptr);
}

static Whole wholeOf(StringRef name) {
  return llvm::StringSwitch<Whole>(name)
      .Case("arith.addi", [](int64_t x, int64_t y) { return x + y; })
      .Case("arith.subi", [](int64_t x, int64_t y) { return x - y; })
      .Case("arith.muli", [](int64_t x, int64_t y) { return x * y; })
      .Case("arith.divsi", [](int64_t x, int64_t y) { return x / y; })
      .Case("arith.remsi", [](int64_t x, int64_t y) { return x % y; })
      .Case("arith.minsi", [](int64_t x, int64_t y) { return std::min(x, y); })
      .Case("arith.maxsi", [](int64_t x, int64_t y) { return std::max(x, y); })
      .Case("arith.andi", [](int64_t x, int64_t y) { return x & y; })
      .Case("arith.ori", [](int64_t x, int64_t y) { return x | y; })
      .Case("arith.xori", [](int64_t x, int64_t y) { return x ^ y; })
      .Default(nullptr);
}

template <typename T> static bool compareReal(arith::CmpFPredicate predicate, T x, T y) {
  using P = arith::CmpFPredicate;
  bool unordered = x != x || y != y;
  switch (predicate) {
  case P::AlwaysFalse:
    return false;
  case P::AlwaysTrue:
    return true;
  case P::ORD:
    return !unordered;
  case P::UNO:
    return unordered;
  case P::OEQ:
    return x == y;
  case P::OGT:
    return x > y;
  case P::OGE:
    return x >= y;
  case P::OLT:
    return x < y;
  case P::OLE:
    return x <= y;
  case P::ONE:
    return !unordered && x != y;
  case P::UEQ:
    return unordered || x == y;
  case P::UGT:
    return unordered || x > y;
  case P::UGE:
    return unordered || x >= y;
  case P::ULT:
    return unordered || x < y;
  case P::ULE:
    return unordered || x <= y;
  case P::UNE:
    return x != y;
  }
  llvm_unreachable("every predicate is above");
}

static bool compareWhole(arith::CmpIPredicate predicate, int64_t x, int64_t y) {
  return arith::applyCmpPredicate(predicate, APInt(64, x, true), APInt(64, y, true));
}

/// Values of one run of a region.
template <typename T> class ScalarRun {
public:
  explicit ScalarRun(const ScalarPlace &place) : place(place) {}
  void set(Value value, Scalar<T> scalar) { values[value] = scalar; }
  Scalar<T> get(Value value) const { return values.lookup(value); }
  void run(Operation &op) { set(op.getResult(0), compute(op)); }

private:
  T real(Operation &op, unsigned i) const { return get(op.getOperand(i)).real; }
  int64_t whole(Operation &op, unsigned i) const { return get(op.getOperand(i)).integer; }
  Scalar<T> compute(Operation &op) const;
  Scalar<T> computeArithmetic(Operation &op) const;

  const ScalarPlace &place;
  llvm::SmallDenseMap<Value, Scalar<T>, 16> values;
};

/// Ops with attributes of their own.
template <typename T> Scalar<T> ScalarRun<T>::compute(Operation &op) const {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue())) {
      return {.real = static_cast<T>(number.getValueAsDouble())};
    }
    return {.integer = cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue()};
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
  if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
    return {.integer = compareReal(compare.getPredicate(), real(op, 0), real(op, 1))};
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    return {.integer = compareWhole(compare.getPredicate(), whole(op, 0), whole(op, 1))};
  }
  return computeArithmetic(op);
}

template <typename T> Scalar<T> ScalarRun<T>::computeArithmetic(Operation &op) const {
  StringRef name = op.getName().getStringRef();
  if (Unary<T> function = unaryOf<T>(name)) {
    return {.real = function(real(op, 0))};
  }
  if (Binary<T> function = binaryOf<T>(name)) {
    return {.real = function(real(op, 0), real(op, 1))};
  }
  if (Whole function = wholeOf(name)) {
    return {.integer = function(whole(op, 0), whole(op, 1))};
  }
  if (name == "arith.select") {
    return get(op.getOperand(whole(op, 0) != 0 ? 1 : 2));
  }
  if (name == "math.fma") {
    return {.real = std::fma(real(op, 0), real(op, 1), real(op, 2))};
  }
  if (name == "arith.sitofp" || name == "arith.uitofp") {
    // A boolean is kept as 0 or 1 or, from a constant, as -1: unsigned, it is 1.
    bool boolean = op.getOperand(0).getType().isInteger(1);
    return {.real = static_cast<T>(boolean && name == "arith.uitofp" ? whole(op, 0) & 1
                                                                     : whole(op, 0))};
  }
  if (name == "arith.index_cast" || name == "arith.extsi") {
    return {.integer = whole(op, 0)};
  }
  op.emitError("reference: expected scalar arith or math");
  llvm::report_fatal_error("reference: an op of a scalar region is unknown");
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
