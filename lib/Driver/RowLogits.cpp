// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RowLogits.h"

#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace sluice;

/// Returns the last op of a stage or of a part of a stage; its result is the result of the stage.
static Operation *findLast(func::FuncOp function, StringRef stage) {
  Operation *last = nullptr;
  for (Operation &op : function.getBody().front()) {
    OriginAttr origin = getOrigin(&op);
    bool isOfStage = origin && origin.isWithin(stage);
    if (isOfStage && op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      last = &op;
    }
  }
  return last;
}

/// Returns `x` as f32.
static Value toF32(OpBuilder &b, Value x) {
  auto type = cast<SequenceType>(x.getType());
  if (type.getElement().isF32()) {
    return x;
  }
  auto wide = SequenceType::get(b.getContext(), type.getScale(), type.getWidth(), b.getF32Type());
  auto op = MapOp::create(b, x.getLoc(), wide, x);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody());
  YieldOp::create(b, x.getLoc(), block->addArgument(b.getF32Type(), x.getLoc()));
  return op.getResult();
}

/// Changes `predict` to return the logits of all rows instead of the last row.
static void keepLogits(func::FuncOp predict) {
  for (LastOp last : llvm::make_early_inc_range(predict.getOps<LastOp>())) {
    auto one = cast<SequenceType>(last.getResult().getType());
    auto rows = cast<SequenceType>(last.getInput().getType());
    last.replaceAllUsesWith(last.getInput());
    last.erase();
    for (Operation &op : predict.getBody().front()) {
      for (OpResult result : op.getResults()) {
        auto type = dyn_cast<SequenceType>(result.getType());
        if (type && type.getScale() == one.getScale()) {
          result.setType(SequenceType::get(op.getContext(), rows.getScale(), type.getWidth(),
                                           type.getElement()));
        }
      }
    }
  }
}

void driver::returnRows(func::FuncOp predict, Value rows) {
  Operation *terminator = predict.getBody().front().getTerminator();
  OpBuilder b(terminator);
  terminator->setOperands(toF32(b, rows));
  SmallVector<Operation *> ops;
  for (Operation &op : predict.getBody().front()) {
    ops.push_back(&op);
  }
  for (Operation *op : llvm::reverse(ops)) {
    if (isOpTriviallyDead(op)) {
      op->erase();
    }
  }
  predict.setType(b.getFunctionType(predict.getArgumentTypes(), terminator->getOperandTypes()));
}

LogicalResult driver::keepEveryRow(ModuleOp module, StringRef stage) {
  OpBuilder b(module.getContext());
  setFact<SluiceDialect::BatchAttrHelper>(module, b.getI64IntegerAttr(1));
  auto predict = module.lookupSymbol<func::FuncOp>("predict");
  if (!predict) { // the model ends in a contrast
    return failure();
  }
  if (stage.empty()) {
    keepLogits(predict);
    Operation *terminator = predict.getBody().front().getTerminator();
    predict.setType(b.getFunctionType(predict.getArgumentTypes(), terminator->getOperandTypes()));
    return success();
  }
  Operation *made = findLast(predict, stage);
  if (!made) {
    return failure();
  }
  returnRows(predict, made->getResult(0));
  return success();
}
