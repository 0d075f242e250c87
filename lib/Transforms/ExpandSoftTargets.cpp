// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expands losses against soft targets from data into ops that store the logits.
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace sluice {
#define GEN_PASS_DEF_EXPANDSOFTTARGETS
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;

namespace {

/// Creates a map that copies x: rows of a linear map are stored in memory, rows of a shift are not.
Value storedRows(OpBuilder &b, Location loc, Value x) {
  auto map = MapOp::create(b, loc, x.getType(), ValueRange{x});
  Block &block = map.getBody().emplaceBlock();
  Value argument = block.addArgument(b.getF32Type(), loc);
  OpBuilder inside = OpBuilder::atBlockEnd(&block);
  YieldOp::create(inside, loc, argument);
  return map.getResult();
}

void expand(CrossEntropyOp loss) {
  OpBuilder b(loss);
  Location loc = loss.getLoc();
  Value x = isLazy(loss.getInput()) ? storedRows(b, loc, loss.getInput()) : loss.getInput();
  int64_t classes = cast<RankedTensorType>(loss.getWeight().getType()).getDimSize(0);
  auto type = SequenceType::get(b.getContext(), loss.getLosses().getType().getScale(), classes,
                                b.getF32Type());
  Value logits = LinearOp::create(b, loc, type, x, loss.getWeight(), loss.getBias());
  Value soft = SoftLossOp::create(b, loc, loss.getLosses().getType(), logits, loss.getTokens(),
                                  loss.getTarget(), loss.getFirst());
  if (!getDisplayName(loss.getLosses())
           .empty()) { // attributes of the loss that hold for this op too
    setName(soft, getDisplayName(loss.getLosses()));
  }
  loss.getLosses().replaceAllUsesWith(soft);
  loss.erase();
}

/// Replaces a loss that is given by the op that computes it, and erases the rows that it alone
/// reads. That op takes the origins of the erased ops.
void replaceByGiven(CrossEntropyOp loss) {
  Operation *given = loss.getWeight().getDefiningOp();
  Value rows = loss.getInput();
  if (given) {
    mergeOrigins(given, loss);
  }
  loss.getLosses().replaceAllUsesWith(loss.getWeight());
  loss.erase();
  while (rows && rows.getDefiningOp() && isOpTriviallyDead(rows.getDefiningOp())) {
    Operation *op = rows.getDefiningOp();
    if (given) {
      mergeOrigins(given, op);
    }
    rows = op->getNumOperands() > 0 ? op->getOperand(0) : Value();
    op->erase();
  }
}

struct ExpandSoftTargetsPass : sluice::impl::ExpandSoftTargetsBase<ExpandSoftTargetsPass> {
  void runOnOperation() override {
    if (failed(verifyModel(getOperation())) ||
        failed(verifyLevel(getOperation(), ModuleLevel::Model))) {
      return signalPassFailure();
    }
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      for (auto loss : llvm::to_vector(func.getOps<CrossEntropyOp>())) {
        if (isa<SequenceType>(loss.getWeight().getType())) {
          replaceByGiven(loss);
        } else if (!loss.getTarget().empty()) {
          expand(loss);
        }
      }
    }
  }
};

} // namespace
