// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from dispatches to kernels and launches.

#ifndef SLUICE_TARGET_PASSES_TD
#define SLUICE_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

class TargetPass<string argument, list<Option> more = []> : Pass<argument, "::mlir::ModuleOp"> {
  let options = [ListOption<"targets", "target", "std::string",
                            "cpu-amx, cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512, cpu-avx2, "
                            "sm_80 or sm_90a; cpu-avx2 by default">,
                 Option<"l2Bytes", "l2-bytes", "int64_t", "0",
                        "Bytes of a core's L2 cache; 0: a size by the CPU target">]
                # more;
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect",
                           "::mlir::affine::AffineDialect", "::mlir::amx::AMXDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                               "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                               "::mlir::vector::VectorDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def GenerateKernels : TargetPass<"sluice-generate-kernels",
                                 [Option<"keepDispatches", "keep-dispatches", "bool", "false",
                                         "Cache the kernels for the next passes only">]> {
  let summary = "Generates a kernel for every distinct dispatch";
  let description = [{
    Before: functions of dispatches. After: only the functions of their kernels, with the kernel ABI
    (docs/plan-and-artifact.md). Dispatches that only differ in the values of their operands share a
    kernel. Rejects a dispatch without a kernel for a target, and a function with other ops than
    dispatches and named memory.

    With `keep-dispatches` the module is unchanged. The kernels are cached as an analysis that
    `sluice-recompute`, `sluice-plan-memory` and `sluice-emit-plan` use and preserve.
  }];
}

def EmitPlan : TargetPass<"sluice-emit-plan",
                          [Option<"keepFunctions", "keep-functions", "bool", "false",
                                  "Keep the functions of dispatches, which the JSON form of the "
                                  "plan is also computed from">]> {
  let summary = "Emits the launches of every entry point";
  let description = [{
    Before: functions of dispatches, after `sluice-build-entries`. After: `plan.buffer`,
    `plan.kernel` and, for each function, a `plan.entry` of launches. The entries @gradient also
    have a `plan.all_reduce` for each bucket of the gradients, after the last launch that writes it.
    Buckets begin at parameters, and are at most eight. Kernels and memory are the cached ones of
    `sluice-generate-kernels` and `sluice-plan-memory`; without these, the pass generates the
    kernels and plans memory with their workspaces. A launch lists the earlier
    launches that access the same bytes. The result is verified against the dispatches: arguments,
    order, and the effects of guards. Rejects everything that `sluice-generate-kernels` and
    `sluice-plan-memory` reject.
  }];
}

def Recompute : TargetPass<"sluice-recompute",
                           [Option<"memoryBudget", "memory-budget", "int64_t", /*default=*/"0",
                                   "Maximum bytes of the arena, including the kernels' "
                                   "workspaces">,
                            Option<"allowExcess", "allow-excess", "bool", "false",
                                   "Leave a module unchanged whose budget cannot be met, instead "
                                   "of failing">]> {
  let summary = "Rematerializes forward results in the backward pass, for a smaller arena";
  let description = [{
    Before: functions of dispatches, after `sluice-separate-places`. After: the arena, as memory is
    planned with the target's kernels, takes at most `memory-budget` bytes. For that, @gradient
    repeats dispatches of its forward pass. A copy has the unit attribute `recomputed` and is
    inserted before the first backward dispatch that reads one of its results. Operands that only
    copies read are repeated too, up to stored values. A dispatch is repeated at most once, so a
    step at most repeats its forward operations. Rejects a budget that cannot be met, and reports
    the minimum.

    A copy is the same dispatch, so it has the same kernel and draws the same random numbers.
    Gradients are the same bit for bit, for any grouping of ops in dispatches. The pass runs on this
    level because live ranges here are exactly the ones that memory planning uses.

    ```mlir
    %h, %mean, %rstd = dispatch.rows %x, %gain, %bias ...            // a norm
    %y = dispatch.contract %h, %w ...
    ...
    dispatch.weight_gradient %dy, %h ... {backward}
    // becomes
    %h, %mean, %rstd = dispatch.rows %x, %gain, %bias ...
    %y = dispatch.contract %h, %w ...
    ...
    %again:3 = dispatch.rows %x, %gain, %bias ... {backward, recomputed}
    dispatch.weight_gradient %dy, %again#0 ... {backward}
    ```

    The set is found by planning memory for candidate sets of dropped values
    (lib/Transforms/Recompute.cpp).
  }];
}

#endif
