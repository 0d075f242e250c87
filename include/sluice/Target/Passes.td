// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from dispatches to kernels and launches.

#ifndef SLUICE_TARGET_PASSES_TD
#define SLUICE_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

class TargetPass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let options = [Option<"target", "target", "std::string", /*default=*/"\"cpu-avx2\"",
                        "cpu-avx512, cpu-avx2, sm_80 or sm_90a">];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect", "::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def GenerateKernels : TargetPass<"sluice-generate-kernels"> {
  let summary = "Makes a kernel of every distinct dispatch";
  let description = [{
    Before: functions of dispatches. After: the functions of their kernels alone, on the kernel ABI
    (docs/plan-and-artifact.md). Dispatches that differ in the values of their operands alone share a kernel. Refused: a dispatch
    that has no kernel for the target.
  }];
}

def EmitPlan : TargetPass<"sluice-emit-plan"> {
  let summary = "Makes the launches of every entry point";
  let description = [{
    Before: functions of dispatches, after `sluice-build-entries`. After: `plan.buffer`, `plan.kernel` and, for each function, a
    `plan.entry` of launches. It plans memory itself, as it needs the kernels' workspaces. A launch names the launches before it
    that touch the same bytes.
  }];
}

#endif
