// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists trained tensors, and checks the size of the model. ShareWeights.cpp finds those that stages
// share.
#include "sluice/Conversion/AssignWeights.h"
#include "AssignGroups.h"
#include "ShareWeights.h"
#include "sluice/Conversion/Passes.h"
#include "sluice/Conversion/SpecToSluice.h"
#include "sluice/Dialect/Spec/VerifyModel.h"
#include "sluice/Dialect/Spec/Weights.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace sluice {
#define GEN_PASS_DEF_ASSIGNWEIGHTS
#include "sluice/Conversion/Passes.h.inc"
} // namespace sluice

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Fails if a frozen stage has no weights, or if no other stage has weights to train. Weights that
/// a stage shares by name are its own too.
static LogicalResult checkFrozen(ModelOp model) {
  llvm::StringSet<> owners;
  bool isTrained = false;
  for (auto weight : model.getBody().getOps<WeightOp>()) {
    owners.insert(getWrittenPath(weight.getPath()));
    isTrained |= !weight.getFrozen();
  }
  Operation *last = nullptr;
  for (auto stage : model.getBody().getOps<StageInterface>()) {
    last = stage;
    if (stage.getFrozen() && !stage.getShareAttr() &&
        !owners.contains(getWrittenPath(stage.getPathAttr().getValue()))) {
      return refuseFrozen(stage);
    }
  }
  if (!isTrained) {
    return emitError(last ? getKeyLoc(last, "") : model.getLoc())
           << "expected a stage to train, found all that have weights frozen; leave \"frozen\" out "
              "of one of them";
  }
  return success();
}

/// A tensor has at most 2^93 elements, and the first excess ends the loop, so the sum does not
/// overflow.
static LogicalResult checkParameters(ModelOp model) {
  __int128 total = 0;
  for (auto weight : model.getBody().getOps<WeightOp>()) {
    __int128 elements = 1;
    for (int64_t size : weight.getShape()) {
      elements *= size;
    }
    total += elements;
    if (total > mostElements) {
      return emitError(weight.getLoc())
             << "expected a model of at most " << mostElements << " parameters, found more up to "
             << weight.getSymName() << "; make the sizes or the number of layers smaller";
    }
  }
  return success();
}

LogicalResult sluice::assignWeights(ModelOp model) {
  WeightList list(model);
  for (auto stage : llvm::to_vector(model.getBody().getOps<WeightsInterface>())) {
    list.addStage(stage);
  }
  FailureOr<SmallVector<SharedName>> shared = shareWeights(model);
  return failure(failed(shared) || failed(checkFrozen(model)) || failed(checkParameters(model)) ||
                 failed(assignGroups(model, *shared)));
}

/// Fails for a model that is not expanded, or that has weights already.
static LogicalResult verifyUnassigned(ModelOp model) {
  for (auto weight : model.getBody().getOps<WeightOp>()) {
    return weight.emitError() << "expected a model without weights, found some";
  }
  for (auto stage : model.getBody().getOps<StageInterface>()) {
    if (isComposite(stage)) {
      return refuseComposite(stage);
    }
  }
  return failure(failed(verifyStageOrder(model)) || failed(verifyExpandedModel(model)));
}

namespace {

struct AssignWeights : sluice::impl::AssignWeightsBase<AssignWeights> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<ModelOp>()) {
      if (failed(verifyUnassigned(model)) || failed(assignWeights(model))) {
        return signalPassFailure();
      }
    }
  }
};

} // namespace
