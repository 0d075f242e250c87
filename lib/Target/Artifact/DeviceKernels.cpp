// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPU kernels of a module's dispatches: generated once, or once a target where that decides how
// work is split, and compiled for every target, a module each, so that compiling goes on all
// threads and the emulator translates only what it runs.
#include "DeviceKernels.h"

#include "sluice/Target/CUDA/Chip.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Threading.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Generation
//===----------------------------------------------------------------------===//

/// "spec.json:7:5: " where the location says so, else "".
static std::string placeOf(Location location) {
  auto place = location->findInstanceOf<FileLineColLoc>();
  return place ? (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" +
                  Twine(place.getColumn()) + ": ")
                     .str()
               : "";
}

/// What the generator said, without the verifier's prefix, or else that there is no kernel.
static std::string explain(Operation *dispatch, ArrayRef<const cuda::Target *> targets,
                           StringRef said) {
  std::string name = dispatch->getName().stripDialect().str();
  size_t prefix = said.find("' op ");
  StringRef reason = prefix == StringRef::npos ? said : said.drop_front(prefix + 5);
  bool hasRemedy = reason.contains(';');
  return placeOf(dispatch->getLoc()) + "--target " + targets.front()->chip.str() + ": " +
         (reason.empty()
              ? "expected operations that have a GPU kernel, found '" + name + "', which has none"
              : "the GPU kernel of '" + name + "': " + reason.str()) +
         (hasRemedy ? "" : "; leave out the GPU targets");
}

/// A variant for each of `targets`, which share one kernel.
static LogicalResult generateFor(Operation *dispatch, size_t number,
                                 ArrayRef<const cuda::Target *> targets, KernelSet &set,
                                 KernelRecord &record, std::string &unsupported) {
  std::string said;
  FailureOr<cuda::Kernel> kernel = failure();
  OwningOpRef<ModuleOp> module(ModuleOp::create(dispatch->getLoc()));
  cuda::setTarget(*module, *targets.front());
  std::string symbol = "k" + std::to_string(number);
  {
    ScopedDiagnosticHandler handler(dispatch->getContext(), [&](Diagnostic &diagnostic) {
      said = said.empty() ? diagnostic.str() : said;
      return success();
    });
    kernel = cuda::generateKernel(dispatch, *module, symbol);
  }
  if (failed(kernel)) {
    unsupported = explain(dispatch, targets, said);
    return failure();
  }
  if (record.variants.empty() && record.deviceVariants.empty()) { // else the same counts
    record.kind = kernel->kind.str();
    record.flops = kernel->flops;
    record.bytes = kernel->bytes;
  }
  for (const cuda::Target *target : targets) {
    KernelRecord::DeviceVariant variant{target,
                                        set.deviceModules.size(),
                                        symbol + "_" + target->chip.str(),
                                        {},
                                        kernel->workspaceBytes,
                                        kernel->counters,
                                        kernel->bytes + kernel->rereadBytes +
                                            2 * double(kernel->workspaceBytes)};
    for (cuda::Stage &stage : kernel->stages) {
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

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

static std::string bitcodeOf(const llvm::Module &module) {
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::WriteBitcodeToFile(module, stream);
  return bytes.str().str();
}

/// What one module became for one target.
namespace {
struct DeviceCode {
  std::string bitcode, ptx;
  std::optional<cuda::Binary> binary;
};
} // namespace

static llvm::Error compile(StringRef source, const cuda::Target &target, DeviceCode &code) {
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(source, "kernels"), context);
  if (!module) {
    return module.takeError();
  }
  if (llvm::Error error = cuda::prepare(**module, target)) {
    return error;
  }
  code.bitcode = bitcodeOf(**module); // before the backend works on it
  auto ptx = cuda::printPTX(**module, target);
  if (!ptx) {
    return ptx.takeError();
  }
  code.ptx = std::move(*ptx);
  auto binary = cuda::assemble(code.ptx, target);
  if (!binary) {
    return binary.takeError();
  }
  code.binary = std::move(*binary);
  return llvm::Error::success();
}

static void record(const DeviceCode &code, KernelRecord::DeviceVariant &variant,
                   std::vector<Blob> &blobs) {
  blobs.push_back({variant.module + "_bitcode", code.bitcode});
  blobs.push_back({variant.module + "_ptx", code.ptx});
  if (!code.binary) {
    return;
  }
  blobs.push_back({variant.module + "_cubin", code.binary->cubin});
  for (KernelRecord::Stage &stage : variant.stages) {
    for (const cuda::Usage &usage : code.binary->usage) {
      if (usage.kernel == stage.symbol) {
        stage.usage = usage;
      }
    }
  }
}

FailureOr<std::vector<Blob>> sluice::lowerDeviceKernels(KernelSet &kernels) {
  struct Job {
    KernelRecord::DeviceVariant *variant;
    DeviceCode code = {};
    std::string error = {};
  };
  // MLIR's passes one module after the other: they may add to the context. The backend and ptxas,
  // which take most of the time, on all threads.
  std::vector<std::string> sources;
  for (auto &module : kernels.deviceModules) {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> lowered = cuda::lowerToLLVM(*module, context);
    if (!lowered) {
      return failure();
    }
    sources.push_back(bitcodeOf(*lowered));
  }
  std::vector<Job> jobs;
  for (KernelRecord &record : kernels.records) {
    for (KernelRecord::DeviceVariant &variant : record.deviceVariants) {
      jobs.push_back({&variant});
    }
  }
  std::vector<Blob> blobs;
  if (jobs.empty()) {
    return blobs;
  }
  MLIRContext *context = kernels.deviceModules.front()->getContext();
  parallelFor(context, 0, jobs.size(), [&](size_t i) {
    Job &job = jobs[i];
    job.error =
        llvm::toString(compile(sources[job.variant->source], *job.variant->target, job.code));
  });
  for (Job &job : jobs) {
    if (!job.error.empty()) {
      kernels.deviceModules[job.variant->source]->emitError(job.variant->module + ": " + job.error);
      return failure();
    }
    record(job.code, *job.variant, blobs);
  }
  for (auto [i, record] : llvm::enumerate(kernels.records)) {
    blobs.push_back({"k" + std::to_string(i) + "_dispatch", record.dispatch});
  }
  return blobs;
}
