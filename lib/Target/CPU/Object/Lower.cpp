// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers kernels to the LLVM dialect, in two sweeps: greedy rewrites that reduce vectors to one
// dimension and elementary functions to arithmetic, then one conversion with the patterns of every
// dialect. A conversion walks and legalizes the whole module, so one pass per dialect would pay for
// that eight times; LLVM does the work of canonicalization faster.
#include "Lower.h"
#include "sluice/Target/Common/Math.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/AMX/Transforms.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

/// Rewrites vector.reduction as a tree of halves: a fixed order, and log2(lanes) steps instead of
/// the chain of scalar operations of an ordered reduction.
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

} // namespace

/// Returns patterns that reduce vectors to one dimension and elementary functions to arithmetic.
static RewritePatternSet getExpansions(MLIRContext &context) {
  RewritePatternSet patterns(&context);
  patterns.add<ReductionTree>(&context);
  target::populateMathExpansions(patterns);
  arith::populateArithExpandOpsPatterns(patterns);
  memref::populateExpandStridedMetadataPatterns(patterns);
  vector::populateVectorBroadcastLoweringPatterns(patterns);
  vector::populateVectorMultiReductionLoweringPatterns(
      patterns, vector::VectorMultiReductionLowering::InnerParallel);
  vector::populateVectorOuterProductLoweringPatterns(patterns);
  vector::populateVectorTransposeLoweringPatterns(patterns,
                                                  vector::VectorTransposeLowering::Shuffle16x16);
  vector::populateVectorShapeCastLoweringPatterns(patterns);
  vector::populateVectorTransferLoweringPatterns(patterns, /*maxTransferRank=*/1);
  vector::populateVectorMaskOpLoweringPatterns(patterns);
  vector::populateVectorMaskMaterializationPatterns(patterns, /*force32BitVectorIndices=*/true);
  vector::populateVectorInsertExtractStridedSliceTransforms(patterns);
  vector::populateVectorStepLoweringPatterns(patterns);
  vector::populateVectorRankReducingFMAPattern(patterns);
  return patterns;
}

static RewritePatternSet getConversions(LLVMTypeConverter &types) {
  RewritePatternSet patterns(&types.getContext());
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  index::populateIndexToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(types, patterns);
  populateVectorToLLVMConversionPatterns(types, patterns, /*reassociateFPReductions=*/false,
                                         /*force32BitVectorIndices=*/true);
  populateFuncToLLVMConversionPatterns(types, patterns);
  populateAMXLegalizeForLLVMExportPatterns(types, patterns);
  ub::populateUBToLLVMConversionPatterns(types, patterns);
  return patterns;
}

void cpu::loadLoweringDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<amx::AMXDialect, arith::ArithDialect, cf::ControlFlowDialect,
                      func::FuncDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                      ub::UBDialect, vector::VectorDialect, LLVM::LLVMDialect>();
}

static LowerToLLVMOptions getOptions(MLIRContext &context) {
  LowerToLLVMOptions options(&context);
  options.useBarePtrCallConv = true;
  return options;
}

LLVMDialectLowering::LLVMDialectLowering(MLIRContext &context)
    : types(&context, getOptions(context)), expansions(getExpansions(context)),
      conversions(getConversions(types)) {}

LogicalResult LLVMDialectLowering::run(ModuleOp module) const {
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  if (failed(verify(module)) || failed(applyPatternsGreedily(module, expansions, config))) {
    return failure();
  }
  LLVMConversionTarget target(*module.getContext());
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, conversions);
}
