// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Conversion/Passes.h"
#include "sluice/Dialect/Spec/VerifyModel.h"

#include "Patterns.h"
#include "StageAppender.h"

#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Rewrite/PatternApplicator.h"

namespace sluice {
#define GEN_PASS_DEF_EXPANDCOMPOSITES
#include "sluice/Conversion/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

bool isComposite(Operation *op) {
  return isa<LayersOp, HourglassOp, TopDownOp, BottomUpOp, DynamicOp, MegabyteOp,
             BlockTransformerOp, SpaceByteOp, HnetOp, BltOp>(op);
}

struct ExpandCompositesPass : sluice::impl::ExpandCompositesBase<ExpandCompositesPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    for (PopulatePattern *populate :
         {populateExpandBlt, populateExpandBlockTransformer, populateExpandBottomUp,
          populateExpandDynamic, populateExpandHnet, populateExpandHourglass, populateExpandLayers,
          populateExpandMegabyte, populateExpandSpaceByte, populateExpandTopDown}) {
      populate(set, stages);
    }
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    for (auto model : getOperation().getOps<ModelOp>()) {
      if (failed(expand(model)) || failed(verifyExpandedModel(model))) {
        return signalPassFailure();
      }
    }
  }

private:
  /// Replaces stages in the order of the model, so that the first error is of the first stage that
  /// has one. Stages that replace another are visited next.
  LogicalResult expand(ModelOp model) {
    PatternApplicator applicator(patterns);
    applicator.applyDefaultCostModel();
    PatternRewriter rewriter(model.getContext());
    Block &body = model.getBody().front();
    stages = 0;
    for (Block::iterator at = body.begin(); at != body.end();) {
      Operation *stage = &*at;
      if (isComposite(stage)) {
        Operation *before = stage->getPrevNode();
        rewriter.setInsertionPoint(stage);
        if (failed(applicator.matchAndRewrite(stage, rewriter))) {
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

  FrozenRewritePatternSet patterns;
  int64_t stages = 0; ///< before the stage that is visited
};

} // namespace
