// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Body.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::replay;

namespace {

using Function = std::function<Number(ArrayRef<Number>)>;

Function ofOne(double (*function)(double), Number (*rule)(Number, double (*)(double))) {
  return [=](ArrayRef<Number> x) { return rule(x[0], function); };
}

Function whole(int64_t (*function)(int64_t, int64_t)) {
  return [=](ArrayRef<Number> x) {
    return Number{double(function(int64_t(x[0].value), int64_t(x[1].value))), 0};
  };
}

/// The greater or the lesser; which one is not sure where they are near one another.
Function extreme(bool greatest) {
  return [=](ArrayRef<Number> x) {
    double value = greatest ? std::fmax(x[0].value, x[1].value) : std::fmin(x[0].value, x[1].value);
    return Number{value, std::max(x[0].error, x[1].error)};
  };
}

double reciprocalRoot(double x) { return 1 / std::sqrt(x); }

Function arithmetic(StringRef name) {
  return llvm::StringSwitch<Function>(name)
      .Case("arith.addf", [](ArrayRef<Number> x) { return add(x[0], x[1]); })
      .Case("arith.subf", [](ArrayRef<Number> x) { return subtract(x[0], x[1]); })
      .Case("arith.mulf", [](ArrayRef<Number> x) { return multiply(x[0], x[1]); })
      .Case("arith.divf", [](ArrayRef<Number> x) { return divide(x[0], x[1]); })
      .Case("math.fma", [](ArrayRef<Number> x) { return add(multiply(x[0], x[1]), x[2]); })
      .Case("arith.negf", [](ArrayRef<Number> x) { return Number{-x[0].value, x[0].error}; })
      .Case("math.absf",
            [](ArrayRef<Number> x) { return Number{std::abs(x[0].value), x[0].error}; })
      .Cases({"arith.extf", "arith.truncf"},
             [](ArrayRef<Number> x) { return rounded(x[0].value, x[0].error); })
      .Cases({"arith.maximumf", "arith.maxnumf"}, extreme(true))
      .Cases({"arith.minimumf", "arith.minnumf"}, extreme(false))
      .Default(nullptr);
}

Function elementaryOf(StringRef name) {
  return llvm::StringSwitch<Function>(name)
      .Case("math.exp", ofOne(std::exp, monotone))
      .Case("math.exp2", ofOne(std::exp2, monotone))
      .Case("math.expm1", ofOne(std::expm1, monotone))
      .Case("math.log", ofOne(std::log, monotone))
      .Case("math.log1p", ofOne(std::log1p, monotone))
      .Case("math.sqrt", ofOne(std::sqrt, monotone))
      .Case("math.rsqrt", ofOne(reciprocalRoot, monotone))
      .Case("math.erf", ofOne(std::erf, monotone))
      .Case("math.tanh", ofOne(std::tanh, monotone))
      .Case("math.floor", ofOne(std::floor, monotone))
      .Case("math.sin", ofOne(std::sin, gentle))
      .Case("math.cos", ofOne(std::cos, gentle))
      .Default(nullptr);
}

Function wholeOf(StringRef name) {
  using I = int64_t;
  return llvm::StringSwitch<Function>(name)
      .Case("arith.addi", whole([](I x, I y) { return x + y; }))
      .Case("arith.subi", whole([](I x, I y) { return x - y; }))
      .Case("arith.muli", whole([](I x, I y) { return x * y; }))
      .Case("arith.divsi", whole([](I x, I y) { return y == 0 ? 0 : x / y; }))
      .Case("arith.floordivsi",
            whole([](I x, I y) { return y == 0 ? 0 : llvm::divideFloorSigned(x, y); }))
      .Case("arith.remsi", whole([](I x, I y) { return y == 0 ? 0 : x % y; }))
      .Case("arith.minsi", whole([](I x, I y) { return std::min(x, y); }))
      .Case("arith.maxsi", whole([](I x, I y) { return std::max(x, y); }))
      .Case("arith.andi", whole([](I x, I y) { return x & y; }))
      .Case("arith.ori", whole([](I x, I y) { return x | y; }))
      .Case("arith.xori", whole([](I x, I y) { return x ^ y; }))
      .Cases({"arith.index_cast", "arith.extsi", "arith.extui", "arith.trunci"},
             [](ArrayRef<Number> x) { return x[0]; })
      .Cases({"arith.sitofp", "arith.uitofp"},
             [](ArrayRef<Number> x) { return rounded(x[0].value, x[0].error); })
      .Default(nullptr);
}

/// A comparison of floating point; unsure where the two are nearer than their errors.
Function comparison(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  P predicate = op.getPredicate();
  return [=](ArrayRef<Number> x) -> Number {
    double a = x[0].value, b = x[1].value;
    bool holds = false;
    switch (predicate) {
    case P::OEQ:
    case P::UEQ:
      holds = a == b;
      break;
    case P::ONE:
    case P::UNE:
      holds = a != b;
      break;
    case P::OLT:
    case P::ULT:
      holds = a < b;
      break;
    case P::OLE:
    case P::ULE:
      holds = a <= b;
      break;
    case P::OGT:
    case P::UGT:
      holds = a > b;
      break;
    case P::OGE:
    case P::UGE:
      holds = a >= b;
      break;
    case P::ORD:
      holds = a == a && b == b;
      break;
    case P::UNO:
      holds = a != a || b != b;
      break;
    case P::AlwaysTrue:
      holds = true;
      break;
    case P::AlwaysFalse:
      break;
    }
    bool isSure = x[0].error + x[1].error == 0 || std::abs(a - b) > x[0].error + x[1].error;
    return {double(holds), isSure ? 0.0 : 1.0};
  };
}

Number select(ArrayRef<Number> x) {
  Number chosen = x[0].value != 0 ? x[1] : x[2];
  if (x[0].error > 0) { // or the other
    chosen.error = std::abs(x[1].value - x[2].value) + std::max(x[1].error, x[2].error);
  }
  return chosen;
}

Function functionOf(Operation &op) {
  StringRef name = op.getName().getStringRef();
  if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
    return comparison(compare);
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    return [predicate = compare.getPredicate()](ArrayRef<Number> x) {
      auto wide = [](Number n) { return APInt(64, uint64_t(int64_t(n.value)), true); };
      return Number{double(arith::applyCmpPredicate(predicate, wide(x[0]), wide(x[1]))), 0};
    };
  }
  if (name == "arith.select") {
    return select;
  }
  for (auto find : {arithmetic, elementaryOf, wholeOf}) {
    if (Function function = find(name)) {
      return function;
    }
  }
  return nullptr;
}

int64_t elements(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? tensor.getNumElements() : 1;
}

Numbers constantOf(arith::ConstantOp constant) {
  auto numberOf = [](Attribute attribute) -> Number {
    if (auto real = dyn_cast<FloatAttr>(attribute)) {
      return {real.getValueAsDouble(), 0};
    }
    APInt value = cast<IntegerAttr>(attribute).getValue();
    return {double(value.getBitWidth() == 1 ? int64_t(value.getZExtValue()) : value.getSExtValue()),
            0};
  };
  if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue())) {
    Numbers numbers;
    for (Attribute attribute : dense.getValues<Attribute>()) {
      numbers.push_back(numberOf(attribute));
    }
    return numbers;
  }
  return {numberOf(constant.getValue())};
}

} // namespace

bool sluice::replay::draws(const Launch &launch, int64_t id, uint64_t element, double rate) {
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
      uint64_t element = uint64_t(place.row) * random.getWidth() + uint64_t(column);
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
    set(result, reduce(group.getKind(), get(group.getRows()), size_t(elements(result))));
    return success();
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
  Function function = functionOf(op);
  if (!function) {
    return op.emitOpError("expected an op whose value the replay knows");
  }
  Numbers numbers;
  SmallVector<Number> arguments(op.getNumOperands());
  for (int64_t i = 0; i < elements(result); ++i) {
    for (auto [argument, operand] : llvm::zip_equal(arguments, op.getOperands())) {
      const Numbers &all = get(operand);
      argument = all[all.size() == 1 ? 0 : size_t(i)];
    }
    numbers.push_back(function(arguments));
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

FailureOr<SmallVector<Number>> sluice::replay::evaluateScalar(Region &region,
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
