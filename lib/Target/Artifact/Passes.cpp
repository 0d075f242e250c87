// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels and launches as passes: for one target, the work of the driver for a whole artifact.
#include "sluice/Target/Passes.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Transforms/Levels.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace sluice {
#define GEN_PASS_DEF_GENERATEKERNELS
#define GEN_PASS_DEF_EMITPLAN
#define GEN_PASS_DEF_RECOMPUTE
#include "sluice/Target/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;

/// Generates the kernels of a module for the target of that name; fails with a diagnostic.
static FailureOr<KernelSet> kernelsFor(ModuleOp module, StringRef name) {
  Targets targets;
  if (!addTarget(name, targets)) {
    return module.emitError() << "expected a target (" << targetNames << "), found '" << name
                              << "'";
  }
  for (StringRef size : {"sluice.context", "sluice.batch"}) {
    if (!targets.gpus.empty() && !module->getAttrOfType<IntegerAttr>(size)) {
      return module.emitError() << "expected the module attribute " << size
                                << ", an i64 that a GPU's products are known by, found none";
    }
  }
  if (failed(verifyLevel(module, Level::Dispatches))) {
    return failure();
  }
  std::string unsupported;
  FailureOr<KernelSet> kernels = generateKernels(module, targets, unsupported);
  if (failed(kernels) && !unsupported.empty()) {
    return module.emitError() << unsupported;
  }
  return kernels;
}

static void eraseFunctions(ModuleOp module) {
  for (auto func : llvm::to_vector(module.getOps<func::FuncOp>())) {
    func.erase();
  }
}

namespace {

struct GenerateKernelsPass : sluice::impl::GenerateKernelsBase<GenerateKernelsPass> {
  using GenerateKernelsBase::GenerateKernelsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<KernelSet> kernels = kernelsFor(module, target);
    if (failed(kernels)) {
      return signalPassFailure();
    }
    eraseFunctions(module);
    for (auto *made : {&kernels->modules, &kernels->deviceModules}) {
      for (OwningOpRef<ModuleOp> &generated : *made) {
        Block *body = generated->getBody();
        module.getBody()->getOperations().splice(module.getBody()->end(), body->getOperations());
      }
    }
  }
};

struct EmitPlanPass : sluice::impl::EmitPlanBase<EmitPlanPass> {
  using EmitPlanBase::EmitPlanBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<KernelSet> kernels = kernelsFor(module, target);
    if (failed(kernels)) {
      return signalPassFailure();
    }
    FailureOr<MemoryPlan> memory =
        planMemory(module, kernels->workspaceBytes(), kernels->counterBytes());
    if (failed(memory)) {
      return signalPassFailure();
    }
    emitPlan(module, *kernels, *memory);
    eraseFunctions(module);
  }
};

struct RecomputePass : sluice::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<KernelSet> kernels = kernelsFor(module, target);
    if (failed(kernels)) {
      return signalPassFailure();
    }
    FailureOr<Recomputation> made = recomputeWithin(module, *kernels, memoryBudget);
    if (failed(made)) {
      return signalPassFailure();
    }
    if (made->arenaBytes > memoryBudget) {
      module.emitError() << "expected a memory-budget of at least " << made->arenaBytes
                         << " bytes, found " << int64_t(memoryBudget);
      signalPassFailure();
    }
  }
};

} // namespace
