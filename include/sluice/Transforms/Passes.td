// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef SLUICE_TRANSFORMS_PASSES_TD
#define SLUICE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFactors : Pass<"sluice-convert-factors", "::mlir::ModuleOp"> {
  let summary = "Converts inputs of linear maps and heads to the type of their weights";
  let description = [{
    A linear map multiplies in the type in which it reads its weight. Before: functions of forward
    ops. After: the input of every linear map and cross-entropy has the element type of its weight.
    If it had another type, one map converts it for all readers. Maps compute in f32 and round once,
    when they store, so most conversions cost nothing: they fuse with the op that computes their
    operand. Causality is proved before this pass, so certificates do not mention these maps.

    ```mlir
    %y = sluice.linear %x, %w
        : (!sluice.seq<@s1, 16, f32>, tensor<48x16xbf16>) -> !sluice.seq<@s1, 48, bf16>
    // becomes
    %c = sluice.map(%x) { yield } : (!sluice.seq<@s1, 16, f32>) -> !sluice.seq<@s1, 16, bf16>
    %y = sluice.linear %c, %w
        : (!sluice.seq<@s1, 16, bf16>, tensor<48x16xbf16>) -> !sluice.seq<@s1, 48, bf16>
    ```
  }];
  let dependentDialects = ["::sluice::SluiceDialect"];
}

def ExpandSoftTargets : Pass<"sluice-expand-soft-targets", "::mlir::ModuleOp"> {
  let summary = "Expands losses against soft targets to logits and a loss of their rows";
  let description = [{
    A target distribution is as large as the logits, so fusing the head into the loss, which avoids
    storing logits, saves nothing. A linear map and `sluice.soft_loss` replace the fused op. Before:
    functions of forward ops. After: no `sluice.cross_entropy` has a `target`. Causality is proved
    before this pass, for the loss as a single op.

    ```mlir
    %l = sluice.cross_entropy %x, %w, %t {offset = 1 : i64, target = "teacher"}
        : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>)
        -> !sluice.seq<@s1, 0, f32>
    // becomes
    %z = sluice.linear %x, %w
        : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 5, f32>
    %l = sluice.soft_loss %z, %t against "teacher"
        : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    ```
  }];
  let dependentDialects = ["::sluice::SluiceDialect"];
}

def Differentiate : Pass<"sluice-differentiate", "::mlir::ModuleOp"> {
  let summary = "Derives @gradient from @train or @evaluate";
  let description = [{
    Before: a function `@evaluate` of forward ops with one `sluice.objective` and, with dropout or
    label smoothing, a similar function `@train`. A function without an objective gets one that
    minimizes the mean of the losses that it returns. After: `@evaluate` is unchanged. `@gradient`,
    which replaces `@train` if there is one, has the forward ops, their backward ops in reverse
    order and one `sluice.store_gradient` per trained parameter. Gradients of a value with several
    readers are added in reverse order of the readers. Ops that only the forward pass needs are
    erased. The objective is the last op, because its losses may come from the backward pass.
    If an update has several batches and a loss has weights that the model computes,
    `@count` stores their sum in one batch (`sluice.weight_sum`), and `@gradient` reads the sum over
    all batches.

    With `gradient=false` there is no `@gradient` and no `@count`, and `@train` is erased: the
    module evaluates, predicts and generates.
  }];
  let options = [Option<"hasGradient", "gradient", "bool", "true",
                        "Build @gradient; else erase @train">];
  let dependentDialects = ["::sluice::SluiceDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

def DeriveStep : Pass<"sluice-derive-step", "::mlir::ModuleOp"> {
  let summary = "Derives the decode step @step from @predict, with states between steps";
  let description = [{
    Before: a function `@predict` of forward ops whose bounds are known (docs/causality.md). After:
    in addition `@step`, which is `@predict` over the rows that one more token makes due. A
    `sluice.due` specifies these rows for each stored value, by a `sluice.schedule`. `sluice.keep`
    stores them in a `sluice.state`, whose rows it returns to readers of earlier rows. A reader that
    only needs rows of this step reads the value itself. Values that no prediction reads are
    dropped. Rejects, at the op, a value without a bound and a value on another axis.
    docs/generation.md has the formulas.

    With `optional`, a module is unchanged if it has no @predict, draws groups, has no step, or if a
    contraction or attention of @predict reads a lazy value, which has no schedule. With `only`,
    the other functions are erased.

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
  let options = [Option<"operations", "operations", "int64_t", "200000000",
                        "Maximum work of the derivation, counted as in docs/causality.md">,
                 Option<"isOptional", "optional", "bool", "false",
                        "Leave a module unchanged that has no step">,
                 Option<"isOnly", "only", "bool", "false", "Erase the functions except @step">];
  let dependentDialects = ["::sluice::SluiceDialect", "::mlir::func::FuncDialect"];
}

def FormDispatches : Pass<"sluice-form-dispatches", "::mlir::ModuleOp"> {
  let summary = "Groups model ops into dispatches";
  let description = [{
    Converts every function of model ops to dispatches over stored tensors. A contraction absorbs
    the elementwise ops that read its result. A norm absorbs the elementwise, shortening and
    embedding ops that compute its operands, and the elementwise ops that read its result. The
    remaining ops form separate row dispatches. Shifts, upsampling and unfolding become access maps
    of their readers, and are stored only for a reader that accepts no map. After: functions consist
    of dispatch and plan ops. Correctness does not depend on the grouping.

    In the backward pass, a map whose result only weight gradients read is rematerialized by the
    contraction that computes the gradient of that result, if the maps of its epilogue read the same
    operands anyway. The forward result is then not stored.

    ```mlir
    %u = sluice.upsample %y factor 4 : ...
    %x = sluice.map(%skip, %u) { add } : ...
    %h, %m, %r = sluice.norm %x, %gain, %bias : ...
    // becomes one dispatch that reads %skip at p and %y at p floordiv 4, and stores %x and %h:
    %0:4 = dispatch.rows %skip, %y, %gain, %bias ...
    ```

    If there is a @step, the pass also creates @prefill and @reset. Their batch is independent of
    the training batch: @step and @reset have `generation-rows` rows, and @prefill has a single row,
    the prompt, which it commits to the selected row.

    Queries, keys and values of an attention are columns of one value, and later steps read no
    queries. With `keys-apart` the KV cache holds keys and values only, so that a step reads
    contiguous memory; one more launch copies them there. This is faster on a CPU; on a GPU the
    launch costs more than it saves.
  }];
  let options = [Option<"generationRows", "generation-rows", "int64_t", "16",
                        "Number of rows that generate concurrently">,
                 Option<"keysApart", "keys-apart", "bool", "false",
                        "Store keys and values in states without the adjacent queries">,
                 Option<"sumParts", "sum-parts", "int64_t", "32",
                        "Maximum number of partial sums of a sum over rows, which a second launch "
                        "adds; the compiler uses the value of its targets">,
                 Option<"keepMaps", "keep-maps", "bool", "false",
                        "Store values that only weight gradients read instead of rematerializing "
                        "them">];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
                               "::mlir::math::MathDialect"];
}

def QuantizeWeights : Pass<"sluice-quantize-weights", "::mlir::ModuleOp"> {
  let summary = "Stores the weights that a decode step multiplies by in fewer bits";
  let description = [{
    A decode step is bound by reading weights. Before: functions of dispatches. After: contractions
    of @step read the trained matrices from places `quantized:NAME`, as bf16 or as whole numbers.
    Whole numbers of i8 have a scale per row, `scale:NAME`, by which an epilogue multiplies first.
    Whole numbers of 4 bits have a scale per group of 32 columns, and the contraction is `grouped`.
    @quantize computes both from the parameters: q = w / s to the nearest whole number with
    s = max |w| / 127, or max |w| / 7 of a group. @evaluate, @predict and @prefill multiply by the
    same weights, which a dispatch converts back before a matrix is first read. Functions of
    training are unchanged, and so are tables, biases and the weights of recurrences.

    ```mlir
    %w = plan.bind "parameter:w" : tensor<48x16xf32>
    %y = dispatch.contract %x, %w, %schedule ... {
    ^bb0(%sum: f32): dispatch.yield %sum : f32
    }
    // becomes
    %q = plan.bind "quantized:w" : tensor<48x16xi8>
    %s = plan.bind "scale:w" : tensor<48xf32>
    %y = dispatch.contract %x, %q, %s, %schedule ... {
    ^bb0(%sum: f32, %scale: f32):
      %scaled = arith.mulf %sum, %scale : f32
      dispatch.yield %scaled : f32
    }
    // or, with type=int4,
    %q = plan.bind "quantized:w" : tensor<48x16xi8> // a row of 16 bytes for each group
    %s = plan.bind "scale:w" : tensor<48xf32>
    %y = dispatch.contract %x, %q, %s, %schedule attributes {grouped, ...} {
    ^bb0(%sum: f32): dispatch.yield %sum : f32
    }
    ```
  }];
  let options = [Option<"type", "type", "std::string", "\"int8\"",
                        "Type of weights: bf16, int8 or int4">];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect",
                           "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def BuildEntries : Pass<"sluice-build-entries", "::mlir::ModuleOp"> {
  let summary = "Adds outputs, gradient norm, optimizer and initialization";
  let description = [{
    Before: functions of dispatches @gradient, @evaluate, @predict. After: their results are stored
    as outputs, and there are functions @update (gradient norm in two stages, schedule, clipping,
    Adam or AdamW over the flat parameter arena) and @initialize. If a dispatch reads compute copies
    of weights, these two also write the copies, and @prepare computes them from parameters that the
    host has loaded. The optimizer's constants come from the module attribute `sluice.training`.
    With `sluice.accumulate`, an update has several batches: @accumulate sums the gradients and
    losses of @gradient over the batches, @update reads the sums, and the dispatches of @gradient
    that draw are marked to draw by the rows of the update.
    With `groups` in `sluice.training`, the optimizer reads tables of a factor of the rate and of a
    decay per flat row. Where weights of several groups share a row, each further table has the
    numbers from a column `begin` on.
  }];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
                               "::mlir::math::MathDialect",
                           "::mlir::func::FuncDialect"];
}

def SeparatePlaces : Pass<"sluice-separate-places", "::mlir::ModuleOp"> {
  let summary = "Repeats dispatches whose results are stored in several places";
  let description = [{
    A dispatch writes its result directly to its named place, so a value can have only one place. If
    `cse` has merged equal dispatches whose results go to different places (zeros for two states,
    for instance), this pass repeats the dispatch for each place.
  }];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect"];
}

def MergeOps : Pass<"sluice-merge-ops"> {
  let summary = "Merges equal ops, with the origins of all";
  let description = [{
    Upstream's `cse`, on any level: among equal ops of a block it keeps the first. Equality ignores
    locations, so ops of different stages are merged. After: the remaining op has the origins of all
    ops that it replaces (`#sluice.origin`), its own first. Upstream's `cse` would only keep its own
    origin.

    ```mlir
    %a = sluice.linear %x, %w : ...
        loc(fused<#sluice.origin<stage = "stages.1", part = "attention.query">>["m.json":7:5])
    %b = sluice.linear %x, %w : ...
        loc(fused<#sluice.origin<stage = "stages.2", part = "attention.query">>["m.json":8:5])
    // becomes
    %a = sluice.linear %x, %w : ... loc(fused[
      fused<#sluice.origin<stage = "stages.1", part = "attention.query">>["m.json":7:5],
      fused<#sluice.origin<stage = "stages.2", part = "attention.query">>["m.json":8:5]])
    ```
  }];
  let statistics = [Statistic<"mergedOps", "merged-ops", "Ops that an equal one replaced">];
}

def PlanMemory : Pass<"sluice-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Assigns every tensor an offset in one arena";
  let description = [{
    Before: functions of dispatches, after `sluice-build-entries`. Named memory, which outlives an
    entry point, comes first. The temporaries of all entry points share the memory after it, packed
    by size and live range. After: a `plan.buffer` for every named place, the byte offsets of a
    dispatch's results as its attribute `plan.offsets`, the arena's size as the module's
    `plan.arena_bytes`. If `sluice-generate-kernels` has cached kernels, their workspaces follow the
    temporaries. The plan is cached for `sluice-emit-plan`. With `buckets`, temporaries are also
    packed for batches of few segments. Rejects a function in which a dispatch would read memory
    that another one has overwritten, and a function with arguments or results. Also rejects a guard
    that no earlier dispatch stores, a guard of a temporary, and a write of parameters without a
    guard outside @initialize and @prepare.
  }];
  let options = [Option<"hasBuckets", "buckets", "bool", "false",
                        "Also plan for a quarter, a third and half of the rows of segments">];
  let dependentDialects = ["::sluice::dispatch::DispatchDialect", "::sluice::plan::PlanDialect"];
}

#endif
