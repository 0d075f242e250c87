// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops of bodies, epilogues and score regions. A part of Dispatch.td, which includes it.

def Dispatch_YieldOp : Dispatch_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a body";
  let description = [{
    Example:

    ```mlir
    %y = dispatch.rows %x attributes {
        domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
        accesses = [#dispatch.access<row, factor = 1>], result_accesses = [#dispatch.access<row>]} {
    ^bb0(%row: tensor<8xf32>):
      dispatch.yield %row : tensor<8xf32>
    } : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Dispatch_ReduceKind : I32EnumAttr<"ReduceKind", "reduction over a row or a group of rows", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::sluice::dispatch";
}

def Dispatch_ReduceOp : Dispatch_Op<"reduce", [Pure]> {
  let summary = "Reduces a row over its columns to one number";
  let description = [{
    Example:

    ```mlir
    %sum = dispatch.reduce add %row : tensor<8xf32> -> f32
    ```
  }];
  let arguments = (ins Dispatch_ReduceKind:$kind, AnyRankedTensor:$row);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$kind $row attr-dict `:` type($row) `->` type($result)";
}

def Dispatch_ReduceGroupOp : Dispatch_Op<"reduce_group", [Pure, SingleBlock, IsolatedFromAbove]> {
  let summary = "Combines the k rows of a group, in order: tensor<k x d> -> tensor<d>";
  let description = [{
    The region is the *combiner*: it computes the next number from the number so far and the number
    of a later row, column by column. It is elementwise arith and math. `identity` is the neutral
    number on both sides of the combiner, and the initial number of a group with many rows.

    Two combiners have names: `add`, and `max`, which replaces the number so far only by a greater
    one, so the first of equal numbers wins, and NaN stays NaN. Any other is spelled out, with
    `combine` and `identity`.

    Example:

    ```mlir
    %sum = dispatch.reduce_group add %rows : tensor<4x8xf32> -> tensor<8xf32>
    %product = dispatch.reduce_group combine %rows identity 1.0 : f32 {
    ^bb0(%so_far: f32, %later: f32):
      %next = arith.mulf %so_far, %later : f32
      dispatch.yield %next : f32
    } : tensor<4x8xf32> -> tensor<8xf32>
    ```

    Constraints:
    - D-023: operand and result are [k, d] and [d] of one type.
    - D-070: the combiner is a region of two arguments that leaves `identity` alone.
  }];
  let arguments = (ins AnyRankedTensor:$rows, TypedAttrInterface:$identity);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$combiner);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::sluice::dispatch::ReduceKind":$kind,
                             "::mlir::Value":$rows)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Dispatch_SpreadOp : Dispatch_Op<"spread", [Pure]> {
  let summary = "Broadcasts one row to the k rows of a group: tensor<d> -> tensor<k x d>";
  let description = [{
    Example:

    ```mlir
    %rows = dispatch.spread %row : tensor<8xf32> -> tensor<4x8xf32>
    ```

    Constraints:
    - D-023: operand and result are [d] and [k, d] of one type.
  }];
  let arguments = (ins AnyRankedTensor:$row);
  let results = (outs AnyRankedTensor:$rows);
  let assemblyFormat = "$row attr-dict `:` type($row) `->` type($rows)";
  let hasVerifier = 1;
}

def Dispatch_ColumnOp : Dispatch_Op<"column", [Pure]> {
  let summary = "Column numbers of a row: tensor<d x i32> in rows, i32 in scalar regions";
  let description = [{
    Example:

    ```mlir
    %columns = dispatch.column : tensor<8xi32>
    ```
  }];
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Dispatch_PositionOp : Dispatch_Op<"position", [Pure]> {
  let summary = "Position p of the row within its sequence (i32)";
  let description = [{
    Example:

    ```mlir
    %p = dispatch.position
    ```
  }];
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict";
}

def Dispatch_StraightThroughOp
    : Dispatch_Op<"straight_through", [Pure, AllTypesMatch<["value", "surrogate", "result"]>]> {
  let summary = "The first operand, with the derivative of the second";
  let description = [{
    It appears in regions of model IR, not in dispatches. The derivative of the result is 0 by
    `value` and 1 by `surrogate` (Bengio et al. 2013, arXiv 1308.3432, section 4).

    Example:

    ```mlir
    %bit = dispatch.straight_through %hard, %soft : f32
    ```
  }];
  let arguments = (ins AnyType:$value, AnyType:$surrogate);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value `,` $surrogate attr-dict `:` type($result)";
}

def Dispatch_RandomOp : Dispatch_Op<"random", [Pure]> {
  let summary = "Uniform random number in [0, 1), f32, one per element";
  let description = [{
    Element e = r * width + column (64 bits; r the global row). `id` names the stream; a launch may
    add to it. Philox4x32-10 with counter (low 32 bits of e / 4, bits 32.. of e / 4, id, low 32 bits
    of the device scalar step) and key (low, high 32 bits of the device scalar seed); word w = e mod
    4 of the result; the number is (w >> 8) * 2^-24. `width` is the true width of a row. With
    `fixed_step` the step in the counter is 0 (initialization). In a dispatch with
    `draws_by_update`, r is the number of the batch row in the device scalar draw_rows, times
    `draw_parts` times the rows per batch row, plus the row's position.
    Fusion may move it into another dispatch: it depends on nothing else.

    Example:

    ```mlir
    %numbers = dispatch.random {id = 3 : i64, width = 8 : i64} : tensor<8xf32>
    ```
  }];
  let arguments = (ins I64Attr:$id, I64Attr:$width, UnitAttr:$fixed_step);
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
