// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Body.h"

#include "sluice/Dialect/Dispatch/Combiner.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

/// Evaluates a function in float64; the error follows from the error of `x`.
template <> Number sluice::scalar::evaluate(Elementary function, Number x) {
  auto exact = [function](double number) { return evaluate(function, number); };
  bool isWave = function == Elementary::Sin || function == Elementary::Cos;
  return isWave ? gentle(x, exact) : monotone(x, exact);
}

/// Arithmetic with error bounds of an f32 evaluation. A comparison of numbers that are closer than
/// their errors is undecided.
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
  /// Computes x to the power y, for x > 0.
  static Number power(Number x, Number y) {
    return evaluate(Elementary::Exp, multiply(y, evaluate(Elementary::Log, x)));
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
  static Number converted(Number x, Type type) {
    return type.isBF16() ? roundedToBf16(x) : rounded(x.value, x.error);
  }
  static Number ofInteger(int64_t integer, Number doubt) {
    return rounded(double(integer), doubt.error);
  }

  static double toValue(Number x) { return x.value; }
  static Number doubt(Number x, Number y) {
    double error = x.error + y.error;
    return {0, error == 0 || std::abs(x.value - y.value) > error ? 0.0 : 1.0};
  }
  static bool isSure(Number doubt) { return doubt.error == 0; }
  static Number join(Number x, Number y) { return {0, std::max(x.error, y.error)}; }
  static Scalar<Number> select(Scalar<Number> condition, Scalar<Number> x, Scalar<Number> y) {
    Scalar<Number> chosen = condition.integer != 0 ? x : y;
    if (!isSure(condition.real)) { // either branch may be taken
      chosen.real.error = std::abs(x.real.value - y.real.value) +
                          std::abs(double(x.integer - y.integer)) + join(x.real, y.real).error;
    }
    return chosen;
  }
};

/// Converts between a number and a value of a floating-point or other type; integers are exact.
static scalar::Scalar<Number> toScalar(Number number, bool isFloat) {
  if (isFloat) {
    return {.real = number};
  }
  return {.real = {0, number.error}, .integer = int64_t(number.value)};
}
static Number toNumber(const scalar::Scalar<Number> &scalar, bool isFloat) {
  return isFloat ? scalar.real : Number{double(scalar.integer), scalar.real.error};
}
static bool isFloat(Value value) { return isa<FloatType>(scalar::getTensorElementType(value)); }

static int64_t elements(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? tensor.getNumElements() : 1;
}

static Numbers getConstantValue(arith::ConstantOp constant) {
  bool isReal = isFloat(constant);
  auto ofElement = [&](Attribute element) {
    return toNumber(scalar::getConstantValue<Number>(element), isReal);
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

bool sluice::oracle::draws(const OracleLaunch &launch, int64_t id, uint64_t element, double rate) {
  return reference::uniform(uint64_t(launch.seed), uint64_t(launch.step),
                            uint64_t(launch.firstStream + id), element) < rate;
}

/// Returns the results of ops that read columns, positions and random numbers, which are exact.
Numbers Body::ofPlace(Operation &op) const {
  if (isa<dispatch::PositionOp>(op)) {
    return {{double(place.position), 0}};
  }
  Numbers numbers;
  for (int64_t i = 0; i < elements(op.getResult(0)); ++i) {
    int64_t column = place.column + i;
    if (auto random = dyn_cast<dispatch::RandomOp>(op)) {
      int64_t row = place.row;
      if (launch.drawRows) {
        Operation *dispatch = block.getParentOp();
        auto positions =
            int64_t(cast<dispatch::KernelInterface>(dispatch).getDomain().getPositions());
        row = launch.drawRows[row / positions] * positions * dispatch::getDrawParts(dispatch) +
              row % positions;
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

/// Returns the maximum of each column, NaN if one of its numbers is.
static Numbers computeMaximum(const Numbers &numbers, size_t columns) {
  Numbers greatest(columns, Number{-INFINITY, 0});
  for (size_t i = 0; i < numbers.size(); ++i) {
    Number &so = greatest[i % columns];
    bool takes = numbers[i].value > so.value || std::isnan(numbers[i].value);
    so = {takes ? numbers[i].value : so.value, std::max(so.error, numbers[i].error)};
  }
  return greatest;
}

/// Reduces numbers by column: number i belongs to column i mod `columns`.
static Numbers reduce(dispatch::ReduceKind kind, const Numbers &numbers, size_t columns) {
  if (kind == dispatch::ReduceKind::Max) {
    return computeMaximum(numbers, columns);
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

Body::Body(Block &block, const OracleLaunch &launch) : block(block), launch(launch) {
  llvm::DenseMap<Value, size_t> numbers;
  for (BlockArgument argument : block.getArguments()) {
    numbers[argument] = argument.getArgNumber();
  }
  values.resize(numbers.size());
  for (Operation &op : block.without_terminator()) {
    addStep(op, numbers);
  }
  for (Value yield : block.getTerminator()->getOperands()) {
    yields.push_back(numbers.find(yield)->second);
  }
}

/// Assigns a number to the op's result. Sets it if it is a constant; any other op becomes a step.
void Body::addStep(Operation &op, llvm::DenseMap<Value, size_t> &numbers) {
  Value result = op.getResult(0);
  size_t number = numbers[result] = values.size();
  values.emplace_back();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    values[number] = getConstantValue(constant);
    return;
  }
  BodyStep &step = steps.emplace_back();
  step.op = &op;
  step.result = number;
  step.elements = size_t(elements(result));
  step.isFloat = isFloat(result);
  step.rule = scalar::getScalarRule<Number>(op);
  for (Value operand : op.getOperands()) {
    step.operands.push_back(numbers.find(operand)->second);
    step.areFloats.push_back(isFloat(operand));
  }
  if (auto whole = dyn_cast<dispatch::ReduceOp>(op)) {
    step.kind = whole.getKind();
  } else if (auto group = dyn_cast<dispatch::ReduceGroupOp>(op)) {
    step.kind = dispatch::getReduceKind(group.getCombiner());
    step.combiner =
        step.kind ? nullptr : std::make_unique<Body>(group.getCombiner().front(), launch);
  }
}

LogicalResult Body::compute(BodyStep &step) {
  Operation &op = *step.op;
  if (isa<dispatch::PositionOp, dispatch::ColumnOp, dispatch::RandomOp>(op)) {
    values[step.result] = ofPlace(op);
    return success();
  }
  if (isa<dispatch::ReduceOp>(op)) {
    values[step.result] = reduce(*step.kind, values[step.operands[0]], 1);
    return success();
  }
  if (isa<dispatch::ReduceGroupOp>(op)) {
    return combine(step);
  }
  if (isa<dispatch::SpreadOp>(op)) {
    const Numbers &row = values[step.operands[0]];
    Numbers rows;
    while (rows.size() < step.elements) {
      rows.insert(rows.end(), row.begin(), row.end());
    }
    values[step.result] = std::move(rows);
    return success();
  }
  if (op.getName().getStringRef() == "tensor.splat") {
    values[step.result].assign(step.elements, values[step.operands[0]][0]);
    return success();
  }
  return computeElements(step);
}

/// Reduces by the kind's rule, or else row by row.
LogicalResult Body::combine(BodyStep &step) {
  const Numbers &rows = values[step.operands[0]];
  size_t columns = step.elements;
  if (step.kind) {
    values[step.result] = reduce(*step.kind, rows, columns);
    return success();
  }
  Numbers soFar(rows.begin(), rows.begin() + int64_t(columns));
  for (size_t i = columns; i < rows.size(); ++i) {
    auto next = evaluateScalar(*step.combiner, {soFar[i % columns], rows[i]}, place);
    if (failed(next)) {
      return failure();
    }
    soFar[i % columns] = next->front();
  }
  values[step.result] = std::move(soFar);
  return success();
}

/// Computes element by element; broadcasts scalar operands.
LogicalResult Body::computeElements(BodyStep &step) {
  if (!step.rule) {
    return step.op->emitOpError("expected an op whose value the oracle knows");
  }
  Numbers &numbers = values[step.result];
  numbers.resize(step.elements);
  SmallVector<scalar::Scalar<Number>> arguments(step.operands.size());
  for (size_t i = 0; i < step.elements; ++i) {
    for (size_t j = 0; j < arguments.size(); ++j) {
      const Numbers &all = values[step.operands[j]];
      arguments[j] = toScalar(all[all.size() == 1 ? 0 : i], step.areFloats[j]);
    }
    numbers[i] = toNumber(step.rule(*step.op, arguments), step.isFloat);
  }
  return success();
}

LogicalResult Body::run() {
  for (BodyStep &step : steps) {
    if (failed(compute(step))) {
      return failure();
    }
  }
  return success();
}

FailureOr<SmallVector<Number>>
sluice::oracle::evaluateScalar(Body &region, ArrayRef<Number> arguments, BodyPlace place) {
  region.start(place);
  for (auto [i, number] : llvm::enumerate(arguments)) {
    region.setArgument(unsigned(i), {number});
  }
  if (failed(region.run())) {
    return failure();
  }
  SmallVector<Number> results;
  for (unsigned i = 0; i < region.yieldCount(); ++i) {
    results.push_back(region.yielded(i)[0]);
  }
  return results;
}

FailureOr<SmallVector<Number>> sluice::oracle::evaluateScalar(Region &region,
                                                              ArrayRef<Number> arguments,
                                                              const OracleLaunch &launch,
                                                              BodyPlace place) {
  Body body(region.front(), launch);
  return evaluateScalar(body, arguments, place);
}
