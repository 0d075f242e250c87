// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that assign memory to tensors.
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/MemoryPlan.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sluice {
#define GEN_PASS_DEF_SEPARATEPLACES
#define GEN_PASS_DEF_PLANMEMORY
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;

namespace {

void separatePlaces(func::FuncOp func) {
  llvm::DenseMap<Value, StringRef> places;
  for (auto store : func.getOps<plan::StoreOp>()) {
    auto [place, isFirst] = places.try_emplace(store.getValue(), store.getPlace());
    Operation *maker = store.getValue().getDefiningOp();
    if (!isFirst && place->second != store.getPlace() &&
        isa_and_nonnull<dispatch::KernelInterface>(maker)) {
      unsigned number = cast<OpResult>(store.getValue()).getResultNumber();
      OpBuilder b(func.getContext());
      b.setInsertionPointAfter(maker);
      store.getValueMutable().assign(b.clone(*maker)->getResult(number));
    }
  }
}

struct SeparatePlacesPass : sluice::impl::SeparatePlacesBase<SeparatePlacesPass> {
  void runOnOperation() override {
    if (failed(verifyLevel(getOperation(), ModuleLevel::Dispatches))) {
      return signalPassFailure();
    }
    llvm::for_each(getOperation().getOps<func::FuncOp>(), separatePlaces);
  }
};

struct PlanMemoryPass : sluice::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto &shared = getAnalysis<MemoryAnalysis>();
    FailureOr<MemoryPlan> memory =
        planMemory(module, shared.workspaceBytes, shared.counterBytes,
                   hasBuckets ? chooseBuckets(module) : SmallVector<int64_t>());
    if (failed(memory)) {
      return signalPassFailure();
    }
    emitBuffers(module, *memory);
    module.walk([&](dispatch::KernelInterface op) {
      if (!isa<func::FuncOp>(op->getParentOp())) {
        return;
      }
      SmallVector<int64_t> offsets;
      for (Value result : op->getResults()) {
        offsets.push_back(memory->offsets.lookup(result));
      }
      setFact<plan::PlanDialect::OffsetsAttrHelper>(
          op, DenseI64ArrayAttr::get(module.getContext(), offsets));
    });
    shared.plan = std::move(*memory);
    markAllAnalysesPreserved();
  }
};

} // namespace
