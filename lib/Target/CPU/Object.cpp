// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Kernels to native object code: MLIR to the LLVM dialect, to LLVM IR, to an object in memory.
#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Target/CPU/Math.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

/// vector.reduction as a tree of halves: a fixed order, and log2(lanes) steps instead of the chain
/// of scalar operations that an ordered reduction becomes.
struct ReductionTree : OpRewritePattern<vector::ReductionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(vector::ReductionOp op, PatternRewriter &rewriter) const override {
    VectorType type = op.getSourceVectorType();
    if (type.getRank() != 1 || !llvm::isPowerOf2_64(type.getDimSize(0))) {
      return rewriter.notifyMatchFailure(op, "not a power of two of elements");
    }
    Location loc = op.getLoc();
    Value vector = op.getVector();
    for (int64_t half = type.getDimSize(0) / 2; half > 0; half /= 2) {
      SmallVector<int64_t> low(half), high(half);
      std::iota(low.begin(), low.end(), 0);
      std::iota(high.begin(), high.end(), half);
      Value first = vector::ShuffleOp::create(rewriter, loc, vector, vector, low);
      Value second = vector::ShuffleOp::create(rewriter, loc, vector, vector, high);
      vector = vector::makeArithReduction(rewriter, loc, op.getKind(), first, second);
    }
    Value result = vector::ExtractOp::create(rewriter, loc, vector, ArrayRef<int64_t>{0});
    if (Value accumulator = op.getAcc()) {
      result = vector::makeArithReduction(rewriter, loc, op.getKind(), accumulator, result);
    }
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// Takes vectors down to one dimension and elementary functions down to arithmetic.
struct ExpandPass : PassWrapper<ExpandPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandPass)
  void getDependentDialects(DialectRegistry &registry) const override {
    registry
        .insert<arith::ArithDialect, math::MathDialect, vector::VectorDialect, scf::SCFDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ReductionTree>(&getContext());
    populateMathExpansions(patterns);
    vector::populateVectorBroadcastLoweringPatterns(patterns);
    vector::populateVectorMultiReductionLoweringPatterns(
        patterns, vector::VectorMultiReductionLowering::InnerParallel);
    vector::populateVectorOuterProductLoweringPatterns(patterns);
    vector::populateVectorTransposeLoweringPatterns(patterns,
                                                    vector::VectorTransposeLowering::Shuffle16x16);
    vector::populateVectorShapeCastLoweringPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      signalPassFailure();
    }
  }
};

} // namespace

/// Kernels are given bare pointers. Order matters: vectors need scf for their tails, views need
/// strided metadata gone before memref, and casts are reconciled once every dialect is LLVM's.
static void buildPipeline(PassManager &manager) {
  manager.addPass(std::make_unique<ExpandPass>());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  manager.addNestedPass<func::FuncOp>(createConvertVectorToSCFPass());
  manager.addPass(memref::createExpandStridedMetadataPass());
  manager.addPass(createLowerAffinePass());
  manager.addPass(arith::createArithExpandOpsPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertIndexToLLVMPass());
  manager.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  manager.addPass(createConvertFuncToLLVMPass(functions));
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createUBToLLVMConversionPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

static std::unique_ptr<llvm::TargetMachine> makeMachine(ModuleOp module, const Target &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
  });
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

/// Kernels are vectorized already; LLVM's own vectorizers would only reshuffle tails.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cycles;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cycles);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cycles, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
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

LogicalResult cpu::lowerToObject(ModuleOp module, const Target &target, std::string &object) {
  MLIRContext *context = module.getContext();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> copy(module.clone());
  PassManager manager(context);
  buildPipeline(manager);
  if (failed(manager.run(*copy))) {
    return failure();
  }
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(module, target);
  if (!machine) {
    return failure();
  }
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(*copy, llvmContext, "kernels");
  if (!translated) {
    return module.emitError("kernels could not be translated to LLVM IR");
  }
  translated->setTargetTriple(machine->getTargetTriple());
  translated->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *translated) {
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", target.cpu);
      function.addFnAttr("target-features", target.features);
      function.addFnAttr("prefer-vector-width", target.lanes == 16 ? "512" : "256");
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  }
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
