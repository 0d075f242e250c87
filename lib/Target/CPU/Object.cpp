// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Kernels to native object code: MLIR to the LLVM dialect, to LLVM IR, to an object in memory.
#include "Lower.h"
#include "sluice/Target/CPU/Kernel.h"

#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include <mutex>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

static void initializeBackend() {
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
  // A multiply and an add are fused only where the kernel says so. Strict would split vector.fma,
  // which is lowered to fmuladd; Standard fuses that and nothing else.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Kernels come vectorized, blocked and unrolled, without calls and with next to nothing on the
/// stack: what is left to do is addresses, invariants and the shape of loops. LLVM's whole O2 takes
/// six times as long, and a training step is within 1 % of what it is here.
static llvm::FunctionPassManager cleanups() {
  llvm::FunctionPassManager passes;
  llvm::InstCombineOptions once;
  once.setVerifyFixpoint(false);
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass(once));
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass());
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass(once));
  return passes;
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cycles;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cycles);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cycles, modules);
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(cleanups()));
  passes.run(module, modules);
}

/// A kernel may refer to the three functions that the artifact's format allows, and to nothing else
/// outside itself.
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

/// A module of kernels to an object, by way of the LLVM dialect; the module is used up.
static LogicalResult emitObject(ModuleOp module, const Target &target, std::string &object) {
  if (failed(lowerToLLVMDialect(module))) {
    return failure();
  }
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(module, target);
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
  if (failed(checkSymbols(module, bytes))) {
    return failure();
  }
  object.assign(bytes.begin(), bytes.end());
  return success();
}

namespace {

/// Some of a module's kernels, which become one object.
struct Part {
  size_t of; ///< which request
  SmallVector<func::FuncOp> kernels;
  int64_t size = 0; ///< operations
};

} // namespace

static int64_t countOperations(func::FuncOp function) {
  int64_t count = 0;
  function.walk([&](Operation *) { ++count; });
  return count;
}

/// Cuts a module's kernels into parts of about even size: the longest kernel first, each to the
/// part that is smallest by then. The cut depends on the kernels alone, never on the machine, so
/// that an artifact's bytes do not.
static void cut(ModuleOp module, size_t of, std::vector<Part> &parts) {
  constexpr int64_t wanted = 8, least = 1500; // parts; operations a part
  SmallVector<std::pair<int64_t, func::FuncOp>> kernels;
  int64_t total = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    kernels.emplace_back(countOperations(function), function);
    total += kernels.back().first;
  }
  llvm::sort(kernels, [](auto &a, auto &b) {
    return std::pair(-a.first, a.second.getName()) < std::pair(-b.first, b.second.getName());
  });
  std::vector<Part> cuts(std::clamp<int64_t>(total / least, 1, wanted), Part{of, {}, 0});
  for (auto &[size, function] : kernels) {
    auto smallest = llvm::min_element(cuts, [](auto &a, auto &b) { return a.size < b.size; });
    smallest->kernels.push_back(function);
    smallest->size += size;
  }
  llvm::append_range(parts, cuts);
}

LogicalResult cpu::lowerToObjects(ArrayRef<ObjectRequest> requests,
                                  std::vector<std::string> &objects) {
  if (requests.empty()) {
    return success();
  }
  ModuleOp first = requests.front().module;
  MLIRContext *context = first.getContext();
  loadLoweringDialects(*context);
  initializeBackend();
  std::vector<Part> parts;
  for (size_t i = 0; i < requests.size(); ++i) {
    cut(requests[i].module, i, parts);
  }
  std::vector<std::string> lowered(parts.size());
  auto lower = [&](size_t i) {
    Part &part = parts[i];
    ModuleOp source = requests[part.of].module;
    OwningOpRef<ModuleOp> module(ModuleOp::create(source.getLoc()));
    for (func::FuncOp kernel : part.kernels) {
      module->push_back(kernel.clone());
    }
    return emitObject(*module, *requests[part.of].target, lowered[i]);
  };
  if (failed(failableParallelForEachN(context, 0, parts.size(), lower))) {
    return failure();
  }
  llvm::append_range(objects, lowered);
  return success();
}

LogicalResult cpu::lowerToObject(ModuleOp module, const Target &target, std::string &object) {
  loadLoweringDialects(*module.getContext());
  initializeBackend();
  OwningOpRef<ModuleOp> copy(module.clone());
  return emitObject(*copy, target, object);
}
