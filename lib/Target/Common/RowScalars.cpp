// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scalars of a row kernel's body, for one row.
#include "RowScalars.h"

#include "RowAccess.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;

Value target::getIndexValue(dispatch::RowsOp op, const BodyScalars &scalars, int64_t argument) {
  return argument < 0 ? Value() : scalars.lookup(op.getBody().getArgument(unsigned(argument)));
}

void target::emitElements(dispatch::RowsOp op, unsigned level, BodyScalars &scalars,
                          llvm::function_ref<Value(BlockArgument)> load) {
  for (BlockArgument argument : op.getBody().getArguments()) {
    if (!isRow(argument) && getTensorAccess(op, argument.getArgNumber()).getLevel() == level) {
      Value element = load(argument);
      scalars[argument] = element;
    }
  }
}

static Value emitScalar(ImplicitLocOpBuilder &b, Operation &operation, const ScalarInputs &inputs,
                        const BodyScalars &scalars) {
  if (auto splat = dyn_cast<tensor::SplatOp>(operation)) {
    auto type = VectorType::get({inputs.lanes}, splat.getInput().getType());
    return vector::BroadcastOp::create(b, type, scalars.lookup(splat.getInput()));
  }
  if (isa<dispatch::PositionOp>(operation)) {
    return arith::IndexCastOp::create(b, b.getI32Type(), inputs.position);
  }
  if (auto random = dyn_cast<dispatch::RandomOp>(operation)) {
    return inputs.drawElement(random);
  }
  Operation *copy = operation.clone();
  for (OpOperand &operand : copy->getOpOperands()) {
    operand.set(scalars.lookup(operand.get()));
  }
  b.insert(copy);
  return copy->getResult(0);
}

void target::emitScalars(ImplicitLocOpBuilder &b, dispatch::RowsOp op, const Schedule &schedule,
                         int64_t depth, const ScalarInputs &inputs, BodyScalars &scalars) {
  for (Operation &operation : op.getBody().front().without_terminator()) {
    Value result = operation.getResult(0);
    bool isScalar = isa<tensor::SplatOp>(operation) || !isRow(result);
    if (isScalar && !scalars.count(result) && schedule.depth(result) <= depth &&
        !isa<dispatch::ReduceOp>(operation)) {
      scalars[result] = emitScalar(b, operation, inputs, scalars);
    }
  }
}
