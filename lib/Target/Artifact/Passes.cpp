// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that generate kernels and launches for one target, as the driver does for a whole
// artifact.
#include "sluice/Target/Passes.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Rejection.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Transforms/Levels.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
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

static FailureOr<Targets> getTargets(ModuleOp module, ArrayRef<std::string> names,
                                     int64_t l2Bytes) {
  Targets targets;
  if (l2Bytes < 0) {
    return module.emitError() << "expected an l2-bytes of 0 or more, found " << l2Bytes;
  }
  targets.l2Bytes = l2Bytes;
  if (names.empty()) {
    addTarget("cpu-avx2", targets);
  }
  for (const std::string &name : names) {
    if (!addTarget(name, targets)) {
      return module.emitError() << "expected a target (" << targetNames << "), found '" << name
                                << "'";
    }
  }
  return targets;
}

/// Generates the kernels of a module; fails with a diagnostic.
static FailureOr<KernelSet> generate(ModuleOp module, ArrayRef<std::string> names,
                                     int64_t l2Bytes) {
  FailureOr<Targets> targets = getTargets(module, names, l2Bytes);
  if (failed(targets)) {
    return failure();
  }
  bool hasContext = hasFact<SluiceDialect::ContextAttrHelper>(module);
  if (!targets->gpus.empty() && !(hasContext && hasFact<SluiceDialect::BatchAttrHelper>(module))) {
    return module.emitError() << "expected the module attribute "
                              << (hasContext ? SluiceDialect::BatchAttrHelper::getNameStr()
                                             : SluiceDialect::ContextAttrHelper::getNameStr())
                              << ", an i64 that a GPU's products are known by, found none";
  }
  if (failed(verifyLevel(module, ModuleLevel::Dispatches))) {
    return failure();
  }
  std::string unsupported;
  FailureOr<KernelSet> kernels = generateKernels(module, *targets, unsupported);
  if (failed(kernels) && !unsupported.empty()) {
    return emitRejection(module, unsupported, unsupported);
  }
  return kernels;
}

/// Returns the kernels that an earlier pass has cached, or generates them; null with a diagnostic.
static KernelSet *getKernels(KernelAnalysis &kernels, MemoryAnalysis &memory, ModuleOp module,
                             ArrayRef<std::string> names, int64_t l2Bytes) {
  if (!kernels.set) {
    FailureOr<KernelSet> generated = generate(module, names, l2Bytes);
    if (failed(generated)) {
      return nullptr;
    }
    kernels.set = std::move(*generated);
    memory.workspaceBytes = kernels.set->workspaceBytes();
    memory.counterBytes = kernels.set->counterBytes();
    memory.plan.reset(); // planned without workspaces
  }
  return &*kernels.set;
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
    KernelSet *kernels = getKernels(getAnalysis<KernelAnalysis>(), getAnalysis<MemoryAnalysis>(),
                                    module, *targets, l2Bytes);
    if (!kernels) {
      return signalPassFailure();
    }
    if (keepDispatches) {
      return markAllAnalysesPreserved();
    }
    eraseFunctions(module);
    for (auto *made : {&kernels->modules, &kernels->deviceModules}) {
      for (OwningOpRef<ModuleOp> &generated : *made) {
        append(*generated, module);
      }
    }
  }

private:
  /// Moves the ops of `from` to the end of `to`. A kernel is named by the hash of its contents, so
  /// a kernel with an existing name is dropped, with its private symbols. Other private symbols are
  /// renamed if their name is taken.
  static void append(ModuleOp from, ModuleOp to) {
    SymbolTable known(to), own(from);
    for (Operation &op : llvm::make_early_inc_range(*from.getBody())) {
      auto symbol = dyn_cast<SymbolOpInterface>(op);
      if (symbol && !symbol.isPrivate() && known.lookup(symbol.getNameAttr())) {
        op.erase();
      }
    }
    for (Operation &op : llvm::make_early_inc_range(*from.getBody())) {
      auto symbol = dyn_cast<SymbolOpInterface>(op);
      if (symbol && symbol.isPrivate() && known.lookup(symbol.getNameAttr())) {
        if (SymbolTable::symbolKnownUseEmpty(symbol, from)) {
          op.erase();
          continue;
        }
        (void)own.renameToUnique(&op, {&known});
      }
      op.moveBefore(to.getBody(), to.getBody()->end());
    }
  }
};

struct EmitPlanPass : sluice::impl::EmitPlanBase<EmitPlanPass> {
  using EmitPlanBase::EmitPlanBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto &memory = getAnalysis<MemoryAnalysis>();
    KernelSet *kernels =
        getKernels(getAnalysis<KernelAnalysis>(), memory, module, *targets, l2Bytes);
    if (!kernels) {
      return signalPassFailure();
    }
    if (!memory.plan) {
      FailureOr<MemoryPlan> plan = planMemory(module, memory.workspaceBytes, memory.counterBytes);
      if (failed(plan)) {
        return signalPassFailure();
      }
      memory.plan = std::move(*plan);
    }
    emitPlan(module, *kernels, *memory.plan);
    if (!keepFunctions) {
      eraseFunctions(module);
    }
    markAllAnalysesPreserved();
  }
};

struct RecomputePass : sluice::impl::RecomputeBase<RecomputePass> {
  using RecomputeBase::RecomputeBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto &analysis = getAnalysis<KernelAnalysis>();
    KernelSet *kernels =
        getKernels(analysis, getAnalysis<MemoryAnalysis>(), module, *targets, l2Bytes);
    if (!kernels) {
      return signalPassFailure();
    }
    FailureOr<Recomputation> made = recomputeWithin(module, *kernels, memoryBudget);
    if (failed(made)) {
      return signalPassFailure();
    }
    if (made->arenaBytes > memoryBudget && !allowExcess) {
      module.emitError() << "expected a memory-budget of at least " << made->arenaBytes
                         << " bytes, found " << int64_t(memoryBudget);
      return signalPassFailure();
    }
    analysis.recomputation = std::move(*made);
    markAllAnalysesPreserved();
  }
};

} // namespace
