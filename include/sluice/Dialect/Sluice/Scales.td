// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that move rows within a scale or between two scales. A part of Sluice.td, which includes it.

def Sluice_ShiftOp : Sluice_ForwardOp<"shift", [FusesAs<"Access">], ["isLazy", "getShift"]> {
  let summary = "y[p] = x[p - by], null for p < by; lazy. A negative `by` looks ahead (an "
                "adjoint, or a leak)";
  let description = [{
    Example:

    ```mlir
    %y = sluice.shift %x by 1 : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$by);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `by` $by attr-dict `:` functional-type(operands, results)";
}

def Sluice_StartOp : Sluice_ForwardOp<"start", [FusesAs<"Rows", ["getRowGroup"]>], ["getShift"]> {
  let summary = "y[p] = x[p - by] for p >= by, else the row `null`; stored";
  let description = [{
    A shift whose first rows are learned: `null` is a parameter of one row. It does not depend on
    tokens, so the relation is the relation of a shift.

    Example:

    ```mlir
    %y = sluice.start %x, %first by 3
        : (!sluice.seq<@bytes, 8, f32>, tensor<8xf32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
    - S-083: `by` is at least 1.
    - S-084: input and result have one scale and width, and `null` is one row of this width.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$null, I64Attr:$by);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `,` $null `by` $by attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_StartBackwardOp : Sluice_BackwardOp<"start_backward", [FusesAs<"Rows">]> {
  let summary = "Gradient of the first row of `start`: the sum over the batch of gradient[p], p < "
                "by";
  let description = [{
    Example:

    ```mlir
    %gradient = sluice.start_backward %dy by 3 : (!sluice.seq<@bytes, 8, f32>) -> tensor<8xf32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$gradient, I64Attr:$by);
  let results = (outs AnyRankedTensor:$null);
  let assemblyFormat = "$gradient `by` $by attr-dict `:` functional-type(operands, results)";
}

def Sluice_ClearPaddingOp : Sluice_ForwardOp<"clear_padding", [FusesAs<"Alone">],
                                             ["getNeutralName"]> {
  let summary = "y[p] = x[p] for positions of a given axis before each row's count, else `fill`";
  let description = [{
    Groups of a given axis read this, as the last group of a line may have positions past its count:
    zeros add nothing to a sum, and minus infinity to a maximum.

    Example:

    ```mlir
    %y = sluice.clear_padding %x fill 0.0
        : (!sluice.seq<@inputs, 8, f32>) -> !sluice.seq<@inputs, 8, f32>
    ```

    Constraints:
    - S-152: input and result have one type, on a given axis.
  }];
  let arguments = (ins Sluice_Sequence:$input, F32Attr:$fill);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `fill` $fill attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_ShortenOp : Sluice_ForwardOp<"shorten", [FusesAs<"Rows", ["getRowGroup"]>, SingleBlock,
                                                    IsolatedFromAbove]> {
  let summary = "Group m: its window x[k m + k - w + i], 0 <= i < w, reduced by a combiner";
  let description = !strconcat([{
    The region is the *combiner*: it maps the accumulated number and the number of a later row to
    the next accumulated number, per column, with elementwise arith and math ops. Positions where x
    is null are skipped, as are positions where `mask`, one number per row, is not greater than 0.5.
    The remaining positions are combined in order, starting from `identity`, which is neutral on
    both sides of the combiner. A result that is an infinite identity becomes zero.

    `sum`, `average` (a sum always divided by w) and `max` (the first of equal numbers wins)
    abbreviate their regions. Any other region is spelled out, with `combine` and `identity`. The
    region determines the gradient. The gradient of a sum is spread over its rows; the gradient of a
    maximum goes to the first maximal row (`shorten_max_backward`), or to none if all are minus
    infinity. Any other region has no gradient: it is forward only.

    Example:

    ```mlir
    %sum = sluice.shorten %x factor 4 sum
        : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@patches, 8, f32>
    %product = sluice.shorten %x factor 4 window 6 mask %bits combine identity 1.0 {
    ^bb0(%so_far: f32, %later: f32):
      %next = arith.mulf %so_far, %later : f32
      sluice.yield %next : f32
    } : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, f32>) -> !sluice.seq<@patches, 8, f32>
    ```

    Constraints:
    - S-130: the combiner is a region of two arguments that leaves `identity` alone.
    - S-131: an average is a sum without a mask.
    - S-132: `mask` is one number a row, f32 or bf16, on the scale of the input.
    - S-133: `mask` is stored, and not the result of a lazy op.
    - S-048: of a maximum without a mask, a layer or a norm separates an `unfold` from the
      groups (dispatch formation).
    - S-053: rows have columns (dispatch formation).
    - S-134: with a gradient, there is no mask (differentiation).
    - S-135: with a gradient, the combiner is a sum or a maximum (differentiation).
  }], windowConstraints, scaleConstraints);
  let arguments = (ins Sluice_Sequence:$input, Optional<Sluice_Sequence>:$mask, I64Attr:$factor,
                       DefaultValuedAttr<I64Attr, "0">:$window, UnitAttr:$mean, F32Attr:$identity);
  let results = (outs Sluice_Sequence:$result);
  let regions = (region SizedRegion<1>:$combiner);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$input, "int64_t":$factor,
      "::sluice::dispatch::ReduceKind":$kind, CArg<"int64_t", "0">:$window,
      CArg<"bool", "false">:$mean)>];
  let extraClassDeclaration = [{
    bool isSum();
    bool isMax();
    /// "average", "sum", "max", or "combination".
    ::llvm::StringRef getWord();
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Sluice_ShortenMaxBackwardOp : Sluice_BackwardOp<"shorten_max_backward", [FusesAs<"Rows",
    ["getRowGroup", "yieldsGroup"]>]> {
  let summary = "z[m, i d + c] = gradient[m, c] for the first i whose x[k m + k - w + i, c] is "
                "the maximum of window m, else 0";
  let description = !strconcat([{
    The input's gradient is `unfold` of this (with a window, of its `overlap_add`), which a shift
    may access past the last position.

    Example:

    ```mlir
    %dx = sluice.shorten_max_backward %x, %gradient factor 4
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@patches, 8, f32>)
        -> !sluice.seq<@patches, 32, f32>
    ```

    Constraints:
    - S-038: the gradient has the scale of the result and the width of the input.
    - S-048: a layer or a norm separates an `unfold` from the groups (dispatch formation).
  }], windowConstraints, scaleConstraints);
  let arguments = (ins Sluice_Sequence:$input, Sluice_Sequence:$gradient, I64Attr:$factor,
                       DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands `factor` $factor (`window` $window^)? attr-dict `:` "
                       "functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_UpsampleOp : Sluice_ForwardOp<"upsample", [FusesAs<"Access">], ["isLazy"]> {
  let summary = "y[p] = x[p div k]; lazy. Adjoint of shorten with sum";
  let description = !strconcat([{
    Example:

    ```mlir
    %y = sluice.upsample %x factor 4
        : (!sluice.seq<@patches, 8, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
  }], scaleConstraints);
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_FoldOp : Sluice_ForwardOp<"fold", [FusesAs<"Rows", ["getRowGroup", "yieldsGroup"]>]> {
  let summary = "Group m: the concatenated w rows of its window, x[k m + k - w + i]: w d columns";
  let description = !strconcat([{
    Example:

    ```mlir
    %y = sluice.fold %x factor 4 : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@patches, 32, f32>
    %z = sluice.fold %x factor 4 window 2
        : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@patches, 16, f32>
    ```

    Constraints:
  }], windowConstraints, scaleConstraints);
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor, DefaultValuedAttr<I64Attr,
      "0">:$window);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor (`window` $window^)? attr-dict `:` "
                       "functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_UnfoldOp : Sluice_ForwardOp<"unfold", [FusesAs<"Access">], ["isLazy", "readsMember"]> {
  let summary = "y[p] = columns (p mod k) d .. of x[p div k]; lazy. Adjoint of fold";
  let description = !strconcat([{
    Example:

    ```mlir
    %y = sluice.unfold %x factor 4 : (!sluice.seq<@patches, 32, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
  }], scaleConstraints);
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_OverlapAddOp : Sluice_BackwardOp<"overlap_add", [FusesAs<"Rows", ["getRowGroup",
    "yieldsGroup"]>]> {
  let summary = "Group m: its k concatenated rows, each the sum of the window columns at its "
                "position";
  let description = [{
    Row m of the input is window m of a `fold`: columns i d + c, 0 <= i < w, belong to position k m
    + k - w + i. Or it has d columns, which then belong to every position of the window. z[m, r d +
    c] is the sum of the columns of position k m + r: of windows m + j, 0 <= j < ceil(w / k), column
    i d + c with i = r + w - k (j + 1), where i >= 0. `unfold` of this is the adjoint of a `fold`,
    or of a `shorten` with sum, with that window. The input is stored, so that no row follows its
    last one.

    Example:

    ```mlir
    %sums = sluice.overlap_add %windows factor 4 window 6
        : (!sluice.seq<@patches, 48, f32>) -> !sluice.seq<@patches, 32, f32>
    ```

    Constraints:
    - S-096: `factor` and `window` are at least 1.
    - S-097: the input has `window` times the columns of a position, or once.
    - S-098: the input is stored, and not the result of a lazy op.
  }];
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor, I64Attr:$window);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor `window` $window attr-dict `:` "
                       "functional-type(operands, results)";
  let extraClassDeclaration = [{ std::optional<::sluice::dispatch::RowRead> getMemberRead(); }];
  let hasVerifier = 1;
}

def Sluice_LastOp : Sluice_ForwardOp<"last", [FusesAs<"Access">], ["isLazy"]> {
  let summary = "The last valid position, as a sequence of one position";
  let description = [{
    Example:

    ```mlir
    %y = sluice.last %x : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@last, 8, f32>
    ```

    Constraints:
    - S-024: the op has no gradient: it is for generation (differentiation).
  }];
  let arguments = (ins Sluice_Sequence:$input);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}
