// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bodies of dispatch ops, one thread's elements at a time.
#include "Frame.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "sluice/Target/CPU/Random.h"
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

int64_t Body::elements(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() == 0) {
    return 1;
  }
  return tensor.getNumElements() / tensor.getShape().back() * partsOf(tensor.getShape().back());
}

Body::Body(Frame &frame, Block &block, const Row &row, Value column)
    : frame(frame), block(block), row(row), column(column) {}

Value Body::columnOf(int64_t element) {
  return column ? column : frame.e.add(frame.lane, element * threadsPerWarp);
}

bool Body::hasColumns(Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return column ? !tensor : tensor && tensor.getRank() == 1;
}

LogicalResult Body::emit() {
  for (Operation &op : block.without_terminator()) {
    if (failed(emitOp(&op))) {
      return failure();
    }
  }
  return success();
}

LogicalResult Body::emitOp(Operation *op) {
  if (auto reduce = dyn_cast<dispatch::ReduceOp>(op)) {
    return emitReduce(reduce);
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    TypedAttr value = constant.getValue();
    if (auto splat = dyn_cast<SplatElementsAttr>(value)) {
      value = cast<TypedAttr>(splat.getSplatValue<Attribute>());
    } else if (isa<ElementsAttr>(value)) {
      return op->emitOpError("expected a constant that is the same in every column");
    }
    known[constant] =
        Values(elements(constant.getType()), arith::ConstantOp::create(frame.b, value));
  } else if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    known[splat] = Values(elements(splat.getType()), known[splat.getInput()][0]);
  } else if (auto sum = dyn_cast<dispatch::SumGroupOp>(op)) {
    known[sum] = emitSumGroup(sum);
  } else if (isa<dispatch::ColumnOp, dispatch::RandomOp>(op) &&
             !hasColumns(op->getResult(0).getType())) {
    return op->emitOpError("expected one row of columns, found ") << op->getResult(0).getType();
  } else if (isa<dispatch::ColumnOp>(op)) {
    known[op->getResult(0)] = emitColumns(op->getResult(0).getType());
  } else if (isa<dispatch::PositionOp>(op)) {
    known[op->getResult(0)] = {frame.e.toInteger(row.position)};
  } else if (auto random = dyn_cast<dispatch::RandomOp>(op)) {
    known[random] = emitRandom(random);
  } else {
    return emitElementwise(op);
  }
  return success();
}

LogicalResult Body::emitElementwise(Operation *op) {
  if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumRegions() > 0 ||
      op->getNumResults() != 1) {
    return op->emitOpError("expected an elementwise op in a body, found ") << op->getName();
  }
  Type type = op->getResult(0).getType();
  Values results;
  for (int64_t j = 0; j < elements(type); ++j) {
    Values inputs;
    for (Value operand : op->getOperands()) {
      const Values &values = known[operand];
      inputs.push_back(values[isa<RankedTensorType>(operand.getType()) ? j : 0]);
    }
    Operation *copy = op->clone();
    copy->setOperands(inputs);
    copy->getResult(0).setType(getElementTypeOrSelf(type));
    frame.b.insert(copy);
    results.push_back(copy->getResult(0));
  }
  known[op->getResult(0)] = results;
  return success();
}

/// Each lane's columns in order, then a tree over lanes: the order depends on the width alone, and
/// every lane holds the sum.
LogicalResult Body::emitReduce(dispatch::ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getRow().getType());
  if (column || type.getRank() != 1 || !type.getElementType().isF32()) {
    return op.emitOpError("expected a row of f32, found ") << type;
  }
  bool adds = op.getKind() == dispatch::ReduceKind::Add;
  int64_t d = type.getDimSize(0);
  ImplicitLocOpBuilder &b = frame.b;
  float neutral = adds ? 0.0f : -std::numeric_limits<float>::infinity();
  Value none = arith::ConstantOp::create(b, b.getF32FloatAttr(neutral));
  auto combine = [&](Value x, Value y) -> Value {
    return adds ? Value(arith::AddFOp::create(b, x, y)) : Value(arith::MaxNumFOp::create(b, x, y));
  };
  Value total;
  for (auto [j, value] : llvm::enumerate(known[op.getRow()])) {
    Value part = value;
    if ((int64_t(j) + 1) * threadsPerWarp > d) {
      part = frame.e.select(frame.e.less(columnOf(j), frame.e.index(d)), value, none);
    }
    total = total ? combine(total, part) : part;
  }
  for (int64_t distance = threadsPerWarp / 2; distance > 0; distance /= 2) {
    Value other = NVVM::ShflOp::create(
        b, b.getF32Type(), frame.e.integer(-1), total, frame.e.integer(distance),
        frame.e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
    total = combine(total, other);
  }
  known[op.getResult()] = {total};
  return success();
}

Values Body::emitSumGroup(dispatch::SumGroupOp op) {
  const Values &all = known[op.getRows()];
  int64_t parts = elements(op.getResult().getType());
  Values sums(all.begin(), all.begin() + parts);
  for (size_t i = parts; i < all.size(); ++i) {
    sums[i % parts] = frame.e.addf(sums[i % parts], all[i]);
  }
  return sums;
}

Values Body::emitColumns(Type type) {
  Values columns;
  for (int64_t j = 0; j < elements(type); ++j) {
    columns.push_back(frame.e.toInteger(columnOf(j)));
  }
  return columns;
}

Values Body::emitRandom(dispatch::RandomOp op) {
  ImplicitLocOpBuilder &b = frame.b;
  Value step =
      op.getFixedStep() ? Value(arith::ConstantIntOp::create(b, b.getI64Type(), 0)) : frame.step;
  Value first = frame.e.mul(row.global, op.getWidth());
  Values numbers;
  for (int64_t j = 0; j < elements(op.getResult().getType()); ++j) {
    Value element = arith::IndexCastOp::create(b, b.getI64Type(), frame.e.add(first, columnOf(j)));
    numbers.push_back(
        cpu::emitUniform(b, element, op.getId(), frame.firstStream, step, frame.seed));
  }
  return numbers;
}
