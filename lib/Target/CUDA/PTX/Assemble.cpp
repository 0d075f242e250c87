// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers kernels to LLVM IR, and to PTX with LLVM's NVPTX backend.
#include "sluice/Target/CUDA/PTX/Assemble.h"
#include "Math.h"
#include "sluice/Target/Common/Math.h"
#include "sluice/Target/Common/RunPasses.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Vectorize/LoadStoreVectorizer.h"
#include <mutex>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

/// Expands elementary functions to arithmetic, since there is no device library. Functions with a
/// GPU approximation use it; the others use the same arithmetic as CPU kernels.
struct ExpandPass : PassWrapper<ExpandPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandPass)
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect, math::MathDialect, vector::VectorDialect, scf::SCFDialect,
                    LLVM::LLVMDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    cuda::populateMathExpansions(patterns);
    target::populateMathExpansions(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      signalPassFailure();
    }
  }
};

/// Translation does not attach loop annotations to LLVM branches if they are discardable
/// attributes; this pass converts them to the attributes of the branch op.
struct AnnotateLoopsPass : PassWrapper<AnnotateLoopsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AnnotateLoopsPass)
  void runOnOperation() override {
    constexpr StringRef name = "llvm.loop_annotation";
    getOperation().walk([&](LLVM::BrOp branch) {
      if (auto annotation = branch->getAttrOfType<LLVM::LoopAnnotationAttr>(name)) {
        branch.setLoopAnnotationAttr(annotation);
        branch->removeAttr(name);
      }
    });
  }
};

} // namespace

/// NVVM ops remain, because they already have LLVM types. Strided metadata of views must be
/// expanded before memref is lowered, and casts are reconciled once every dialect is lowered.
static void buildPipeline(PassManager &manager) {
  manager.addPass(std::make_unique<ExpandPass>());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  manager.addPass(memref::createExpandStridedMetadataPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(arith::createArithExpandOpsPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  manager.addPass(createConvertFuncToLLVMPass(functions));
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(std::make_unique<AnnotateLoopsPass>());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

std::unique_ptr<llvm::Module> cuda::lowerToLLVM(ModuleOp module, llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> copy(module.clone());
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // the result is verified once, not after each of the passes
  buildPipeline(manager);
  if (failed(manager.run(*copy)) || failed(verify(*copy))) {
    return nullptr;
  }
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(*copy, context, "kernels");
  if (!translated) {
    module.emitError("kernels could not be translated to LLVM IR");
  }
  return translated;
}

static std::unique_ptr<llvm::TargetMachine> makeMachine(const Target &target, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    return nullptr;
  }
  llvm::TargetOptions options;
  // Fuses a multiply and an add only where the kernel contains an fma, so that results are the same
  // on every target.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target.chip, target.features, options, llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Disables LLVM's vectorizers, as there are no vector registers. Runs the load-store vectorizer
/// that the backend would run, so the emulator counts the accesses of the shipped code.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::ModulePassManager passes =
      builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2);
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::LoadStoreVectorizerPass()));
  target::runPasses(module, builder, std::move(passes));
}

/// Prepares the module for the backend.
static llvm::Error prepareFor(llvm::Module &module, llvm::TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function &function : module) {
    if (!function.isDeclaration()) {
      function.setCallingConv(llvm::CallingConv::PTX_Kernel);
    }
  }
  optimize(module, machine);
  for (llvm::Function &function : module) {
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty()) {
      return llvm::createStringError("expected kernels that call no library, found a call of '" +
                                     function.getName() + "'");
    }
  }
  return llvm::Error::success();
}

static llvm::Error noBackend(const std::string &error) {
  return llvm::createStringError("expected an LLVM with the NVPTX backend, found: " + error);
}

llvm::Error cuda::prepare(llvm::Module &module, const Target &target) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target, error);
  return machine ? prepareFor(module, *machine) : noBackend(error);
}

llvm::Expected<std::string> cuda::printPTX(llvm::Module &prepared, const Target &target) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(target, error);
  if (!machine) {
    return noBackend(error);
  }
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream stream(ptx);
  llvm::legacy::PassManager emission;
  if (machine->addPassesToEmitFile(emission, stream, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile)) {
    return llvm::createStringError("expected a backend that prints PTX, found one that does not");
  }
  emission.run(prepared);
  return ptx.str().str();
}

llvm::Expected<std::string> cuda::emitPTX(std::unique_ptr<llvm::Module> module,
                                          const Target &target) {
  if (llvm::Error error = prepare(*module, target)) {
    return std::move(error);
  }
  return printPTX(*module, target);
}
