// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Compiles kernels to native object code: MLIR to the LLVM dialect, to LLVM IR, to an object in
// memory.
#include "sluice/Target/CPU/Object/Object.h"
#include "Lower.h"
#include "Optimize.h"
#include "sluice/Target/CPU/Object/SharedBodies.h"

#include "sluice/Support/WorkBudget.h"

#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <map>
#include <mutex>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

void cpu::initializeBackend() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
  });
}

static std::unique_ptr<llvm::TargetMachine> makeMachine(ModuleOp module, const Target &target) {
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    module.emitError("expected an LLVM with the x86-64 backend, found: ")
        << error << "; install one that has it";
    return nullptr;
  }
  llvm::TargetOptions options;
  // A multiply and an add are fused only where the kernel has an fma. Strict would split
  // vector.fma, which is lowered to fmuladd; Standard fuses only that.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Default));
}

/// A kernel may refer only to the three external functions that the artifact's format allows.
static LogicalResult checkSymbols(ModuleOp module, StringRef bytes) {
  llvm::MemoryBufferRef buffer(bytes, "kernels");
  auto object = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!object) {
    return module.emitError("object of kernels cannot be read: ")
           << llvm::toString(object.takeError());
  }
  for (const llvm::object::SymbolRef &symbol : (*object)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) {
      llvm::consumeError(flags.takeError());
      llvm::consumeError(name.takeError());
      return module.emitError("object of kernels has a symbol that cannot be read");
    }
    bool undefined = *flags & llvm::object::SymbolRef::SF_Undefined;
    if (undefined && !name->empty() && *name != "memcpy" && *name != "memset" &&
        *name != "memmove") {
      return module.emitError("expected kernels that call no library, found a call of '")
             << *name << "'; the operation that became this call has no expansion for its type";
    }
  }
  return success();
}

static void setAttributes(llvm::Module &module, const Target &target) {
  for (llvm::Function &function : module) {
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", target.cpu);
      function.addFnAttr("target-features", target.features);
      function.addFnAttr("prefer-vector-width", target.lanes == 16 ? "512" : "256");
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  }
}

namespace {

/// Code generators by target's name, each of which one thread uses at a time. Making one with its
/// tables takes as long as a small kernel.
class MachinePool {
public:
  using Machine = std::unique_ptr<llvm::TargetMachine>;

  /// Returns an idle machine, or a new one; null after an error.
  Machine take(ModuleOp module, const Target &target) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      std::vector<Machine> &machines = idle[target.name];
      if (!machines.empty()) {
        Machine machine = std::move(machines.back());
        machines.pop_back();
        return machine;
      }
    }
    return makeMachine(module, target);
  }

  void giveBack(const Target &target, Machine machine) {
    std::lock_guard<std::mutex> lock(mutex);
    idle[target.name].push_back(std::move(machine));
  }

private:
  std::mutex mutex;
  std::map<StringRef, std::vector<Machine>> idle;
};

} // namespace

/// Lowers a module of kernels to an object, through the LLVM dialect; consumes the module.
static LogicalResult emitObject(ModuleOp module, const Target &target,
                                const LLVMDialectLowering &lowering, MachinePool &machines,
                                std::string &object) {
  if (failed(lowering.run(module))) {
    return failure();
  }
  MachinePool::Machine machine = machines.take(module, target);
  if (!machine) {
    return failure();
  }
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(module, context, "kernels");
  if (!translated) {
    return module.emitError("kernels could not be translated to LLVM IR");
  }
  translated->setTargetTriple(machine->getTargetTriple());
  translated->setDataLayout(machine->createDataLayout());
  setAttributes(*translated, target);
  optimize(*translated, *machine);
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager emission;
  if (machine->addPassesToEmitFile(emission, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    return module.emitError("expected a backend that writes object files, found one that does not");
  }
  emission.run(*translated);
  machines.giveBack(target, std::move(machine));
  if (failed(checkSymbols(module, bytes))) {
    return failure();
  }
  object.assign(bytes.begin(), bytes.end());
  return success();
}

namespace {

/// A kernel that becomes an object, or several kernels with a shared body. Its bytes depend neither
/// on the cache's entries for other kernels nor on the number of threads.
struct ObjectJob {
  SmallVector<func::FuncOp> functions{};
  const Target *target = nullptr;
  KernelKey key{};
  int64_t operations = 0;
  std::string object{};
};

} // namespace

/// Describes the properties of a target that lowering depends on.
static std::string describe(const Target &target) {
  return llvm::join_items(' ', target.name, target.cpu, target.features,
                          std::to_string(target.lanes));
}

static KernelKey computeKey(const ObjectJob &job) {
  std::string keys;
  for (func::FuncOp function : job.functions) {
    keys += toHex(computeKernelKey(function, describe(*job.target)));
  }
  return sha256({reinterpret_cast<const uint8_t *>(keys.data()), keys.size()});
}

/// Reads objects from the cache. Returns the jobs that are not cached, the longest first, because
/// the last to start should be short.
static std::vector<ObjectJob *> readCached(std::vector<ObjectJob> &jobs, KernelCache &cache) {
  std::vector<ObjectJob *> missing;
  for (ObjectJob &job : jobs) {
    job.key = computeKey(job);
    if (std::optional<std::string> cached = cache.load(job.key)) {
      job.object = std::move(*cached);
      continue;
    }
    for (func::FuncOp function : job.functions) {
      function.walk([&](Operation *) { ++job.operations; });
    }
    missing.push_back(&job);
  }
  llvm::sort(missing, [](ObjectJob *a, ObjectJob *b) {
    return std::pair(-a->operations, a) < std::pair(-b->operations, b); // jobs are in one vector
  });
  return missing;
}

/// Appends a module's functions as jobs; functions that call a shared body are in one job with it.
static void addJobs(ModuleOp module, const Target *target, std::vector<ObjectJob> &jobs) {
  llvm::MapVector<StringRef, ObjectJob> units;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto calls = function.getOps<func::CallOp>();
    ObjectJob &job = units[calls.empty() ? function.getName() : (*calls.begin()).getCallee()];
    job.functions.push_back(function);
    job.target = target;
  }
  for (auto &[name, job] : units) {
    jobs.push_back(std::move(job));
  }
}

LogicalResult cpu::lowerToObjects(ArrayRef<ObjectRequest> requests,
                                  std::vector<std::string> &objects, KernelCache &cache,
                                  llvm::function_ref<void(size_t, size_t)> report) {
  std::vector<OwningOpRef<ModuleOp>> modules;
  std::vector<ObjectJob> jobs;
  for (const ObjectRequest &request : requests) {
    modules.emplace_back(ModuleOp(request.module).clone());
    shareBodies(*modules.back());
    addJobs(*modules.back(), request.target, jobs);
  }
  std::vector<ObjectJob *> missing = readCached(jobs, cache);
  if (!missing.empty()) {
    MLIRContext *context = modules.front()->getContext();
    loadLoweringDialects(*context);
    initializeBackend();
    LLVMDialectLowering lowering(*context);
    CodeGeneratorSwitches scope;
    MachinePool machines;
    std::mutex mutex; // protects `report`
    size_t done = 0;
    const std::atomic<bool> *cancellation = getCancellation();
    auto lower = [&](ObjectJob *job) {
      if (cancellation && *cancellation) {
        return failure();
      }
      OwningOpRef<ModuleOp> module(ModuleOp::create(job->functions.front().getLoc()));
      for (func::FuncOp function : job->functions) {
        module->push_back(function.clone());
      }
      if (failed(emitObject(*module, *job->target, lowering, machines, job->object))) {
        return failure();
      }
      cache.store(job->key, job->object);
      std::lock_guard<std::mutex> lock(mutex);
      if (report) {
        report(++done, missing.size());
      }
      return success();
    };
    if (failed(failableParallelForEach(context, missing, lower))) {
      return failure();
    }
    cache.trim();
  }
  for (ObjectJob &job : jobs) {
    objects.push_back(std::move(job.object));
  }
  return success();
}

LogicalResult cpu::lowerToObject(ModuleOp module, const Target &target, std::string &object) {
  loadLoweringDialects(*module.getContext());
  initializeBackend();
  CodeGeneratorSwitches scope;
  OwningOpRef<ModuleOp> copy(module.clone());
  MachinePool machines;
  return emitObject(*copy, target, LLVMDialectLowering(*module.getContext()), machines, object);
}
