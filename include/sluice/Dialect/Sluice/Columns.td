// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ops that move the columns of a row. A part of Sluice.td, which includes it.

def Sluice_FitOp : Sluice_ForwardOp<"fit", [FusesAs<"Alone">], ["getNeutralName"]> {
  let summary = "y[p, c] = x[p, c - at]; zeros in columns that x does not have";
  let description = [{
    Cuts a row to its first columns, or puts it between zeros. Its adjoint is the `fit` to the
    columns of x at `-at`.

    Example:

    ```mlir
    %wide = sluice.fit %x at 3 : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 20, f32>
    %narrow = sluice.fit %x at 0 : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 5, f32>
    ```

    Constraints:
    - S-170: both sequences have one scale and at least one column, and share a column.
  }];
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$at);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `at` $at attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

defvar placeConstraints = [{
    - S-171: all sequences have one scale; places are one f32 a position, and a row of places has
      the columns of at least two rows.
}];
def Sluice_PlaceOp : Sluice_ForwardOp<"place", [FusesAs<"Alone">], ["getNeutralName"]> {
  let summary = "y[p, i d + c] = x[p, c] for i = the place of row p, zeros elsewhere";
  let description = !strconcat([{
    x has d columns. A place that is not one of the result's leaves zeros. No gradient passes to
    places. The sum of such rows over a segment, whose places count from 0, is the concatenation of
    its rows.

    Example:

    ```mlir
    %rows = sluice.place %x at %numbers
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, f32>)
        -> !sluice.seq<@bytes, 24, f32>
    ```

    Constraints:
  }], placeConstraints);
  let arguments = (ins Sluice_Sequence:$input, Sluice_Sequence:$places);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `at` $places attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_PlaceBackwardOp : Sluice_BackwardOp<"place_backward", [FusesAs<"Alone">]> {
  let summary = "dx[p, c] = dy[p, i d + c] for i = the place of row p; zeros without that place";
  let description = !strconcat([{
    Example:

    ```mlir
    %dx = sluice.place_backward %dy at %numbers
        : (!sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 0, f32>)
        -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
  }], placeConstraints);
  let arguments = (ins Sluice_Sequence:$gradient, Sluice_Sequence:$places);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$gradient `at` $places attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
