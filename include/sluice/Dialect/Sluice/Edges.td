// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Edge lists between rows of a given axis: data in addition to its tokens. A part of Sluice.td,
// which includes it.

/// Constraints that several ops have.
defvar edgeConstraints = [{
    - S-160: rows are on a given axis, or on an axis of segments of one, as an edge may connect
      a row with a later one; `capacity` is at least 1, or 0 with `drawn`.
    - S-163: `of` names a stream of the given axis, where rows are segments, and there alone.
}];

class Sluice_EdgesOp<string mnemonic, list<Trait> traits, list<string> overrides>
    : Sluice_ForwardOp<mnemonic, traits, overrides> {
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the number of entries of all lists of a batch row: each edge is in two lists.
    int64_t getEntries() { return 2 * static_cast<int64_t>(getCapacity()); }
  }];
}

def Sluice_DegreesOp : Sluice_EdgesOp<"degrees", [FusesAs<"Rows">], ["getNeutralName"]> {
  let summary = "y[p] = 1 + the number of neighbours of row p";
  let description = !strconcat([{
    The host provides the lists of the named `edges`, at most `capacity` edges per batch row, as i32
    [B, N + 2 capacity] for a scale of N positions. Number p < N is the end of the list of row p,
    which begins where the list of row p - 1 ends. Number N + i is entry i, the position of a
    neighbour. An edge is in the lists of both of its rows, the entries of a list ascend, and rows
    past the count of the axis have none. Rows may be segments of a given axis: then the edges
    belong to the stream `of` of that axis, whose tokens are the bits that cut it.

    With `drawn` no list is stored: half of all pairs of rows are edges, by random numbers. The host
    provides i32 [B, N], with a number k from 0 to 2^31 - 1 of the batch row at its valid positions
    and -1 at the others. Valid rows p and q > p have an edge if the first word of Philox4x32-10
    with the counter (p, q, 0, 0) and the key (k, 0) is at least 2^31. So an edge depends on k and
    on the positions of its rows alone.

    Example:

    ```mlir
    %degrees = sluice.degrees over "links" capacity 6 : () -> !sluice.seq<@inputs, 0, f32>
    %drawn = sluice.degrees over "pairs" drawn : () -> !sluice.seq<@inputs, 0, f32>
    ```

    Constraints:
    - S-161: the result is one f32 per position.
  }], edgeConstraints);
  let arguments = (ins StrAttr:$edges, OptionalAttr<StrAttr>:$bits,
                   DefaultValuedAttr<I64Attr, "0">:$capacity, UnitAttr:$drawn);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "`over` $edges (`of` $bits^)? (`capacity` $capacity^)? (`drawn` $drawn^)? "
                       "attr-dict `:` functional-type(operands, results)";
}

def Sluice_GraphSumOp : Sluice_EdgesOp<"graph_sum", [FusesAs<"Rows", ["getRowGroup"]>,
    AttrSizedOperandSegments], []> {
  let summary = "y[p] = l[p] (r[p] x[p] + sum of r[q] x[q] over the neighbours q of p)";
  let description = !strconcat([{
    This is L (A + I) R x, for the matrix A of the edges of `sluice.degrees` and diagonal matrices L
    and R of `left` and `right`, which are I if they are absent. With both 1 / sqrt(degrees) it is
    the graph convolution matrix; with `left` 1 / degrees alone it is the mean over a row and its
    neighbours. A is symmetric, so the adjoint is the same op with `left` and `right` exchanged. No
    gradient passes to them. Neighbours are added in the order of the list; with `drawn`, in the
    order of their positions.

    Example:

    ```mlir
    %mean = sluice.graph_sum %e left(%share) over "links" capacity 6
        : (!sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>)
        -> !sluice.seq<@inputs, 8, f32>
    ```

    Constraints:
    - S-162: input and result have one scale and one number of columns, `left` and `right` are
      one f32 per position on that scale.
  }], edgeConstraints);
  let arguments = (ins Sluice_Sequence:$input, Optional<Sluice_Sequence>:$left,
                       Optional<Sluice_Sequence>:$right, StrAttr:$edges,
                       OptionalAttr<StrAttr>:$bits, DefaultValuedAttr<I64Attr, "0">:$capacity,
                       UnitAttr:$drawn);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input (`left` `(` $left^ `)`)? (`right` `(` $right^ `)`)? `over` $edges "
                       "(`of` $bits^)? (`capacity` $capacity^)? (`drawn` $drawn^)? attr-dict `:` "
                       "functional-type(operands, results)";
}

def Sluice_GraphAttentionOp : Sluice_ForwardOp<"graph_attention", [FusesAs<"Alone">,
    AttrSizedOperandSegments], ["getNeutralName"]> {
  let summary = "y[p] = the sum of a[p, q] z[q] over p and its neighbours, for a softmax a";
  let description = !strconcat([{
    Row p of a is the softmax over these q of f(s[p] + t[q]), where f(x) is x for x > 0 and `leak` x
    elsewhere, and s, t and z are `source`, `target` and `value` (Velickovic et al. 2018, equations
    3 and 4, with one head). The neighbours are the rows of the edges of `sluice.degrees`, or with
    `range` the rows first[p] <= q < end[p], p among them; q is then in the range of p exactly where
    p is in the range of q. `lse` is the logarithm of the sum of the exponentials, which the
    backward op needs. No a[p, q] is stored.

    Example:

    ```mlir
    %y, %lse = sluice.graph_attention %s, %t, %z over "links" capacity 6 leak 2.000000e-01
        : (!sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 8, f32>)
        -> (!sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>)
    ```

    Constraints:
    - S-167: values and result have one scale and one number of columns, at least 1; `source`,
      `target` and `lse` are one f32 per position there, and `first` and `end` one i32.
    - S-168: there are either edges with a capacity, or a range.
  }], edgeConstraints);
  let arguments = (ins Sluice_Sequence:$source, Sluice_Sequence:$target, Sluice_Sequence:$value,
                   Optional<Sluice_Sequence>:$first, Optional<Sluice_Sequence>:$end,
                   OptionalAttr<StrAttr>:$edges, OptionalAttr<StrAttr>:$bits,
                   OptionalAttr<I64Attr>:$capacity, F32Attr:$leak);
  let results = (outs Sluice_Sequence:$result, Sluice_Sequence:$lse);
  let assemblyFormat = "$source `,` $target `,` $value (`range` `(` $first^ `,` $end `)`)? "
                       "(`over` $edges^ (`of` $bits^)? `capacity` $capacity)? `leak` $leak "
                       "attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the number of entries of all lists of a batch row: each edge is in two lists.
    int64_t getEntries() { return 2 * static_cast<int64_t>(*getCapacity()); }
  }];
}

def Sluice_GraphAttentionBackwardOp : Sluice_BackwardOp<"graph_attention_backward",
                                                        [FusesAs<"Alone">,
    AttrSizedOperandSegments]> {
  let summary = "Gradients of `source`, `target` and `value` of `graph_attention`";
  let description = [{
    Sums over q and sums over p are over the same rows: p is a neighbour of q where q is one of p.

    Example:

    ```mlir
    %ds, %dt, %dz = sluice.graph_attention_backward %s, %t, %z result %y, %lse by %dy
        range(%first, %end) leak 2.000000e-01
        : (!sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 8, f32>,
            !sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>,
            !sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, i32>,
            !sluice.seq<@inputs, 0, i32>)
        -> (!sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>,
            !sluice.seq<@inputs, 8, f32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$source, Sluice_Sequence:$target, Sluice_Sequence:$value,
                   Sluice_Sequence:$output, Sluice_Sequence:$lse, Sluice_Sequence:$gradient,
                   Optional<Sluice_Sequence>:$first, Optional<Sluice_Sequence>:$end,
                   OptionalAttr<StrAttr>:$edges, OptionalAttr<StrAttr>:$bits,
                   OptionalAttr<I64Attr>:$capacity, F32Attr:$leak);
  let results = (outs Sluice_Sequence:$source_gradient, Sluice_Sequence:$target_gradient,
                 Sluice_Sequence:$value_gradient);
  let assemblyFormat = "$source `,` $target `,` $value `result` $output `,` $lse `by` $gradient "
                       "(`range` `(` $first^ `,` $end `)`)? "
                       "(`over` $edges^ (`of` $bits^)? `capacity` $capacity)? `leak` $leak "
                       "attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    int64_t getEntries() { return 2 * static_cast<int64_t>(*getCapacity()); }
  }];
}
