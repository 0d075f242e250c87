// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates the GPU kernels of a module's dispatches: once, or once per target if the target
// affects the split of work. Each has its own module, so that DeviceCode.cpp compiles on all
// threads and the emulator translates only the kernels that it runs.
#include "DeviceKernels.h"

#include "sluice/Target/CUDA/Chip.h"
#include "sluice/Target/CUDA/Generate.h"
#include "sluice/Target/Cache/KernelKey.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace sluice;

static constexpr llvm::StringLiteral initialName = "kernel";

/// Returns "spec.json:7:5: " if the location has a file position, else "".
static std::string formatLocation(Location location) {
  auto place = location->findInstanceOf<FileLineColLoc>();
  return place ? (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" +
                  Twine(place.getColumn()) + ": ")
                     .str()
               : "";
}

/// Returns the generator's message without the verifier's prefix, or else a message that there is
/// no kernel.
static std::string explain(Operation *dispatch, ArrayRef<const cuda::Target *> targets,
                           StringRef said) {
  std::string name = dispatch->getName().stripDialect().str();
  size_t prefix = said.find("' op ");
  StringRef reason = prefix == StringRef::npos ? said : said.drop_front(prefix + 5);
  bool hasRemedy = reason.contains(';');
  return formatLocation(dispatch->getLoc()) + "--target " + targets.front()->chip.str() + ": " +
         (reason.empty()
              ? "expected operations that have a GPU kernel, found '" + name + "', which has none"
              : "the GPU kernel of '" + name + "': " + reason.str()) +
         (hasRemedy ? "" : "; leave out the GPU targets");
}

/// Renames the functions of a generated kernel, "kernel" and "kernel_STAGE", by the contents of
/// their module: KIND_HASH and KIND_HASH_STAGE. The code of a kernel includes its names, so it is
/// the same in every artifact.
static void nameByContents(const cuda::Kernel &kernel, ModuleOp module) {
  std::string symbol = llvm::join_items('_', kernel.kind, toShortHash(hashModule(module)));
  DenseSet<Operation *> named; // a stage may be launched again
  for (const cuda::KernelStage &stage : kernel.stages) {
    func::FuncOp function = stage.function;
    if (!named.insert(function).second) {
      continue;
    }
    function.setName(symbol + function.getName().drop_front(initialName.size()).str());
  }
}

/// Adds a variant for each of `targets`, which share one kernel.
static LogicalResult generateFor(Operation *dispatch, size_t number,
                                 ArrayRef<const cuda::Target *> targets, KernelSet &set,
                                 KernelRecord &record, std::string &unsupported) {
  std::string said;
  FailureOr<cuda::Kernel> kernel = failure();
  OwningOpRef<ModuleOp> module(ModuleOp::create(dispatch->getLoc()));
  cuda::setTarget(*module, *targets.front());
  {
    ScopedDiagnosticHandler handler(dispatch->getContext(), [&](Diagnostic &diagnostic) {
      said = said.empty() ? diagnostic.str() : said;
      return success();
    });
    kernel = cuda::generateKernel(dispatch, *module, initialName);
  }
  if (failed(kernel)) {
    unsupported = explain(dispatch, targets, said);
    return failure();
  }
  nameByContents(*kernel, *module);
  if (record.variants.empty() && record.deviceVariants.empty()) { // otherwise the counts are equal
    record.kind = kernel->kind.str();
    record.flops = kernel->flops;
    record.bytes = kernel->bytes;
  }
  for (const cuda::Target *target : targets) {
    KernelRecord::DeviceVariant variant{target,
                                        set.deviceModules.size(),
                                        ("k" + llvm::Twine(number) + "_" + target->chip).str(),
                                        {},
                                        kernel->workspaceBytes,
                                        kernel->counters,
                                        kernel->bytes + kernel->rereadBytes +
                                            2 * double(kernel->workspaceBytes)};
    for (cuda::KernelStage &stage : kernel->stages) {
      variant.stages.push_back({stage.function.getSymName().str(), stage.blocks, stage.threads,
                                stage.sharedBytes, std::nullopt});
    }
    record.deviceVariants.push_back(std::move(variant));
  }
  set.deviceModules.push_back(std::move(module));
  return success();
}

LogicalResult sluice::generateForDevices(Operation *dispatch, size_t number,
                                         ArrayRef<const cuda::Target *> targets, KernelSet &set,
                                         KernelRecord &record, std::string &unsupported) {
  if (targets.empty()) {
    return success();
  }
  dispatch->getContext()->loadDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
  size_t together = cuda::dependsOnTarget(dispatch) ? 1 : targets.size();
  for (size_t i = 0; i < targets.size(); i += together) {
    if (failed(
            generateFor(dispatch, number, targets.slice(i, together), set, record, unsupported))) {
      return failure();
    }
  }
  return success();
}
