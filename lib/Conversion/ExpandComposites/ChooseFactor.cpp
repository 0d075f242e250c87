// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shorten-factor dropout (Nawrot et al. 2021, section 4.1).
#include "sluice/Conversion/Passes.h"
#include "sluice/Dialect/Spec/Hierarchy.h"

namespace sluice {
#define GEN_PASS_DEF_CHOOSEFACTOR
#include "sluice/Conversion/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

struct ChooseFactorPass : sluice::impl::ChooseFactorBase<ChooseFactorPass> {
  using ChooseFactorBase::ChooseFactorBase;

  void runOnOperation() override {
    for (auto model : getOperation().getOps<ModelOp>()) {
      if (failed(chooseFactor(model))) {
        return signalPassFailure();
      }
    }
  }

private:
  LogicalResult chooseFactor(ModelOp model) {
    bool isFound = false;
    for (auto stage : model.getBody().getOps<HourglassOp>()) {
      FailureOr<Hierarchy> hierarchy =
          parseHierarchy(stage, stage.getHierarchy(), HierarchyOrder::DownAndUp);
      if (failed(hierarchy)) {
        return failure();
      }
      if (hierarchy->drawn.empty()) {
        continue;
      }
      if (isFound) {
        return emitKeyError(stage, "hierarchy")
               << "expected one stage at most that draws its factor, found a second one; write one "
                  "factor per level here";
      }
      isFound = true;
      if (failed(setFactor(stage, *hierarchy))) {
        return failure();
      }
    }
    return success();
  }

  /// Sets the factor of the levels that draw one to the option's value.
  LogicalResult setFactor(HourglassOp stage, Hierarchy hierarchy) {
    int64_t chosen = factor == 0 ? hierarchy.drawn.front() : factor;
    if (!llvm::is_contained(hierarchy.drawn, chosen)) {
      InFlightDiagnostic error = emitKeyError(stage, "hierarchy");
      error << "expected a factor that this stage draws, ";
      llvm::interleaveComma(hierarchy.drawn, error);
      return error << ", found " << chosen << "; choose one of them";
    }
    hierarchy.setDrawn(chosen);
    stage.setHierarchy(hierarchy.toString());
    return success();
  }
};

} // namespace
