// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef SLUICE_TRANSFORMS_PASSES_TD
#define SLUICE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFactors : Pass<"sluice-convert-factors", "::mlir::ModuleOp"> {
  let summary = "Gives linear maps and heads inputs of their weights' type";
  let description = [{
    A linear map multiplies in the type that it reads its weight in. Before: functions of forward ops. After: the input of
    every linear map and cross-entropy has its weight's element type; where it had another, a map converts it, one for all
    readers. Maps compute in f32 and round once, when they store, so most of these cost nothing: they fuse with what makes
    their operand. Causality is decided before: certificates do not mention these maps.

    ```mlir
    %y = sluice.linear %x, %w : (!sluice.seq<@s1, 16, f32>, tensor<48x16xbf16>) -> !sluice.seq<@s1, 48, bf16>
    // becomes
    %c = sluice.map(%x) { yield } : (!sluice.seq<@s1, 16, f32>) -> !sluice.seq<@s1, 16, bf16>
    %y = sluice.linear %c, %w : (!sluice.seq<@s1, 16, bf16>, tensor<48x16xbf16>) -> !sluice.seq<@s1, 48, bf16>
    ```
  }];
  let dependentDialects = ["::sluice::SluiceDialect"];
}

def ExpandSoftTargets : Pass<"sluice-expand-soft-targets", "::mlir::ModuleOp"> {
  let summary = "Writes losses against soft targets as logits and a loss of their rows";
  let description = [{
    A target that is a distribution has as many numbers as the logits. So nothing is saved where these are not stored, and ops that are
    there do: a linear map and `sluice.soft_loss`. Before: functions of forward ops. After: no `sluice.cross_entropy` has a `target`.
    Causality is decided before, of the loss as one op.

    ```mlir
    %l = sluice.cross_entropy %x, %w, %t {offset = 1 : i64, target = "teacher"} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    // becomes
    %z = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 5, f32>
    %l = sluice.soft_loss %z, %t against "teacher" : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    ```
  }];
  let dependentDialects = ["::sluice::SluiceDialect"];
}

def Differentiate : Pass<"sluice-differentiate", "::mlir::ModuleOp"> {
  let summary = "Makes @gradient from @train or @evaluate";
  let description = [{
    Before: a function `@evaluate` of forward ops with one `sluice.objective`, and, where there is dropout or smoothed
    labels, `@train` like it. One that has none minimizes the mean of the losses that it returns, and gets an objective
    that says so. After: `@evaluate` as it was, and in the place of `@train`, if there was one,
    `@gradient` with the forward ops, their backward ops in reverse order and one `sluice.store_gradient` a trained
    parameter. Gradients of a value with several readers are added in reverse order of the readers. Ops that only the
    forward pass needed are erased. The objective stands last: losses may come from the backward pass.
  }];
  let dependentDialects = ["::sluice::SluiceDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def DeriveStep : Pass<"sluice-derive-step", "::mlir::ModuleOp"> {
  let summary = "Makes @step from @predict: one more token with what earlier steps kept";
  let description = [{
    Before: a function `@predict` of forward ops whose bounds are known (docs/causality.md). After: beside it `@step`, which is
    `@predict` over the rows that one more token makes due. A `sluice.due` says which rows of each stored value these are, by a
    `sluice.schedule`. `sluice.keep` stores them in a `sluice.state`, and gives the rows that it holds to readers of earlier
    rows. A reader of nothing but this step's rows reads the value itself. What no prediction reads is left out. Refuses, at
    the op, a value without a bound and one on another axis. docs/generation.md has the formulas.

    ```mlir
    %x = sluice.embed %tokens, %table : ...
    %y = sluice.shift %x by 3 : ...
    %m = sluice.shorten %y factor 4 : ...
    // becomes
    %x = sluice.embed %tokens, %table : ...
    sluice.due %x by @schedule.0 : ...
    %k = sluice.keep %x in @state.stages.0.token : ...
    %y = sluice.shift %k by 3 : ...
    %m = sluice.shorten %y factor 4 : ...
    sluice.due %m by @schedule.1 : ...
    ```
  }];
  let dependentDialects = ["::sluice::SluiceDialect", "::mlir::func::FuncDialect"];
}

def FormDispatches : Pass<"sluice-form-dispatches", "::mlir::ModuleOp"> {
  let summary = "Groups model ops into dispatches";
  let description = [{
    Turns every function of model ops into one of dispatches over stored tensors. Around a contraction gather the
    elementwise ops that read its result; around a norm, the elementwise, shortening and embedding ops that make its
    operands and the elementwise ops that read its result; what is left forms row dispatches of its own. Shifts,
    upsampling and unfolding become the maps through which their readers read, and are stored only for a reader that
    takes no map. After: functions hold dispatch and plan ops alone. Correctness does not depend on what gathers where.

    In the backward pass, maps whose result weight gradients alone read are made again by the contraction that makes its gradient, where the
    maps of its epilogue read their operands anyhow. The forward result is then not kept.

    ```mlir
    %u = sluice.upsample %y factor 4 : ...
    %x = sluice.map(%skip, %u) { add } : ...
    %h, %m, %r = sluice.norm %x, %gain, %bias : ...
    // becomes one dispatch that reads %skip at p and %y at p floordiv 4, and stores %x and %h:
    %0:4 = dispatch.rows %skip, %y, %gain, %bias ...
    ```

    Where there is a @step, @prefill and @reset are made beside it. These have rows of their own, whatever the batch of
    training: @step and @reset `generation-rows`, @prefill one, the prompt, which it commits to the row that takes part.

    Queries, keys and values of an attention are columns of one value, and later steps read no queries. With `keys-apart`
    the state holds keys and values alone, so that a step reads memory from end to end: one more launch copies them there.
    It pays on a CPU; on a GPU the launch costs more than it saves.
  }];
  let options = [Option<"generationRows", "generation-rows", "int64_t", "16", "Rows that generate at once">,
                 Option<"keysApart", "keys-apart", "bool", "false",
                        "States hold keys and values without the queries beside them">,
                 Option<"sumParts", "sum-parts", "int64_t", "32",
                        "Most parts that a sum over rows is cut into, for a second launch to add; the compiler asks its targets">,
                 Option<"keepMaps", "keep-maps", "bool", "false",
                        "Keep what weight gradients alone read rather than make it again">];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def BuildEntries : Pass<"sluice-build-entries", "::mlir::ModuleOp"> {
  let summary = "Adds what surrounds the model: outputs, gradient norm, optimizer, initialization";
  let description = [{
    Before: functions of dispatches @gradient, @evaluate, @predict. After: what these return is stored as outputs;
    @update (gradient norm in two stages, schedule, clipping, Adam or AdamW over the flat parameter arena) and @initialize
    stand beside them. Where a dispatch reads compute copies of weights, these two write the copies too, and @prepare makes
    them from parameters that the host has loaded. The optimizer's constants come from the module attribute `sluice.training`.
    With `sluice.accumulate`, an update has several batches: @accumulate sums the gradients and losses that @gradient makes of each,
    @update reads the sums, and the dispatches of @gradient that draw are marked to draw by the rows of the update.
  }];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::func::FuncDialect"];
}

def SeparatePlaces : Pass<"sluice-separate-places", "::mlir::ModuleOp"> {
  let summary = "Makes what is stored in several places once for each";
  let description = [{
    A dispatch writes its result where it is stored, so a value can live in one place. Where `cse` has merged equal dispatches whose
    results go to different places (zeros for two states, for instance), this pass repeats the dispatch for each place.
  }];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect"];
}

def MergeOps : Pass<"sluice-merge-ops"> {
  let summary = "Merges equal ops, with the origins of all";
  let description = [{
    Upstream's `cse`, on any level: of equal ops of a block it keeps the first. Equality ignores locations, so ops of different stages are
    merged. After: the op that is kept has the origins of all that it replaces (`#sluice.origin`), its own first. Upstream's `cse` keeps
    that op's own alone.

    ```mlir
    %a = sluice.linear %x, %w : ... loc(fused<#sluice.origin<stage = "stages.1", part = "attention.query">>["m.json":7:5])
    %b = sluice.linear %x, %w : ... loc(fused<#sluice.origin<stage = "stages.2", part = "attention.query">>["m.json":8:5])
    // becomes
    %a = sluice.linear %x, %w : ... loc(fused[
      fused<#sluice.origin<stage = "stages.1", part = "attention.query">>["m.json":7:5],
      fused<#sluice.origin<stage = "stages.2", part = "attention.query">>["m.json":8:5]])
    ```
  }];
  let statistics = [Statistic<"mergedOps", "merged-ops", "Ops that an equal one replaced">];
}

def PlanMemory : Pass<"sluice-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Gives every tensor its place in one arena";
  let description = [{
    Before: functions of dispatches, after `sluice-build-entries`. Named memory, what outlives an entry point, comes first; the
    temporaries of all entry points share what is behind it, packed by size and by life. After: a `plan.buffer` for every
    named place, the byte offsets of a dispatch's results as its attribute `plan.offsets`, the arena's size as the module's
    `plan.arena_bytes`. The compiler runs the same planning with the workspaces of the kernels behind the temporaries.
    Refused: a function in which a dispatch would read memory that another has written since, and one with arguments or results.
    A guard is refused that no dispatch before it stores, or that protects a temporary. So is a write of parameters outside @initialize
    and @prepare that no guard forbids.
  }];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect"];
}

#endif
