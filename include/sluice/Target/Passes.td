// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from dispatches to kernels and launches.

#ifndef SLUICE_TARGET_PASSES_TD
#define SLUICE_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

class TargetPass<string argument, list<Option> more = []> : Pass<argument, "::mlir::ModuleOp"> {
  let options = [Option<"target", "target", "std::string", /*default=*/"\"cpu-avx2\"",
                        "cpu-avx512, cpu-avx2, sm_80 or sm_90a">] # more;
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
    that has no kernel for the target, and a function that holds anything but dispatches and named memory.
  }];
}

def EmitPlan : TargetPass<"sluice-emit-plan"> {
  let summary = "Makes the launches of every entry point";
  let description = [{
    Before: functions of dispatches, after `sluice-build-entries`. After: `plan.buffer`, `plan.kernel` and, for each function, a
    `plan.entry` of launches. It plans memory itself, as it needs the kernels' workspaces. A launch names the launches before it
    that touch the same bytes. The result is verified against what it was made of: arguments, order, and what guards protect. Refused: what
    `sluice-generate-kernels` and `sluice-plan-memory` refuse.
  }];
}

def Recompute : TargetPass<"sluice-recompute",
                           [Option<"memoryBudget", "memory-budget", "int64_t", /*default=*/"0",
                                   "Bytes that the arena may take, the kernels' workspaces with them">]> {
  let summary = "Computes forward results again in the backward pass, for a smaller arena";
  let description = [{
    Before: functions of dispatches, after `sluice-separate-places`. After: the arena, as memory is planned with the target's
    kernels, takes at most `memory-budget` bytes. For that, @gradient repeats dispatches of its forward pass. A copy has the
    unit attribute `plan.recomputed` and stands before the first backward dispatch that reads one of its results. What only
    copies read is repeated too, up to values that are kept. A dispatch is repeated at most once: a step never has more than its
    forward operations again. Refused: a budget that this cannot meet, with the least that it can.

    A copy is the same dispatch, so it has the same kernel and draws the same random numbers. Gradients are the same bit for bit,
    whatever gathers with what in a dispatch. Decided here, what is alive is exactly what memory planning sees.

    ```mlir
    %h, %mean, %rstd = dispatch.rows %x, %gain, %bias ...            // a norm
    %y = dispatch.contract %h, %w ...
    ...
    dispatch.weight_gradient %dy, %h ... {plan.phase = "backward"}
    // becomes
    %h, %mean, %rstd = dispatch.rows %x, %gain, %bias ...
    %y = dispatch.contract %h, %w ...
    ...
    %again:3 = dispatch.rows %x, %gain, %bias ... {plan.phase = "backward", plan.recomputed}
    dispatch.weight_gradient %dy, %again#0 ... {plan.phase = "backward"}
    ```

    What is repeated is found by planning memory for sets of values that are not kept (lib/Transforms/Recompute.cpp).
  }];
}

#endif
