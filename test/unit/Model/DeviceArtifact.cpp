// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "DeviceArtifact.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Target/CPU/Object/Object.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace sluice;

static Targets listTargets(const test::LoweringRequest &request) {
  Targets targets;
  for (const std::string &name : request.targets) {
    if (name == cpu::Target::avx2().name) {
      targets.cpus.push_back(&cpu::Target::avx2());
    }
    for (const cuda::Target *target : {&cuda::Target::sm80(), &cuda::Target::sm90a()}) {
      if (name == target->chip) {
        targets.gpus.push_back(target);
      }
    }
  }
  return targets;
}

static void loadDialects(MLIRContext &context) {
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, plan::PlanDialect,
                      affine::AffineDialect, arith::ArithDialect, func::FuncDialect,
                      math::MathDialect, tensor::TensorDialect>();
}

static void injectFaults(const test::LoweringRequest &request, KernelSet &kernels) {
  KernelRecord &first = kernels.records.front();
  for (KernelRecord::Operand &operand : first.operands) {
    operand.bytes -= request.claimsLess && operand.written ? 64 : 0;
  }
  for (KernelRecord::DeviceVariant &variant : first.deviceVariants) {
    variant.workspaceBytes = request.workspaceBytes;
    variant.counters = request.counters;
  }
}

std::string test::lowerToArtifact(const LoweringRequest &request) {
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(request.text, &context);
  if (!module) {
    return "the module does not parse";
  }
  PassManager passes(&context);
  passes.addPass(createSeparatePlaces());
  if (failed(passes.run(*module))) {
    return "places cannot be separated";
  }
  Targets targets = listTargets(request);
  std::string message;
  FailureOr<KernelSet> kernels = generateKernels(*module, targets, message);
  if (failed(kernels)) {
    return message.empty() ? "no kernels" : message;
  }
  injectFaults(request, *kernels);
  FailureOr<MemoryPlan> memory =
      planMemory(*module, kernels->workspaceBytes(), kernels->counterBytes());
  if (failed(memory)) {
    return "no memory plan";
  }
  emitPlan(*module, *kernels, *memory);
  SmallVector<cpu::ObjectRequest> requests;
  for (size_t i = 0; i < targets.cpus.size(); ++i) {
    requests.push_back({*kernels->modules[i], targets.cpus[i]});
  }
  std::vector<std::string> objects;
  llvm::Expected<KernelCacheSetting> setting = findKernelCache("");
  if (!setting) {
    return llvm::toString(setting.takeError());
  }
  KernelCache cache(setting->folder, setting->mostBytes);
  FailureOr<std::vector<Blob>> blobs = lowerDeviceKernels(*kernels, cache);
  if (failed(blobs) || failed(cpu::lowerToObjects(requests, objects, cache))) {
    return "kernels do not compile";
  }
  std::string plan;
  llvm::raw_string_ostream(plan) << planToJson(*module, *kernels, *memory, {"{}"},
                                               {"proved", {"eval"}}, targets);
  llvm::Expected<std::string> artifact =
      linkArtifact(plan, makeConstants(*module, *memory), objects, *blobs);
  if (!artifact) {
    return llvm::toString(artifact.takeError());
  }
  std::error_code code;
  llvm::raw_fd_ostream(request.path, code) << *artifact;
  return code ? code.message() : "";
}

/// Returns `text` after the passes that `add` adds; empty if one fails.
static std::string runPasses(const std::string &text, void (*add)(PassManager &)) {
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  PassManager passes(&context);
  add(passes);
  std::string result;
  if (module && succeeded(passes.run(*module))) {
    llvm::raw_string_ostream(result) << *module;
  }
  return result;
}

std::string test::lowerGradient(const std::string &text) {
  return runPasses(text, [](PassManager &passes) {
    passes.addPass(createFormDispatches());
    passes.addPass(createBuildEntries());
  });
}

std::string test::runUpstreamPasses(const std::string &text) {
  return runPasses(text, [](PassManager &passes) {
    for (int round = 0; round < 2; ++round) {
      passes.addPass(createCanonicalizerPass());
      passes.addPass(createCSEPass());
      passes.addPass(createSymbolDCEPass());
    }
  });
}
