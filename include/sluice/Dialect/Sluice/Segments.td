// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data-dependent segments: the ops that define them, and the ops between a scale and its segments.
// A part of Sluice.td, which includes it.

/// Constraints that several ops have.
defvar segmentationConstraints = [{
    - S-060: `ends` has the scale of factor 1 of an axis of segments of the scale of
      `counts`.
    - S-061: `counts` and `ends` are one i32 a position.
}];
defvar segmentRowConstraints = [{
    - S-062: rows of the fine sequence are on the scale of `counts`, rows of the coarse one
      on the scale of `ends`, with the same number of columns.
}];
defvar bitConstraints = [{
    - S-063: `bits` is one f32 a position on the scale of `counts`.
}];
defvar columnConstraints = [{
    - S-064: both sequences have one scale, and the columns that the op defines.
}];
defvar headConstraints = [{
    - S-129: queries, keys, values and results have the same number of columns, a multiple
      of `heads`, which is at least 1.
}];

/// An op of the forward pass whose relations have data-dependent terms.
class Sluice_SegmentsOp<string mnemonic, list<string> overrides>
    : Sluice_ComputeOp<mnemonic, [SegmentsInterface, DeclareOpInterfaceMethods<CausalFlowInterface,
        overrides>,
                                  DeclareOpInterfaceMethods<DifferentiableInterface>,
                                  DeclareOpInterfaceMethods<CostInterface>,
                                      DeclareOpInterfaceMethods<ReferenceInterface>,
                                      FusesAs<"Alone">]>;
defvar segmentsAssembly = "operands attr-dict `:` functional-type(operands, results)";

def Sluice_SegmentOp : Sluice_SegmentsOp<"segment", ["getReads", "getNamedPositions",
                                                     "getNeutralName"]> {
  let summary = "Segments from boundary bits: the prefix sum of the bits, and the position of "
                "each bit";
  let description = !strconcat([{
    A bit, one number per position, is 1 if it is above 0.5. Let e(m) be the position of bit m (m =
    0, 1, ...), c(t) the number of bits at positions <= t, and n the number of all bits. `counts[t]`
    = c(t), i32. `ends[m]` = e(m) for m < n, i32; for the other rows of the segmented axis it is the
    full length of the bits' scale, which is greater than every position. If n + `spare` exceeds the
    rows of the axis, the run ends with an error that names row and count: nothing is truncated. No
    gradient passes.

    On a given axis the row's own count closes the last segment: its last valid position has a bit,
    whatever `bits` has there, and the positions after it have none. So every valid position is in a
    segment.

    `longest` is a bound that the bits keep: no segment has more rows. 0 is no bound.

    Example:

    ```mlir
    %counts, %ends = sluice.segment %bits {spare = 1 : i64}
        : (!sluice.seq<@bytes, 1, f32>)
        -> (!sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
    ```

    Constraints:
    - S-066: a function has one `sluice.segment` for an axis (`--sluice-verify-model`).
  }], segmentationConstraints, bitConstraints);
  let arguments = (ins Sluice_Sequence:$bits, DefaultValuedAttr<I64Attr, "0">:$spare,
                       DefaultValuedAttr<I64Attr, "0">:$longest);
  let results = (outs Sluice_Sequence:$counts, Sluice_Sequence:$ends);
  let assemblyFormat = segmentsAssembly;
  let extraClassDeclaration = [{ bool readsBits(unsigned) { return true; } }];
  let hasVerifier = 1;
}

def Sluice_PoolSegmentsOp : Sluice_SegmentsOp<"pool_segments", ["getSegmentTerms"]> {
  let summary = "Row m: the mean of segment m's rows, or their sum; zeros if the segment is not "
                "closed";
  let description = !strconcat([{
    Bits end segments: segment m has the rows e(m - 1) < q <= e(m), e(-1) = -1, and is closed if m <
    n. With `starts` bits begin segments: e(m) <= q < e(m + 1), closed if m + 1 < n. (Nawrot et al.
    2023, equation 4.) With `sum` the rows are added up and not divided by their number.

    The bits of a sum have no gradient. The gradient of a mean's bits is straight-through: the
    gradient of the weights 1 - (m - g(t)), with the support of the hard bits. g(t) is the number of
    bits before t (with `starts`: up to t, minus one).

    Example:

    ```mlir
    %means = sluice.pool_segments %x, %bits, %counts, %ends
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 1, f32>, !sluice.seq<@bytes, 0, i32>,
            !sluice.seq<@words, 0, i32>) -> !sluice.seq<@words, 8, f32>
    ```

    Constraints:
  }], segmentationConstraints, segmentRowConstraints, bitConstraints);
  let arguments = (ins Sluice_Sequence:$input, Sluice_Sequence:$bits, Sluice_Sequence:$counts,
                   Sluice_Sequence:$ends,
                       UnitAttr:$starts, UnitAttr:$sum);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
  let extraClassDeclaration = [{
    bool readsBits(unsigned operand) { return operand == getBitsMutable().getOperandNumber(); }
  }];
  let hasVerifier = 1;
}

def Sluice_PoolSegmentsBackwardOp : Sluice_BackwardOp<"pool_segments_backward", [FusesAs<"Alone">,
    SegmentsInterface]> {
  let summary = "dx[t] = dy[m] / (rows of m), for t's segment m; zeros if the segment is not "
                "closed";
  let description = [{
    With `sum` there is no division.

    Example:

    ```mlir
    %dx = sluice.pool_segments_backward %dy, %counts, %ends {starts}
        : (!sluice.seq<@words, 8, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
        -> !sluice.seq<@bytes, 8, f32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$gradient, Sluice_Sequence:$counts, Sluice_Sequence:$ends,
                   UnitAttr:$starts, UnitAttr:$sum);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
}

def Sluice_PoolSegmentsBitsBackwardOp : Sluice_BackwardOp<"pool_segments_bits_backward",
                                                          [FusesAs<"Alone">, SegmentsInterface]> {
  let summary = "Straight-through gradient of boundary bits: suffix sums within each segment";
  let description = [{
    h[t] = <dy[m], x[t] - y[m]> / (rows of m), for t's segment m; 0 if m is not closed. db[j] is the
    sum of h[t] over t > j (with `starts`: t >= j) in j's own segment, because h sums to 0 over each
    later segment.

    Example:

    ```mlir
    %dbits = sluice.pool_segments_bits_backward %x, %means, %dy, %counts, %ends
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@words, 8, f32>, !sluice.seq<@words, 8, f32>,
            !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>) -> !sluice.seq<@bytes, 1, f32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$input, Sluice_Sequence:$pooled, Sluice_Sequence:$gradient,
                       Sluice_Sequence:$counts, Sluice_Sequence:$ends, UnitAttr:$starts);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
}

def Sluice_SelectSegmentsOp : Sluice_SegmentsOp<"select_segments", ["getSegmentTerms"]> {
  let summary = "y[m] = x[e(m)], zeros for m >= n: a segment's last row, or its first if bits "
                "begin segments";
  let description = !strconcat([{
    Example:

    ```mlir
    %lasts = sluice.select_segments %x, %counts, %ends
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
        -> !sluice.seq<@words, 8, f32>
    ```

    Constraints:
  }], segmentationConstraints, segmentRowConstraints);
  let arguments = (ins Sluice_Sequence:$input, Sluice_Sequence:$counts, Sluice_Sequence:$ends);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
  let hasVerifier = 1;
}

def Sluice_SelectSegmentsBackwardOp : Sluice_BackwardOp<"select_segments_backward",
                                                        [FusesAs<"Alone">, SegmentsInterface]> {
  let summary = "dx[e(m)] = dy[m] for m < n, zeros elsewhere";
  let description = [{
    Example:

    ```mlir
    %dx = sluice.select_segments_backward %dy, %counts, %ends
        : (!sluice.seq<@words, 8, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
        -> !sluice.seq<@bytes, 8, f32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$gradient, Sluice_Sequence:$counts, Sluice_Sequence:$ends);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
}

def Sluice_SpreadSegmentsOp : Sluice_SegmentsOp<"spread_segments", ["getSegmentTerms",
    "getNeutralName"]> {
  let summary = "z[t] = y[c(t) - by], zeros if y has no such row; stored. `by` = 1: the last "
                "closed segment";
  let description = !strconcat([{
    With `own` z[t] = y[c(t - 1) - by]: `by` = 0 is the position's own segment, which may still be
    open there. Such a read leaks where the axis is predicted.

    Example:

    ```mlir
    %z = sluice.spread_segments %y, %counts, %ends by 1
        : (!sluice.seq<@words, 8, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
        -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
  }], segmentationConstraints, segmentRowConstraints);
  let arguments = (ins Sluice_Sequence:$input, Sluice_Sequence:$counts, Sluice_Sequence:$ends,
                   I64Attr:$by, UnitAttr:$own);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands `by` $by (`own` $own^)? attr-dict `:` functional-type(operands, "
                       "results)";
  let extraClassDeclaration = [{
    int64_t getSegmentsSpanned() { return static_cast<int64_t>(getBy()) + 1; }
  }];
  let hasVerifier = 1;
}

def Sluice_SpreadSegmentsBackwardOp : Sluice_BackwardOp<"spread_segments_backward",
                                                        [FusesAs<"Alone">, SegmentsInterface]> {
  let summary = "dy[m] = sum of dz[t] over the positions t with c(t) - by = m; with `own`, "
                "c(t - 1) - by = m";
  let description = [{
    Example:

    ```mlir
    %dy = sluice.spread_segments_backward %dz, %counts, %ends by 1
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
        -> !sluice.seq<@words, 8, f32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$gradient, Sluice_Sequence:$counts, Sluice_Sequence:$ends,
                   I64Attr:$by, UnitAttr:$own);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands `by` $by (`own` $own^)? attr-dict `:` functional-type(operands, "
                       "results)";
}

def Sluice_ResampleOp : Sluice_ForwardOp<"resample", [FusesAs<"Alone">]> {
  let summary = "Rows of a text from rows of its segments, y = T x, or T^t x, by numbers of rows";
  let description = [{
    For a text of L rows and U segments T is an L x U matrix that depends on L and U alone, not on
    the segments' ends. Row p of T has a one at segment floor(p U / L). With `linear` it has the
    weights 1 - f and f at segments m and m + 1, for max((p + 1/2) U / L - 1/2, 0) = m + f with an
    integer m and 0 <= f < 1; at the last segment there is one weight, 1. (Bilinear interpolation
    whose corners are not aligned.) With `transposed` the rows of segments are T^t x: sums of rows
    of the text with these weights, in the order of the rows. Each is the adjoint of the other one.
    T is not stored.

    Example:

    ```mlir
    %rows = sluice.resample %units linear
        : (!sluice.seq<@units, 8, f32>) -> !sluice.seq<@inputs, 8, f32>
    %sums = sluice.resample %rows linear transposed
        : (!sluice.seq<@inputs, 8, f32>) -> !sluice.seq<@units, 8, f32>
    ```

    Constraints:
    - S-164: one sequence is on the scale of factor 1 of an axis of segments of the other one's
      scale, which is on a given axis; both have the same number of columns.
  }];
  let arguments = (ins Sluice_Sequence:$input, UnitAttr:$linear, UnitAttr:$transposed);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input (`linear` $linear^)? (`transposed` $transposed^)? attr-dict `:` "
                       "functional-type(operands, results)";
  let extraClassDeclaration = [{
    ::mlir::Value getFine() { return getTransposed() ? getInput() : getResult(); }
    ::mlir::Value getCoarse() { return getTransposed() ? getResult() : getInput(); }
  }];
  let hasVerifier = 1;
}

def Sluice_AttendSegmentsOp : Sluice_SegmentsOp<"attend_segments", ["getSegmentTerms",
    "getBurstRefusal"]> {
  let summary = "Row m: cross-attention of segment m's query to the segment's own rows; zeros if "
                "it is not closed";
  let description = !strconcat([{
    Segment m has the rows e(m - 1) < q <= e(m), e(-1) = -1, and is closed if m < n. Heads are
    interleaved: with H heads of D columns, column i H + h of a row is number i of head h. For each
    head, p[q] is the softmax, over the segment's rows, of (sum over i of query[m, i] key[q, i]) /
    sqrt(D), and output[m, i] is the sum of p[q] value[q, i]. `lse[m, h]` is the logarithm of the
    sum of the scores' exponentials. (Pagnoni et al. 2024, section 3.2.2.)

    Example:

    ```mlir
    %output, %lse = sluice.attend_segments %query, %x, %y, %counts, %ends heads 2
        : (!sluice.seq<@words, 8, f32>, !sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>,
            !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
            -> (!sluice.seq<@words, 8, f32>, !sluice.seq<@words, 2, f32>)
    ```

    Constraints:
    - S-147: keys and values are on the scale of `counts`; queries, outputs and `lse`, one
      f32 per head, are on the scale of its segments.
  }], headConstraints);
  let arguments = (ins Sluice_Sequence:$query, Sluice_Sequence:$key, Sluice_Sequence:$value,
                   Sluice_Sequence:$counts,
                       Sluice_Sequence:$ends, I64Attr:$heads);
  let results = (outs Sluice_Sequence:$output, Sluice_Sequence:$lse);
  let assemblyFormat = "operands `heads` $heads attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_AttendSegmentsBackwardOp : Sluice_BackwardOp<"attend_segments_backward",
                                                        [FusesAs<"Alone">, SegmentsInterface]> {
  let summary = "Gradients of the query, the keys and the values of `attend_segments`; zeros if a "
                "segment is not closed";
  let description = [{
    Example:

    ```mlir
    %dq, %dk, %dv = sluice.attend_segments_backward %query, %x, %y, %output, %lse, %gradient,
        %counts, %ends heads 2
        : (!sluice.seq<@words, 8, f32>, !sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>,
            !sluice.seq<@words, 8, f32>, !sluice.seq<@words, 2, f32>, !sluice.seq<@words, 8, f32>,
            !sluice.seq<@bytes, 0, i32>, !sluice.seq<@words, 0, i32>)
            -> (!sluice.seq<@words, 8, f32>, !sluice.seq<@bytes, 8, f32>,
            !sluice.seq<@bytes, 8, f32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$query, Sluice_Sequence:$key, Sluice_Sequence:$value,
                   Sluice_Sequence:$output,
                       Sluice_Sequence:$lse, Sluice_Sequence:$gradient, Sluice_Sequence:$counts,
                           Sluice_Sequence:$ends,
                       I64Attr:$heads);
  let results = (outs Sluice_Sequence:$query_gradient, Sluice_Sequence:$key_gradient,
                 Sluice_Sequence:$value_gradient);
  let assemblyFormat = "operands `heads` $heads attr-dict `:` functional-type(operands, results)";
}

def Sluice_AttendPartsOp : Sluice_ForwardOp<"attend_parts", [FusesAs<"Alone">,
    AttrSizedOperandSegments], ["getNeutralName"]> {
  let summary = "Attention of each row to k keys and values at the same position";
  let description = !strconcat([{
    `keys` and `values` are k sequences each, on the query's scale. For each head, p[j] is the
    softmax over j of (sum over i of query[t, i] keys_j[t, i]) / sqrt(D), and result[t, i] is the
    sum of p[j] values_j[t, i]. The layout of heads is the layout of `attend_segments`. Bytes use it
    to attend to the parts of their patch's row, after the row is repeated to them (Pagnoni et al.
    2024, section 3.3.1).

    Example:

    ```mlir
    %y = sluice.attend_parts %query keys(%k0, %k1) values(%v0, %v1) heads 4
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>,
            !sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
    - S-148: there are one or more keys on the scale of the query, and one value per key.
  }], headConstraints);
  let arguments = (ins Sluice_Sequence:$query, Variadic<Sluice_Sequence>:$keys,
                   Variadic<Sluice_Sequence>:$values, I64Attr:$heads);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$query `keys` `(` $keys `)` `values` `(` $values `)` `heads` $heads "
                       "attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_AttendPartsBackwardOp : Sluice_BackwardOp<"attend_parts_backward", [FusesAs<"Alone">,
    AttrSizedOperandSegments]> {
  let summary = "Gradients of the query, then of each key, then of each value of `attend_parts`";
  let description = [{
    Example:

    ```mlir
    %gradients:3 = sluice.attend_parts_backward %query keys(%key) values(%value) by %dy heads 4
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>,
            !sluice.seq<@bytes, 8, f32>)
            -> (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>,
            !sluice.seq<@bytes, 8, f32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$query, Variadic<Sluice_Sequence>:$keys,
                   Variadic<Sluice_Sequence>:$values,
                       Sluice_Sequence:$gradient, I64Attr:$heads);
  let results = (outs Variadic<Sluice_Sequence>:$gradients);
  let assemblyFormat = [{$query `keys` `(` $keys `)` `values` `(` $values `)` `by` $gradient `heads`
      $heads attr-dict `:`
                         functional-type(operands, results)}];
}

def Sluice_TotalOp : Sluice_ForwardOp<"total", [FusesAs<"Alone">]> {
  let summary = "y[p] = the sum of x over all valid positions, for every p: for losses only";
  let description = !strconcat([{
    It is its own adjoint.

    Example:

    ```mlir
    %sums = sluice.total %x : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
  }], columnConstraints);
  let arguments = (ins Sluice_Sequence:$input);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
  let hasVerifier = 1;
}

def Sluice_SumColumnsOp : Sluice_ForwardOp<"sum_columns", [FusesAs<"Rows">], ["getNeutralName"]> {
  let summary = "y[p] = the sum of row p, one number";
  let description = !strconcat([{
    Example:

    ```mlir
    %sums = sluice.sum_columns %x : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
  }], columnConstraints);
  let arguments = (ins Sluice_Sequence:$input);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
  let hasVerifier = 1;
}

def Sluice_RepeatColumnsOp : Sluice_ForwardOp<"repeat_columns", [FusesAs<"Rows">],
                                              ["getNeutralName"]> {
  let summary = "y[p, c] = x[p], one number, for every column c. Adjoint of `sum_columns`";
  let description = !strconcat([{
    Example:

    ```mlir
    %rows = sluice.repeat_columns %x : (!sluice.seq<@bytes, 0, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
  }], columnConstraints);
  let arguments = (ins Sluice_Sequence:$input);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = segmentsAssembly;
  let hasVerifier = 1;
}
