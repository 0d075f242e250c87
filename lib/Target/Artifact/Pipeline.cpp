// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of passes from model IR to the plan.
#include "sluice/Target/Artifact/Pipeline.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Target/Passes.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Runs the callback after the pass of a name.
struct CallbackPass : PassWrapper<CallbackPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CallbackPass)
  CallbackPass(StringRef name, PipelineCallback callback)
      : name(name), callback(std::move(callback)) {}

  void runOnOperation() override {
    if (failed(callback(name, getOperation(), getAnalysisManager()))) {
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }

  std::string name;
  PipelineCallback callback;
};

/// Adds passes, each followed by the callback.
class PipelineBuilder {
public:
  PipelineBuilder(OpPassManager &manager, const PipelineCallback &callback)
      : manager(manager), callback(callback) {}

  void add(std::unique_ptr<Pass> pass) {
    std::string name = pass->getArgument().str();
    manager.addPass(std::move(pass));
    notify(name);
  }
  void notify(StringRef name) {
    if (callback) {
      manager.addPass(std::make_unique<CallbackPass>(name, callback));
    }
  }

private:
  OpPassManager &manager;
  const PipelineCallback &callback;
};

Targets getTargets(const PipelineOptions &options) {
  Targets targets;
  for (const std::string &name : options.targets) {
    addTarget(name, targets); // passes report an unknown name
  }
  if (options.targets.empty()) {
    addTarget("cpu-avx2", targets);
  }
  return targets;
}

SmallVector<std::string> getTargetNames(const PipelineOptions &options) {
  return llvm::to_vector(options.targets);
}

} // namespace

std::optional<Stage> sluice::getStage(StringRef name) {
  return llvm::StringSwitch<std::optional<Stage>>(name)
      .Case("model", Stage::Model)
      .Case("step", Stage::Step)
      .Case("gradient", Stage::Gradient)
      .Case("dispatches", Stage::Dispatches)
      .Case("kernels", Stage::Kernels)
      .Case("plan", Stage::Plan)
      .Default(std::nullopt);
}

void sluice::buildDispatchPipeline(OpPassManager &manager, const PipelineOptions &options,
                                   const PipelineCallback &callback) {
  PipelineBuilder pipeline(manager, callback);
  if (options.emit == Stage::Model) {
    return;
  }
  pipeline.notify("");
  // Both rewrite forward ops, so they precede the derivation of the step and the gradient.
  pipeline.add(createExpandSoftTargets());
  pipeline.add(createConvertFactors());
  if (options.emit == Stage::Step) {
    pipeline.add(createDeriveStep({options.operations, /*isOptional=*/false, /*isOnly=*/true}));
    return;
  }
  pipeline.add(createDifferentiate({options.hasGradient}));
  if (options.emit == Stage::Gradient) {
    return;
  }
  if (options.hasStep) {
    pipeline.add(createDeriveStep({options.operations, /*isOptional=*/true, /*isOnly=*/false}));
  }
  Targets targets = getTargets(options);
  pipeline.add(createFormDispatches({options.generationRows, /*keysApart=*/targets.gpus.empty(),
                                     targets.mostSumParts(), options.keepMaps}));
  if (!options.weights.empty()) {
    pipeline.add(createQuantizeWeights({options.weights}));
  }
  pipeline.add(createBuildEntries());
  pipeline.add(createSeparatePlaces());
}

void sluice::buildCompilePipeline(OpPassManager &manager, const PipelineOptions &options,
                                  const PipelineCallback &callback) {
  buildDispatchPipeline(manager, options, callback);
  bool hasBudget = options.memoryBudget > 0;
  if (options.emit < Stage::Dispatches || (options.emit == Stage::Dispatches && !hasBudget)) {
    return;
  }
  PipelineBuilder pipeline(manager, callback);
  SmallVector<std::string> targets = getTargetNames(options);
  GenerateKernelsOptions generate;
  generate.targets = targets;
  generate.l2Bytes = options.l2Bytes;
  generate.keepDispatches = true;
  pipeline.add(createGenerateKernels(generate));
  if (hasBudget) {
    // Dispatches are repeated according to the cost and the workspaces of their kernels.
    RecomputeOptions recompute;
    recompute.targets = targets;
    recompute.l2Bytes = options.l2Bytes;
    recompute.memoryBudget = options.memoryBudget;
    recompute.allowExcess = bool(callback);
    pipeline.add(createRecompute(recompute));
  }
  if (options.emit == Stage::Dispatches) {
    return;
  }
  if (options.emit == Stage::Kernels) {
    generate.keepDispatches = false;
    manager.addPass(createGenerateKernels(generate));
    return;
  }
  pipeline.add(createPlanMemory({/*hasBuckets=*/true}));
  EmitPlanOptions emit;
  emit.targets = targets;
  emit.l2Bytes = options.l2Bytes;
  emit.keepFunctions = options.keepFunctions;
  pipeline.add(createEmitPlan(emit));
}

void sluice::registerSluicePipelines() {
  PassPipelineRegistration<PipelineOptions>(
      "sluice-compile-model",
      "Compiles model IR to the plan, or to an earlier stage, as `sluice compile --emit` does",
      [](OpPassManager &manager, const PipelineOptions &options) {
        buildCompilePipeline(manager, options);
      });
}
