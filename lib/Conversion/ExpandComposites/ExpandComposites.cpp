// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Conversion/Passes.h"
#include "sluice/Dialect/Spec/VerifyModel.h"

#include "Expansions.h"

namespace sluice {
#define GEN_PASS_DEF_EXPANDCOMPOSITES
#include "sluice/Conversion/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Adds the stages that replace a composite stage, and returns the value that replaces its result;
/// none if the stage is primitive.
static std::optional<Value> expandStage(Operation *stage, StageAppender &appender) {
#define SPEC_COMPOSITE(Name)                                                                       \
  if (auto op = dyn_cast<Name##Op>(stage)) {                                                       \
    return expand##Name(op, appender);                                                             \
  }
#include "sluice/Dialect/Spec/SpecComposites.inc"
#undef SPEC_COMPOSITE
  return std::nullopt;
}

/// Replaces stages in the order of the model, so that the first error is the error of the first
/// invalid stage. Stages that replace another are visited next.
static LogicalResult expandModel(ModelOp model) {
  IRRewriter rewriter(model.getContext());
  Block &body = model.getBody().front();
  int64_t stages = 0; // number of stages before the visited one
  for (Block::iterator at = body.begin(); at != body.end();) {
    Operation *stage = &*at, *before = stage->getPrevNode();
    rewriter.setInsertionPoint(stage);
    StageAppender appender(stage, stages, rewriter);
    if (std::optional<Value> result = expandStage(stage, appender)) {
      if (failed(appender.replaceBy(*result))) {
        return failure();
      }
      at = before ? std::next(before->getIterator()) : body.begin();
      continue;
    }
    if (isa<StageInterface>(stage) && failed(verifyRoom(stage->getLoc(), stages++))) {
      return failure();
    }
    ++at;
  }
  return success();
}

namespace {

struct ExpandCompositesPass : sluice::impl::ExpandCompositesBase<ExpandCompositesPass> {
  void runOnOperation() override {
    for (auto model : getOperation().getOps<ModelOp>()) {
      if (failed(expandModel(model)) || failed(verifyExpandedModel(model))) {
        return signalPassFailure();
      }
    }
  }
};

} // namespace
