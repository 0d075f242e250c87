// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.add_gradients, the sum of two gradients of a shared parameter.
#include "sluice/Dialect/Sluice/Gradients.h"
#include "../Cost.h"
#include "../Reference/Reference.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;
using dispatch::AccessAttr, dispatch::AccessKind;

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/GradientsOps.cpp.inc"

Value sluice::addGradient(OpBuilder &b, Value sum, Value contribution) {
  return sum ? Value(AddGradientsOp::create(b, contribution.getLoc(), sum.getType(), sum,
                                            contribution))
             : contribution;
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

LogicalResult AddGradientsOp::verify() {
  auto type = cast<RankedTensorType>(getResult().getType());
  if (!type.getElementType().isF32() || type.getRank() < 1 || type.getRank() > 2) {
    return emitOpError("S-149: expected gradients that are f32 vectors or matrices, found ")
           << type;
  }
  return success();
}

std::optional<SmallVector<dispatch::RowRead>> AddGradientsOp::getRowReads(unsigned) {
  return std::nullopt;
}

/// One addition per element.
Cost AddGradientsOp::getCost() { return facts::cost(*this, facts::elements(*this, getResult())); }

template <typename T> static void evaluate(AddGradientsOp op, Evaluator<T> &evaluator) {
  std::vector<T> sum = evaluator.getTensor(op.getSum());
  const std::vector<T> &gradient = evaluator.getTensor(op.getGradient());
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += gradient[i];
  }
  evaluator.setTensor(op.getResult(), std::move(sum));
}

SLUICE_REFERENCE(AddGradientsOp)

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// Builds one pass over the rows of a matrix; a vector is one row.
LogicalResult AddGradientsOp::emitDispatches(DispatchEmitter &emitter) {
  ImplicitLocOpBuilder &b = emitter.b;
  auto type = cast<RankedTensorType>(getResult().getType());
  bool isVector = type.getRank() == 1;
  auto domain =
      dispatch::DomainAttr::get(b.getContext(), 1, isVector ? 1 : type.getDimSize(0), /*factor=*/0);
  auto access = AccessAttr::get(b.getContext(), isVector ? AccessKind::Vector : AccessKind::Flat);
  auto op = dispatch::RowsOp::create(
      b, TypeRange(type), ValueRange{emitter.get(getSum()), emitter.get(getGradient())}, domain,
      b.getArrayAttr({access, access}), b.getArrayAttr({access}), UnitAttr(), DenseI64ArrayAttr(),
      b.getStringAttr("sum of gradients"), StringAttr(), UnitAttr());
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody());
  auto row = RankedTensorType::get({type.getShape().back()}, type.getElementType());
  Value sum = block->addArgument(row, b.getLoc()), gradient = block->addArgument(row, b.getLoc());
  dispatch::YieldOp::create(b, ValueRange{arith::AddFOp::create(b, sum, gradient)});
  emitter.set(getResult(), op.getResult(0));
  return success();
}
