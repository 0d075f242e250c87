// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles generated GPU kernels to the code that an artifact stores. Two steps, each with its own
// entry in the kernel cache: LLVM compiles IR to bitcode and PTX, and ptxas assembles PTX to a
// cubin. An updated compiler that prints the same PTX finds its cubins in the cache.
#include "sluice/Support/WorkBudget.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Target/CUDA/PTX/Assemble.h"
#include "sluice/Target/CUDA/PTX/Ptxas.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace sluice;

namespace {

/// A variant of a kernel and the code of its module.
struct DeviceJob {
  KernelRecord::DeviceVariant *variant;
  KernelKey key = {}; ///< key of bitcode and PTX
  bool isCached = false;
  std::string bitcode = {}, ptx = {};
  std::optional<cuda::Binary> binary = std::nullopt;
  std::string error = {};
};

} // namespace

static std::string writeBitcode(const llvm::Module &module) {
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::WriteBitcodeToFile(module, stream);
  return bytes.str().str();
}

/// Loads bitcode and PTX of a module with this hash from the cache.
static void load(DeviceJob &job, const Sha256 &hash, KernelCache &cache) {
  const cuda::Target &target = *job.variant->target;
  job.key =
      computeModuleKey(hash, llvm::join_items(' ', target.name, target.chip, target.features));
  if (auto parts = cache.loadParts(job.key, 2)) {
    job.bitcode = std::move((*parts)[0]);
    job.ptx = std::move((*parts)[1]);
    job.isCached = true;
  }
}

/// Optimizes `source`, bitcode of a lowered module, and prints it as PTX.
static llvm::Error print(StringRef source, DeviceJob &job, KernelCache &cache) {
  const cuda::Target &target = *job.variant->target;
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(source, "kernels"), context);
  if (!module) {
    return module.takeError();
  }
  if (llvm::Error error = cuda::prepare(**module, target)) {
    return error;
  }
  job.bitcode = writeBitcode(**module); // before the backend modifies it
  auto ptx = cuda::printPTX(**module, target);
  if (!ptx) {
    return ptx.takeError();
  }
  job.ptx = std::move(*ptx);
  cache.storeParts(job.key, {job.bitcode, job.ptx});
  return llvm::Error::success();
}

static llvm::Error compile(StringRef source, const std::optional<cuda::Ptxas> &ptxas,
                           DeviceJob &job, KernelCache &cache) {
  if (!job.isCached) {
    if (llvm::Error error = print(source, job, cache)) {
      return error;
    }
  }
  if (!ptxas) {
    return llvm::Error::success();
  }
  auto binary = cuda::assemble(job.ptx, *job.variant->target, *ptxas, cache);
  if (!binary) {
    return binary.takeError();
  }
  job.binary = std::move(*binary);
  return llvm::Error::success();
}

static void record(DeviceJob &job, std::vector<Blob> &blobs) {
  KernelRecord::DeviceVariant &variant = *job.variant;
  blobs.push_back({variant.module + "_bitcode", std::move(job.bitcode)});
  blobs.push_back({variant.module + "_ptx", std::move(job.ptx)});
  if (!job.binary) {
    return;
  }
  blobs.push_back({variant.module + "_cubin", std::move(job.binary->cubin)});
  for (KernelRecord::StageRecord &stage : variant.stages) {
    for (const cuda::Usage &usage : job.binary->usage) {
      if (usage.kernel == stage.symbol) {
        stage.usage = usage;
      }
    }
  }
}

/// Lowers the modules of jobs without cached code to bitcode before LLVM's optimizations, by module
/// number. Sequential, because MLIR's passes may add to the context.
static LogicalResult lower(KernelSet &kernels, ArrayRef<DeviceJob> jobs,
                           std::vector<std::string> &sources) {
  sources.resize(kernels.deviceModules.size());
  for (const DeviceJob &job : jobs) {
    std::string &source = sources[job.variant->source];
    if (job.isCached || !source.empty()) {
      continue;
    }
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> lowered =
        cuda::lowerToLLVM(*kernels.deviceModules[job.variant->source], context);
    if (!lowered) {
      return failure();
    }
    source = writeBitcode(*lowered);
  }
  return success();
}

FailureOr<std::vector<Blob>> sluice::lowerDeviceKernels(KernelSet &kernels, KernelCache &cache) {
  std::vector<DeviceJob> jobs;
  for (KernelRecord &record : kernels.records) {
    for (KernelRecord::DeviceVariant &variant : record.deviceVariants) {
      jobs.push_back({&variant});
    }
  }
  std::vector<Blob> blobs;
  if (jobs.empty()) {
    return blobs;
  }
  std::vector<Sha256> hashes;
  for (OwningOpRef<ModuleOp> &module : kernels.deviceModules) {
    hashes.push_back(hashModule(*module));
  }
  for (DeviceJob &job : jobs) {
    load(job, hashes[job.variant->source], cache);
  }
  std::vector<std::string> sources;
  if (failed(lower(kernels, jobs, sources))) {
    return failure();
  }
  // Runs the backend and ptxas, which take most of the time, on all threads.
  std::optional<cuda::Ptxas> ptxas = cuda::findPtxas();
  MLIRContext *context = kernels.deviceModules.front()->getContext();
  const std::atomic<bool> *cancellation = getCancellation();
  parallelFor(context, 0, jobs.size(), [&](size_t i) {
    DeviceJob &job = jobs[i];
    if (cancellation && *cancellation) {
      job.error = "cancelled";
      return;
    }
    job.error = llvm::toString(compile(sources[job.variant->source], ptxas, job, cache));
  });
  cache.trim();
  for (DeviceJob &job : jobs) {
    if (!job.error.empty()) {
      kernels.deviceModules[job.variant->source]->emitError(job.variant->module + ": " + job.error);
      return failure();
    }
    record(job, blobs);
  }
  for (auto [i, record] : llvm::enumerate(kernels.records)) {
    blobs.push_back({"k" + std::to_string(i) + "_dispatch", record.dispatch});
  }
  return blobs;
}
