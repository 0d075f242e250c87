// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Body.h"

#include "sluice/Dialect/Dispatch/Combiner.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

/// How far evaluation in f32 may be off; comparisons of numbers nearer than their errors are not
/// sure.
template <> struct sluice::scalar::Arithmetic<Number> {
  static Number add(Number x, Number y) { return oracle::add(x, y); }
  static Number subtract(Number x, Number y) { return oracle::subtract(x, y); }
  static Number multiply(Number x, Number y) { return oracle::multiply(x, y); }
  static Number divide(Number x, Number y) { return oracle::divide(x, y); }
  static Number fma(Number x, Number y, Number z) { return add(multiply(x, y), z); }
  static Number negate(Number x) { return {-x.value, x.error}; }
  static Number absolute(Number x) { return {std::abs(x.value), x.error}; }
  static Number copySign(Number x, Number y) {
    bool isSure = std::abs(y.value) > y.error || y.error == 0;
    return {std::copysign(x.value, y.value), isSure ? x.error : x.error + 2 * std::abs(x.value)};
  }
  /// x to the power y, of x > 0.
  static Number power(Number x, Number y) {
    return elementary(Elementary::Exp, multiply(y, elementary(Elementary::Log, x)));
  }
  static Number maximum(Number x, Number y) {
    return {Arithmetic<double>::maximum(x.value, y.value), join(x, y).error};
  }
  static Number minimum(Number x, Number y) {
    return {Arithmetic<double>::minimum(x.value, y.value), join(x, y).error};
  }
  static Number greater(Number x, Number y) {
    return {std::fmax(x.value, y.value), join(x, y).error};
  }
  static Number lesser(Number x, Number y) {
    return {std::fmin(x.value, y.value), join(x, y).error};
  }
  static Number elementary(Elementary function, Number x) {
    auto exact = [function](double number) { return evaluate(function, number); };
    bool isWave = function == Elementary::Sin || function == Elementary::Cos;
    return isWave ? gentle(x, exact) : monotone(x, exact);
  }
  static Number converted(Number x, Type type) {
    return type.isBF16() ? roundedToBf16(x) : rounded(x.value, x.error);
  }
  static Number ofInteger(int64_t integer, Number doubt) {
    return rounded(double(integer), doubt.error);
  }

  static Number exact(double number) { return {number, 0}; }
  static double valueOf(Number x) { return x.value; }
  static Number doubt(Number x, Number y) {
    double error = x.error + y.error;
    return {0, error == 0 || std::abs(x.value - y.value) > error ? 0.0 : 1.0};
  }
  static bool isSure(Number doubt) { return doubt.error == 0; }
  static Number join(Number x, Number y) { return {0, std::max(x.error, y.error)}; }
  static Scalar<Number> select(Scalar<Number> condition, Scalar<Number> x, Scalar<Number> y) {
    Scalar<Number> chosen = condition.integer != 0 ? x : y;
    if (!isSure(condition.real)) { // or the other
      chosen.real.error = std::abs(x.real.value - y.real.value) +
                          std::abs(double(x.integer - y.integer)) + join(x.real, y.real).error;
    }
    return chosen;
  }
};

/// A number as a value of `type`, and back: integers are whole numbers.
static scalar::Scalar<Number> scalarOf(Number number, Type type) {
  if (isa<FloatType>(type)) {
    return {.real = number};
  }
  return {.real = {0, number.error}, .integer = int64_t(number.value)};
}
static Number numberOf(const scalar::Scalar<Number> &scalar, Type type) {
  return isa<FloatType>(type) ? scalar.real : Number{double(scalar.integer), scalar.real.error};
}

static int64_t elements(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? tensor.getNumElements() : 1;
}

static Numbers constantOf(arith::ConstantOp constant) {
  Type type = getElementTypeOrSelf(constant.getType());
  auto ofElement = [&](Attribute element) {
    return numberOf(scalar::constantOf<Number>(element), type);
  };
  Numbers numbers;
  if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue())) {
    for (Attribute element : dense.getValues<Attribute>()) {
      numbers.push_back(ofElement(element));
    }
    return numbers;
  }
  return {ofElement(constant.getValue())};
}

bool sluice::oracle::draws(const Launch &launch, int64_t id, uint64_t element, double rate) {
  return reference::uniform(uint64_t(launch.seed), uint64_t(launch.step),
                            uint64_t(launch.firstStream + id), element) < rate;
}

/// Columns, positions and random numbers: exact.
Numbers Body::ofPlace(Operation &op) const {
  if (isa<dispatch::PositionOp>(op)) {
    return {{double(place.position), 0}};
  }
  Numbers numbers;
  for (int64_t i = 0; i < elements(op.getResult(0)); ++i) {
    int64_t column = place.column + i;
    if (auto random = dyn_cast<dispatch::RandomOp>(op)) {
      int64_t row = place.row;
      if (launch.firstRow > 0) {
        auto domain = block.getParentOp()->getAttrOfType<dispatch::DomainAttr>("domain");
        row += launch.firstRow * int64_t(domain.getPositions());
      }
      uint64_t element = uint64_t(row) * random.getWidth() + uint64_t(column);
      numbers.push_back({reference::uniform(uint64_t(launch.seed),
                                            random.getFixedStep() ? 0 : uint64_t(launch.step),
                                            uint64_t(launch.firstStream + random.getId()), element),
                         0});
    } else {
      numbers.push_back({double(column), 0});
    }
  }
  return numbers;
}

/// The greatest of each column, NaN where one of them is.
static Numbers greatestOf(const Numbers &numbers, size_t columns) {
  Numbers greatest(columns, Number{-INFINITY, 0});
  for (size_t i = 0; i < numbers.size(); ++i) {
    Number &so = greatest[i % columns];
    bool takes = numbers[i].value > so.value || std::isnan(numbers[i].value);
    so = {takes ? numbers[i].value : so.value, std::max(so.error, numbers[i].error)};
  }
  return greatest;
}

/// Number i belongs to column i mod `columns`.
static Numbers reduce(dispatch::ReduceKind kind, const Numbers &numbers, size_t columns) {
  if (kind == dispatch::ReduceKind::Max) {
    return greatestOf(numbers, columns);
  }
  std::vector<ProductSum> sums(columns);
  for (size_t i = 0; i < numbers.size(); ++i) {
    sums[i % columns].add(numbers[i]);
  }
  Numbers totals;
  for (const ProductSum &sum : sums) {
    totals.push_back(sum.total());
  }
  return totals;
}

LogicalResult Body::compute(Operation &op) {
  Value result = op.getResult(0);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    set(result, constantOf(constant));
    return success();
  }
  if (isa<dispatch::PositionOp, dispatch::ColumnOp, dispatch::RandomOp>(op)) {
    set(result, ofPlace(op));
    return success();
  }
  if (auto whole = dyn_cast<dispatch::ReduceOp>(op)) {
    set(result, reduce(whole.getKind(), get(whole.getRow()), 1));
    return success();
  }
  if (auto group = dyn_cast<dispatch::ReduceGroupOp>(op)) {
    return combine(group);
  }
  if (auto spread = dyn_cast<dispatch::SpreadOp>(op)) {
    const Numbers row = get(spread.getRow());
    Numbers rows;
    for (int64_t i = 0; i < elements(result); i += int64_t(row.size())) {
      rows.insert(rows.end(), row.begin(), row.end());
    }
    set(result, std::move(rows));
    return success();
  }
  if (op.getName().getStringRef() == "tensor.splat") {
    set(result, Numbers(elements(result), get(op.getOperand(0))[0]));
    return success();
  }
  return computeElements(op);
}

/// Those that have a kind by its rule, any other row by row.
LogicalResult Body::combine(dispatch::ReduceGroupOp op) {
  const Numbers &rows = get(op.getRows());
  auto columns = size_t(elements(op.getResult()));
  if (auto kind = dispatch::kindOf(op.getCombiner())) {
    set(op.getResult(), reduce(*kind, rows, columns));
    return success();
  }
  Numbers soFar(rows.begin(), rows.begin() + int64_t(columns));
  for (size_t i = columns; i < rows.size(); ++i) {
    auto next = evaluateScalar(op.getCombiner(), {soFar[i % columns], rows[i]}, launch, place);
    if (failed(next)) {
      return failure();
    }
    soFar[i % columns] = next->front();
  }
  set(op.getResult(), std::move(soFar));
  return success();
}

/// Element by element; a scalar operand goes with each.
LogicalResult Body::computeElements(Operation &op) {
  scalar::Rule<Number> rule = scalar::ruleOf<Number>(op);
  if (!rule) {
    return op.emitOpError("expected an op whose value the oracle knows");
  }
  Value result = op.getResult(0);
  Numbers numbers;
  SmallVector<scalar::Scalar<Number>> arguments(op.getNumOperands());
  for (int64_t i = 0; i < elements(result); ++i) {
    for (auto [argument, operand] : llvm::zip_equal(arguments, op.getOperands())) {
      const Numbers &all = get(operand);
      argument = scalarOf(all[all.size() == 1 ? 0 : size_t(i)], getElementTypeOrSelf(operand));
    }
    numbers.push_back(numberOf(rule(op, arguments), getElementTypeOrSelf(result)));
  }
  set(result, std::move(numbers));
  return success();
}

LogicalResult Body::run() {
  for (Operation &op : block.without_terminator()) {
    if (failed(compute(op))) {
      return failure();
    }
  }
  return success();
}

FailureOr<SmallVector<Number>> sluice::oracle::evaluateScalar(Region &region,
                                                              ArrayRef<Number> arguments,
                                                              const Launch &launch, Place place) {
  Body body(region.front(), launch, place);
  for (auto [argument, number] : llvm::zip_equal(region.getArguments(), arguments)) {
    body.set(argument, {number});
  }
  if (failed(body.run())) {
    return failure();
  }
  SmallVector<Number> results;
  for (unsigned i = 0; i < region.front().getTerminator()->getNumOperands(); ++i) {
    results.push_back(body.yielded(i)[0]);
  }
  return results;
}
