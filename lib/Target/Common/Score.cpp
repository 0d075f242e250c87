// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Score regions: scalar code of the op, cloned as vector code into the tiles.
#include "sluice/Target/Common/Score.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;

LogicalResult target::checkRegion(Region &region) {
  for (Operation &op : region.front().without_terminator()) {
    bool constant = isa<arith::ConstantOp>(op);
    if (op.getNumRegions() != 0 || op.getNumResults() != 1 ||
        (!constant && !OpTrait::hasElementwiseMappableTraits(&op))) {
      return op.emitError("expected scalar arith or math in an attention region, found ")
             << op.getName() << "; write it with elementwise operations";
    }
  }
  return success();
}

Value target::emitRegion(Emitter &e, Region &region, ValueRange arguments) {
  return emitAll(e, region, arguments).front();
}

Operation *target::sumOfProducts(Region &region) {
  BlockArgument score = region.getArgument(0),
                product = region.getArgument(dispatch::DistanceTerms::firstArgument);
  if (!score.hasOneUse() || !product.hasOneUse()) {
    return nullptr;
  }
  Operation *user = *score.user_begin();
  return isa<arith::AddFOp>(user) && user == *product.user_begin() ? user : nullptr;
}

Values target::emitAll(Emitter &e, Region &region, ValueRange arguments, Value sum) {
  Block &block = region.front();
  IRMapping map;
  map.map(block.getArguments(), arguments);
  Operation *made = sum ? sumOfProducts(region) : nullptr;
  auto isVector = [](Value value) { return isa<VectorType>(value.getType()); };
  for (Operation &op : block.without_terminator()) {
    if (&op == made) {
      map.map(op.getResult(0), sum);
      continue;
    }
    SmallVector<Value> operands;
    for (Value operand : op.getOperands()) {
      operands.push_back(map.lookup(operand));
    }
    if (llvm::none_of(operands, isVector)) {
      map.map(op.getResult(0), e.b.clone(op, map)->getResult(0));
      continue;
    }
    OperationState state(e.b.getLoc(), op.getName());
    for (Value operand : operands) {
      state.operands.push_back(e.broadcast(operand));
    }
    state.addTypes(VectorType::get({e.lanes}, op.getResult(0).getType()));
    state.addAttributes(op.getAttrs());
    map.map(op.getResult(0), e.b.create(state)->getResult(0));
  }
  return llvm::map_to_vector(block.getTerminator()->getOperands(),
                             [&](Value yielded) { return map.lookup(yielded); });
}
