// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dispatch dialect: fused groups of work, loop-free and target-neutral. One op is one kernel.

#ifndef SLUICE_DISPATCH_TD
#define SLUICE_DISPATCH_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "sluice/Dialect/Dispatch/DispatchInterfaces.td"

def Dispatch_Dialect : Dialect {
  let name = "dispatch";
  let cppNamespace = "::sluice::dispatch";
  let summary = "Fused groups of work: rows, contractions, attention, cross-entropy, scatter";
  let description = [{
    The representation that both targets share. A dispatch is one kernel: the buffers that it reads,
    with their access maps, its computation, and the buffers that it writes. It has no loops and no
    addresses: each target chooses the order of the work, tiles, packing and vectors.

    Values are statically shaped tensors. By rank:
      - rank 3, `[B, T, d]`: rows of a sequence, capacity B rows of T positions. Each position's row
        is stored padded to `paddedWidth(d)` elements; the padding is undefined.
      - rank 2, `[B, T]`: one number per position, dense.
      - `[1, T, d]` or `[1, T]` with access `row`, in a domain of more batch rows: all of them
        share the sequence.
      - rank 2 or 1 with access `table`, `gather`, `vector`, `flat`, and every operand named weight:
        dense, no padding. Padding is counted in elements of any type. A *domain* specifies the rows
        that a dispatch runs over and which of them are valid at run time.

    `guard` names an i32 scalar, `scalar:GUARD`, that an earlier dispatch of the function stores.
    There are two kinds:
      - `due.N` *allows* skipping the launch if it is not 1. Only a scheduled dispatch may have it,
        and the scalar is computed from its schedule: all counts are zero then, so the launch writes
        nothing in any case. The host of a GPU launches it, because it would have to wait for it.
      - Any other, such as `finite`, *forbids* the launch if it is not 1. The memory of the results
        then keeps its contents, so results are in named memory. A dispatch that writes parameters,
        moments or compute copies has such a guard, except in @initialize and @prepare, and the
        guard is computed from the loss and the gradients.

    Memory planning verifies:
    - D-060: a dispatch before the guarded one, without a guard, stores the scalar of the
      guard as tensor<i32>.
    - D-061: a dispatch under a guard that allows is scheduled, and the scalar is computed
      from its schedule.
    - D-062: the results of a dispatch under a guard that forbids are stored to named
      memory.
    - D-063: a dispatch that writes parameters, moments or compute copies has a guard that
      forbids, but in @initialize and @prepare.
    - D-064: the scalar of such a guard is computed from scalar:loss and from the gradients.
    - D-065: dispatches of @gradient have `draws_by_update` where they draw random numbers
      and an update has several batches (`sluice.accumulate`); no other dispatch has it.

    Numbers are *stored* as f32 or bf16 and *computed with* as f32. Bodies, epilogues and regions
    take and yield f32. A bf16 operand is extended when it is loaded. A result is rounded to the
    nearest bf16 when it is stored: ties go to even, NaN stays NaN. Intermediate values of a
    dispatch are not rounded. The two factors of a contraction have one type, its *compute type*:
    products and sums of bf16 factors are computed with their f32 values. Statistics, log-sum-exps,
    losses, logits, biases and the gradients of weights are f32.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
}

include "sluice/Dialect/Dispatch/DispatchAttributes.td"

/// Constraints that several ops have.
defvar accessConstraints = [{
    - D-004: there is one access per operand and one per result.
    - D-005: accesses are `#dispatch.access` attributes.
}];
defvar bodyConstraints = [{
    - D-001: the body has one argument per operand that it reads.
    - D-002: the body ends in `dispatch.yield`.
    - D-003: the body yields one value per result.
    - D-015: arguments and yielded values are f32 where the tensor is f32 or bf16, and else
      have its element type.
}];
defvar scheduleConstraints = [{
    - D-018: the last operand of a scheduled op is its schedule, i64 [batch, 3].
}];
defvar unscheduledConstraints = [{
    - D-019: the domain is not scheduled.
}];
defvar attentionConstraints = [{
    - D-001: each region has the arguments above.
    - D-002: each region ends in `dispatch.yield`.
    - D-003: the score region yields one value; the derivative one, and one per term.
    - D-008: `mask` is a set over (p, q).
    - D-013: queries, keys, values and the gradient of the output have one type, f32 or
      bf16.
    - D-014: lse and `rotary` are f32.
    - D-016: outputs and gradients are f32 or bf16.
    - D-021: queries and outputs have the rows of `domain`, keys and values the rows of
      their domain; both domains have one batch.
    - D-024: `extras` holds the operands above in their order. Key counts are i64 [batch], and key
      rows i32 [batch], only with key counts in a scheduled domain.
    - D-025: rows of terms have the columns and the type of queries, one per step of the
      distance, or with `centered` a table [M, D]; a table of biases is f32 [M, heads], and the
      factors of queries and keys are in the ratio of a and b.
}];
defvar crossEntropyConstraints = [{
    - D-009: rows are [B, T, d] and weights [V, d].
    - D-010: rows and weights have one type, f32 or bf16.
    - D-011: tokens are i32, one row per batch row.
    - D-014: losses, lse, biases and gradients of weights are f32.
    - D-019: the domain is not scheduled.
    - D-029: for a domain with an axis, a gradient has `row_gradient`.
    - D-050: `row_gradient` has one number per row.
    - D-051: `first` is at least 0 and `smoothing` is in [0, 1).
}];

class Dispatch_Op<string mnemonic, list<Trait> traits = []> : Op<Dispatch_Dialect, mnemonic,
    traits>;
class Dispatch_KernelOp<string mnemonic, list<Trait> traits = []>
    : Dispatch_Op<mnemonic, !listconcat(traits, [Pure, IsolatedFromAbove, KernelInterface,
                                                 DeclareOpInterfaceMethods<RowReadsInterface>])> {
  /// Attributes for the plan, which no kernel depends on: `backward` marks the backward pass of a
  /// step, and `recomputed` a rematerialized dispatch, which repeats another one of its function.
  dag planning = (ins UnitAttr:$backward, UnitAttr:$recomputed);
}

/// A kernel whose body, or dropout, may draw random numbers.
class Dispatch_DrawingOp<string mnemonic, list<Trait> traits = []>
    : Dispatch_KernelOp<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<DrawInterface,
        ["drawsNumbers"]>])> {
  dag drawing = !con((ins UnitAttr:$draws_by_update), planning,
                     (ins DefaultValuedAttr<I64Attr, "1">:$draw_parts));
}

def SharesMemory : DeclareOpInterfaceMethods<SharedMemoryInterface>;

def Dispatch_RowsOp : Dispatch_DrawingOp<"rows", [SingleBlock, SharesMemory]> {
  let summary = "One pass over rows, with statistics";
  let description = !strconcat([{
    The body runs once per row. Its arguments are the operands loaded through `accesses`; it yields
    one value per result, stored through `result_accesses`. The body holds elementwise arith and
    math ops on tensors of one row, `tensor.splat`, and the dispatch ops that follow (reduce,
    reduce_group, spread, column, position, random). `aliases` specifies, for each result, the
    operand that it updates in place, or -1. Rows that are not valid are skipped, or, with
    `zero_invalid`, their results are written as zeros.

    Example:

    ```mlir
    %means, %scaled = dispatch.rows %x, %gain attributes {
        domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>,
        accesses = [#dispatch.access<row[p * 4 + i], group = 4, factor = 1>,
            #dispatch.access<vector>],
        result_accesses = [#dispatch.access<row>, #dispatch.access<row>]} {
    ^bb0(%rows: tensor<4x8xf32>, %g: tensor<8xf32>):
      %sum = dispatch.reduce_group add %rows : tensor<4x8xf32> -> tensor<8xf32>
      %scale = arith.constant dense<0.25> : tensor<8xf32>
      %mean = arith.mulf %sum, %scale : tensor<8xf32>
      %product = arith.mulf %mean, %g : tensor<8xf32>
      dispatch.yield %mean, %product : tensor<8xf32>, tensor<8xf32>
    } : (tensor<2x16x8xf32>, tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xf32>)
    ```

    Constraints:
    - D-019: in a scheduled domain all results have access `row`, `zero_invalid` is not set,
      and the body draws no random number.
    - D-026: an operand with access `range`, or `gather` of rank 3 or of elements, is found
      by arguments of i32 with access `row` (of a range, or `gather`), has group 1 and the
      batch of the domain.
    - D-027: `extended` is set of elements of i32 with access `row` or `gather` alone.
    - D-071: `outside` is set of f32 or bf16 with access `row`, or is minus infinity with
      access `range`.
    - D-080: a range with a list, weights or a number of draws is in a domain that is not
      scheduled, and has no `outside` with weights or draws. Entries and numbers of draws are i32,
      and weights f32. They are arguments of access `row`, of rank 2 and of the batch of the domain.
      Each row of the operand has a weight, or a number of draws.
    - D-081: weights by `softmax` are of a sum in such a domain; their arguments are such f32,
      too.
    - R-001: a range is reduced by `add` on the CPU (lowering).
    - R-002: a constant of a row has one value (lowering).
    - R-003: the body holds ops of row bodies alone (lowering).
    - R-004: all results with access `columns` have one number of parts (lowering).
    - R-005: an operand with access `gather` has an index, an i32 argument (lowering).
    - R-006: an argument of a group holds the rows of its access (lowering).
    - R-008: an argument has at most the columns of its operand, or is one row of a sequence and
      has a number `outside` (lowering).
    - R-009: a yielded row or element fits its result (lowering).
  }], scheduleConstraints, accessConstraints, bodyConstraints);
  let arguments = !con((ins Variadic<AnyRankedTensor>:$all_inputs,
                       Dispatch_Domain:$domain, ArrayAttr:$accesses, ArrayAttr:$result_accesses,
                       UnitAttr:$zero_invalid, OptionalAttr<DenseI64ArrayAttr>:$aliases,
                           OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard), drawing);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{operands attr-dict-with-keyword $body `:` functional-type(operands,
      results)}];
  let extraClassDeclaration = [{
    /// Returns the operands with an access: all but the schedule.
    ::mlir::OperandRange getInputs() {
      return getAllInputs().drop_back(getDomain().getScheduled() ? 1 : 0);
    }
    AccessAttr getAccess(unsigned operand);
    bool followsDomain(unsigned result);
    bool zeroesInvalid(unsigned) { return getZeroInvalid(); }
    bool staysWithinAxis(unsigned result) { return !getZeroInvalid() && followsDomain(result); }
    std::optional<int64_t> getRowFactor(unsigned operand);
  }];
  let hasVerifier = 1;
}

def Dispatch_ContractOp : Dispatch_DrawingOp<"contract", [SingleBlock]> {
  let summary = "Rows times a weight matrix, with an epilogue";
  let description = !strconcat([{
    acc[r, n] = sum over k of input[r, k] * W(k, n). Weights are stored [out, in], so W(k, n) =
    weight[n, k] for a linear map, and with `by_input` W(k, n) = weight[k, n] for the gradient of
    its input. The epilogue is scalar code: its arguments are acc, then one f32 per extra operand at
    element (r, n); it yields one value per result. Extra operands have access `row` [B, T, N]
    (identity map), `vector` [N], or `scalar`. Results: `row` [B, T, N]. `input` is [B, T, K]. Rows
    that are not valid may be computed or not. `input` and `weight` have one type, f32 or bf16;
    extras and results may have either. A scheduled op, which is bound by reading weights, may have
    a weight of fewer bits: bf16, or whole numbers of i8, whose scale is an extra that the epilogue
    multiplies by.

    With `grouped`, for scheduled ops alone, a weight has 4 bits: W(k, n) = q s, with the scale s of
    the group g = floor(k / 32) of row n. `weight` is i8 [N G, 16] with G = ceil(K / 32), and the
    last extra has the scales, f32 [N G]. It has access `vector` and is no argument of the epilogue.
    Byte j of row n G + g is q' + 8 + 16 q'', for the whole numbers q' and q'' in [-7, 7] of columns
    32 g + j and 32 g + 16 + j. Columns past the last one have q = 0.

    With `rotated_columns` the last extra, before the scales, is the table of rotary angles, f32 [T,
    D] of access `table`. Row p has the cosine of its angle at 2i and the sine at 2i + 1, and the
    table is not an argument of the epilogue. `rotated_columns` is a multiple of D. In the columns
    below it, each pair (hD + 2i, hD + 2i + 1) of the first result is rotated by its row's angle
    before it is stored (Su et al. 2021, equation 34).

    Example:

    ```mlir
    %y = dispatch.contract %x, %weight, %bias attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
        accesses = [#dispatch.access<vector>], result_accesses = [#dispatch.access<row>]} {
    ^bb0(%sum: f32, %b: f32):
      %biased = arith.addf %sum, %b : f32
      dispatch.yield %biased : f32
    } : (tensor<2x16x8xf32>, tensor<5x8xf32>, tensor<5xf32>) -> tensor<2x16x5xf32>
    ```

    Constraints:
    - D-006: rows of the input have the inner dimension of the weight.
    - D-013: input and weight have one type, f32 or bf16; the weight of a scheduled op may be bf16
      or i8 instead.
    - D-087: a grouped weight is of a scheduled op, i8 [N G, 16] with G = ceil(K / 32), and the last
      extra is f32 [N G] of access `vector`.
    - D-017: with `rotated_columns`, there is a result and a table of angles, of an even
      number of columns and a row per position; whole heads of the result are rotated.
    - D-019: a scheduled op is not `by_input` and draws no random number.
  }], scheduleConstraints, accessConstraints, bodyConstraints);
  let arguments = !con((ins AnyRankedTensor:$input, AnyRankedTensor:$weight,
                        Variadic<AnyRankedTensor>:$all_extras,
                       Dispatch_Domain:$domain, UnitAttr:$by_input,
                       ArrayAttr:$accesses, ArrayAttr:$result_accesses,
                           OptionalAttr<I64Attr>:$rotated_columns, UnitAttr:$grouped,
                       OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard), drawing);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{operands attr-dict-with-keyword $epilogue `:` functional-type(operands,
      results)}];
  let extraClassDeclaration = [{
    /// Returns the operands with an access: all after the weight except the schedule.
    ::mlir::OperandRange getExtras() {
      return getAllExtras().drop_back(getDomain().getScheduled() ? 1 : 0);
    }
    /// Returns the scales of groups of weights; null if the weight is not grouped.
    ::mlir::Value getScales() {
      return getGrouped() ? ::mlir::Value(getExtras().back()) : ::mlir::Value();
    }
    /// Returns the table of rotary angles; null without rotation.
    ::mlir::Value getRotary() {
      return getRotatedColumns() ? ::mlir::Value(getExtras().drop_back(getGrouped() ? 1 : 0).back())
                                 : ::mlir::Value();
    }
    /// Returns the extras that are arguments of the epilogue, which come first.
    ::mlir::OperandRange getArgumentExtras() {
      return getExtras().drop_back((getRotatedColumns() ? 1 : 0) + (getGrouped() ? 1 : 0));
    }
    /// Returns K, the length of the sums.
    int64_t getInner();
    /// Returns N, the number of sums of a row.
    int64_t getColumns();
    AccessAttr getAccess(unsigned operand);
    bool staysWithinAxis(unsigned) { return true; }
    /// Returns true for rows: all operands but a table of angles.
    bool readsOwnRows(unsigned operand);
    int64_t getTileRows(int64_t blocks);
  }];
  let hasVerifier = 1;
}

def Dispatch_WeightGradientOp : Dispatch_KernelOp<"weight_gradient", [AttrSizedOperandSegments,
    AttrSizedResultSegments, SharesMemory]> {
  let summary = "Sum over valid rows of an outer product, and of its left factor";
  let description = !strconcat([{
    weight[m, k] = init_weight[m, k] + sum over valid rows r of left[r, m] * right[r, k]; bias[m] =
    init_bias[m] + sum over valid rows of left[r, m]. `left` is the gradient of a linear map's
    result, `right` its input. Inits may be absent (zero) and may share their result's memory. The
    order of the sum is fixed. `left` and `right` have one type, f32 or bf16; inits and results are
    f32.

    Example:

    ```mlir
    %dw, %db = dispatch.weight_gradient %dy, %x attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
        operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1>}
        : (tensor<2x16x5xf32>, tensor<2x16x8xf32>) -> (tensor<5x8xf32>, tensor<5xf32>)
    ```

    Constraints:
    - D-007: `weight` is [columns of `left`, columns of `right`].
    - D-013: `left` and `right` have one type, f32 or bf16.
    - D-014: inits and results are f32.
  }], unscheduledConstraints);
  let arguments = !con((ins AnyRankedTensor:$left, AnyRankedTensor:$right,
                   Optional<AnyRankedTensor>:$init_weight,
                       Optional<AnyRankedTensor>:$init_bias, Dispatch_Domain:$domain,
                           OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard), planning);
  let results = (outs Optional<AnyRankedTensor>:$weight, Optional<AnyRankedTensor>:$bias);
  let extraClassDeclaration = [{ bool followsDomain(unsigned) { return false; } }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

include "sluice/Dialect/Dispatch/DispatchAttention.td"

defvar crossEntropyDoc = [{
    Row r = (b, p) of `input` [B, T, d] has logits x[v] = sum over c of input[r, c] * weight[v, c],
    plus bias[v], for the V rows v of `weight`. Its target t is token p + offset of row b of
    `tokens` (i32 [B, T'], in [0, V); 0 beyond T'). Its loss is log(sum over v of e^x[v]) - sum over
    v of y[v] x[v]. Here y[v] = (1 - s) [v = t] + s / V, and s is `smoothing`. Rows p < `first` are
    not scored. The logits' gradient is g[r, v] = a[r] (e^(x[v] - lse[r]) - y[v]), with the incoming
    gradient a[r] = `row_gradient`[r], f32 [B, T]; without that operand a[r] = `factor` / (scored
    rows), the gradient of a mean. Rows that are not scored have a[r] = 0. A mean is over all batch
    rows together, so the domain has no axis. Logits and g are never stored: a kernel computes them
    for one block of rows or of tokens at a time. `input` and `weight` have one type, f32 or bf16;
    the input's gradient may have either; all else is f32.
}];

defvar crossEntropyAttributes = (ins I64Attr:$offset, DefaultValuedAttr<I64Attr, "0">:$first,
                                     DefaultValuedAttr<F32Attr, "0.0f">:$smoothing,
                                     DefaultValuedAttr<F32Attr, "1.0f">:$factor,
                                     OptionalAttr<StrAttr>:$label, OptionalAttr<StrAttr>:$guard);

def Dispatch_CrossEntropyOp
    : Dispatch_KernelOp<"cross_entropy", [AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "Head and cross-entropy of rows: losses and, in training, the rows' gradient";
  let description = !strconcat(crossEntropyDoc # [{
    Results: losses [B, T]; lse [B, T], the log-sum-exp of each row (natural logarithm), for
    `cross_entropy_weight_gradient`; input_gradient[r, c] = sum over v of g[r, v] * weight[v, c],
    [B, T, d]. Losses of rows that are not scored are zeros. The other results are not written at
    rows that are not valid.

    Example:

    ```mlir
    %losses = dispatch.cross_entropy %x, %weight, %tokens attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>, offset = 1 : i64,
        operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>}
        : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>) -> tensor<2x16xf32>
    ```

    Constraints:
    - D-012: the gradient of the input has its shape, f32 or bf16.
  }], crossEntropyConstraints);
  let arguments = !con((ins AnyRankedTensor:$input, AnyRankedTensor:$weight,
                        AnyRankedTensor:$tokens,
                            Optional<AnyRankedTensor>:$bias,
                                Optional<AnyRankedTensor>:$row_gradient,
                            Dispatch_Domain:$domain), crossEntropyAttributes, planning);
  let results = (outs AnyRankedTensor:$losses, Optional<AnyRankedTensor>:$lse,
                      Optional<AnyRankedTensor>:$input_gradient);
  let extraClassDeclaration = [{
    /// Returns true for the gradient of a mean, which is divided by the number of scored rows.
    bool readsLength(unsigned result) {
      return getOperation()->getResult(result) == getInputGradient();
    }
    bool zeroesInvalid(unsigned result) { return result == 0; }
    int64_t getTileRows(int64_t) { return 64; }
  }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Dispatch_CrossEntropyWeightGradientOp
    : Dispatch_KernelOp<"cross_entropy_weight_gradient", [AttrSizedOperandSegments, SharesMemory]> {
  let summary = "Head and cross-entropy: the gradients of the head's weights and bias";
  let description = !strconcat(crossEntropyDoc # [{
    weight_gradient[v, c] = init_weight[v, c] + sum over valid rows r of g[r, v] * input[r, c];
    bias_gradient[v] = init_bias[v] + sum over valid rows of g[r, v]. `lse` is the result of
    `cross_entropy`: the kernel recomputes the logits and their softmax with it. Inits may be absent
    (zero) and may share their result's memory. The order of the sum is fixed.

    Example:

    ```mlir
    %dw = dispatch.cross_entropy_weight_gradient %x, %weight, %tokens, %lse attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>, offset = 1 : i64,
        operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>}
        : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>, tensor<2x16xf32>)
            -> tensor<7x8xf32>
    ```

    Constraints:
    - D-012: the gradient of the weights has their shape, f32.
  }], crossEntropyConstraints);
  let arguments = !con((ins AnyRankedTensor:$input, AnyRankedTensor:$weight,
                        AnyRankedTensor:$tokens, AnyRankedTensor:$lse,
                            Optional<AnyRankedTensor>:$bias,
                                Optional<AnyRankedTensor>:$row_gradient,
                            Optional<AnyRankedTensor>:$init_weight,
                                Optional<AnyRankedTensor>:$init_bias,
                            Dispatch_Domain:$domain), crossEntropyAttributes, planning);
  let results = (outs AnyRankedTensor:$weight_gradient, Optional<AnyRankedTensor>:$bias_gradient);
  let extraClassDeclaration = [{
    bool followsDomain(unsigned) { return false; }
    std::optional<int64_t> getRowFactor(unsigned operand);
    bool skipsInvalid(unsigned) { return false; }
  }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Dispatch_ScatterRowsOp : Dispatch_KernelOp<"scatter_rows", [SharesMemory]> {
  let summary = "Deterministic scatter-add: the gradient of a gather";
  let description = !strconcat([{
    table[v, :] = init[v, :] + sum, in row order, over valid rows r with index[r] = v of values[r,
    :]. `index` is i32 [B, T + extra] (row b, column p), `values` [B, T, d], `table` [V, d] dense.
    `init` may be absent (zero) and may share the result's memory. `values` are f32 or bf16, tables
    f32.

    Example:

    ```mlir
    %table = dispatch.scatter_rows %index, %values, %init attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>}
        : (tensor<2x17xi32>, tensor<2x16x8xf32>, tensor<7x8xf32>) -> tensor<7x8xf32>
    ```

    Constraints:
    - D-014: `init` and `table` are f32.
    - D-016: `values` are f32 or bf16.
    - R-007: `values` have the columns of the table, and `init` has its shape (lowering).
  }], unscheduledConstraints);
  let arguments = !con((ins AnyRankedTensor:$index, AnyRankedTensor:$values,
                   Optional<AnyRankedTensor>:$init,
                       Dispatch_Domain:$domain, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard), planning);
  let results = (outs AnyRankedTensor:$table);
  let extraClassDeclaration = [{ bool followsDomain(unsigned) { return false; } }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Dispatch_SegmentScanOp : Dispatch_KernelOp<"segment_scan"> {
  let summary = "Segment ends: the prefix sum of the bits, and the positions of the set bits";
  let description = !strconcat([{
    A bit is set if it is greater than 0.5 and its row is valid. `bits` are [B, T, 1] or [B, T], f32
    or bf16. counts[b, t], i32 [B, T], is the number of set bits at positions <= t. ends[b, m], i32
    [B, M], is the position of set bit m, counted from 0, and T if there is none. totals[b], i32 [B,
    2], are the number of set bits and M. Bits beyond M have no end: the host rejects the results if
    a row's first number is greater than its second.

    Example:

    ```mlir
    %counts, %ends, %totals = dispatch.segment_scan %bits attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>}
        : (tensor<2x16x1xf32>) -> (tensor<2x16xi32>, tensor<2x5xi32>, tensor<2x2xi32>)
    ```

    Constraints:
    - D-028: `bits` is one f32 or bf16 per row of the domain; `counts`, `ends` and `totals`
      are i32 with the shapes above.
  }], unscheduledConstraints);
  let arguments = !con((ins AnyRankedTensor:$bits, Dispatch_Domain:$domain,
                            OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard), planning);
  let results = (outs AnyRankedTensor:$counts, AnyRankedTensor:$ends, AnyRankedTensor:$totals);
  let extraClassDeclaration = [{
    bool followsDomain(unsigned) { return false; }
    bool skipsInvalid(unsigned) { return false; }
    bool makesSegments() { return true; }
  }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

include "sluice/Dialect/Dispatch/DispatchRecurrence.td"
include "sluice/Dialect/Dispatch/DispatchBodies.td"

#endif
