// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Upstream's common subexpression elimination, keeping the origins of eliminated ops.
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

namespace sluice {
#define GEN_PASS_DEF_MERGEOPS
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;

namespace {

/// Adds the origins of a replaced op to the op that replaces it.
struct OriginListener : RewriterBase::Listener {
  using RewriterBase::Listener::notifyOperationReplaced;

  void notifyOperationReplaced(Operation *op, Operation *replacement) override {
    ++merged;
    mergeOrigins(replacement, op);
  }
  int64_t merged = 0;
};

struct MergeOpsPass : sluice::impl::MergeOpsBase<MergeOpsPass> {
  void runOnOperation() override {
    OriginListener listener;
    IRRewriter rewriter(&getContext(), &listener);
    bool isChanged = false;
    eliminateCommonSubExpressions(rewriter, getAnalysis<DominanceInfo>(), getOperation(),
                                  &isChanged);
    mergedOps += listener.merged;
    if (!isChanged) {
      return markAllAnalysesPreserved();
    }
    markAnalysesPreserved<DominanceInfo, PostDominanceInfo>();
  }
};

} // namespace
