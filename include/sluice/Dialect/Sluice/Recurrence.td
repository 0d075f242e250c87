// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences over rows: LSTM cells, gated linear recurrences. Separate from Sluice.td, because few
// programs need them.

#ifndef SLUICE_RECURRENCE_TD
#define SLUICE_RECURRENCE_TD

include "sluice/Dialect/Sluice/Sluice.td"

defvar recurrenceAttributes = (ins UnitAttr:$reversed, DefaultValuedAttr<I64Attr, "0">:$reset_every,
                               DefaultValuedAttr<I64Attr, "0">:$reset_at,
                               DefaultValuedAttr<I64Attr, "0">:$reset_within);

def Sluice_RecurrenceOp
    : Sluice_ForwardOp<"recurrence", [FusesAs<"Alone">, SingleBlock, IsolatedFromAbove,
                                      AttrSizedOperandSegments],
                       ["countCarried", "getNeutralName", "getRemedy"]> {
  let summary = "Rows that depend on the previous row: LSTM, gated linear recurrence";
  let description = [{
    The first results are K *states* of H columns. The input x has G H columns: G *sums* per column.
    It may be in several sequences, side by side.
    Row p of the states is, for each column j,

      state_0[p], ..., state_{K-1}[p] = cell(s_0, ..., s_{G-1}, state_0[p-1], ..., state_{K-1}[p-1])

    with s_g = x[p] at column g H + j, plus, if there is a weight U [N, H] and g H < N, that column
    of U state_0[p-1]. The *cell* is a region of scalar code. With a weight the first input has the
    N columns that U adds to, and the last result holds their sums, which the backward op reads.
    States and sums are f32, and a weight of bf16 multiplies f32 states.

    The states before the first row are zeros. They are zeros, too, before a row p that is *reset*:
    one whose number in `reset` is greater than 0.5, or with `reset_every` k > 0 each row `reset_at`
    + i k. Kernels rely on `reset_within` n > 0: at most n rows from one number in `reset` that is
    greater than 0.5 to the next, or from the first row. With `reversed`, row p + 1 takes the place
    of row p - 1, and the last row is the first.

    An LSTM has G = 4 and K = 2, h and c; a gated linear recurrence h[p] = a[p] h[p-1] + b[p] has G
    = 2, K = 1 and no weight.

    A row depends on all rows of x up to it. The proof shows this by induction: row p is computed
    from row p of x and row p - 1 of the states. A decode step computes it so, from the states'
    rings.

    Example:

    ```mlir
    %h = sluice.recurrence %gates {
    ^bb0(%a: f32, %b: f32, %before: f32):
      %kept = arith.mulf %a, %before : f32
      %next = arith.addf %kept, %b : f32
      sluice.yield %next : f32
    } : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 4, f32>
    ```

    Constraints:
    - S-164: the cell has G + K arguments of f32 and yields K values of f32, K and G at least 1.
    - S-165: states are f32 of H columns on the scale of the inputs, which have multiples of H
      columns, G H in all.
    - S-166: the weight is [N, H], f32 or bf16, for a first input of N columns of f32, and the last
      result holds their sums, like that input; without a weight there are no sums.
    - S-167: `reset` has one number per row on the input's scale; `reset_every` and `reset_within`
      are at least 0, and `reset_within` is 0 without `reset`.
    - S-020: every op of the cell has a known derivative (differentiation).
  }];
  let arguments = !con((ins Variadic<Sluice_Sequence>:$inputs, Optional<Sluice_Sequence>:$reset,
                        Optional<AnyRankedTensor>:$weight), recurrenceAttributes);
  let results = (outs Variadic<Sluice_Sequence>:$results);
  let regions = (region SizedRegion<1>:$cell);
  let assemblyFormat = [{$inputs (`reset` $reset^)? (`weight` $weight^)? attr-dict-with-keyword
      $cell `:` functional-type(operands, results)}];
  let extraClassDeclaration = [{
    ::mlir::ResultRange getStates() { return getResults().take_front(countStates()); }
    /// Returns the sums: the inputs, with a weight the last result in place of the first input.
    ::llvm::SmallVector<::mlir::Value> getSums() {
      ::llvm::SmallVector<::mlir::Value> sums(getInputs());
      if (getWeight()) {
        sums.front() = getResults().back();
      }
      return sums;
    }
    /// Returns the number of sums per column that the weight adds to.
    int64_t countWeightedSums() {
      return getWeight() ? ::llvm::cast<SequenceType>(getResults().back().getType()).getWidth() /
                               getColumns()
                         : 0;
    }
    unsigned countStates() { return getCell().front().back().getNumOperands(); }
    int64_t countSums() {
      return static_cast<int64_t>(getCell().front().getNumArguments()) - countStates();
    }
    /// Returns the number of columns of a state.
    int64_t getColumns() {
      return ::llvm::cast<SequenceType>(getResults().front().getType()).getWidth();
    }
  }];
  let hasVerifier = 1;
}

def Sluice_RecurrenceBackwardOp
    : Sluice_BackwardOp<"recurrence_backward", [FusesAs<"Alone">, SingleBlock, IsolatedFromAbove,
                                                AttrSizedOperandSegments]> {
  let summary = "Gradients of a recurrence's sums, which are its input's gradient";
  let description = [{
    Runs over the rows in the opposite order. For row p, with ds[q] the first results, f32 like the
    sums, and dk_i[q] the others, at row q, and t_i the total gradient of state i,

      t_i = gradient of state i at p, if given, + dk_i[p+1] + (i = 0 ? U^T ds[p+1] : 0)
      ds[p], dk_0[p], ..., dk_{K-1}[p] = derivative(s_0, ..., state_0[p-1], ..., t_0, ..., t_{K-1})

    where the terms of row p + 1 are zeros if it does not exist or is reset, and states before a
    reset row are zeros. `gradient_states` lists the states that have gradients. The weight's
    gradient is the product of ds and the rows before (`sluice.linear_weight_gradient`).

    Example:

    ```mlir
    %dx, %carried = sluice.recurrence_backward %gates states(%h) gradients(%dh) attributes {
        gradient_states = array<i64: 0>} {
    ^bb0(%a: f32, %b: f32, %before: f32, %total: f32):
      %da = arith.mulf %total, %before : f32
      %dbefore = arith.mulf %total, %a : f32
      sluice.yield %da, %total, %dbefore : f32, f32, f32
    } : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 4, f32>)
        -> (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 4, f32>)
    ```
  }];
  let arguments = !con((ins Variadic<Sluice_Sequence>:$sums, Variadic<Sluice_Sequence>:$states,
                        Variadic<Sluice_Sequence>:$gradients, Optional<AnyRankedTensor>:$weight,
                        Optional<Sluice_Sequence>:$reset, DenseI64ArrayAttr:$gradient_states),
                       recurrenceAttributes);
  let results = (outs Variadic<Sluice_Sequence>:$results);
  let regions = (region SizedRegion<1>:$derivative);
  let assemblyFormat = [{$sums `states` `(` $states `)` `gradients` `(` $gradients `)`
      (`weight` $weight^)? (`reset` $reset^)? attr-dict-with-keyword $derivative `:`
      functional-type(operands, results)}];
  let extraClassDeclaration = [{
    /// Returns the gradients of the sums, one sequence for each of the operand.
    ::mlir::ResultRange getSumGradients() { return getResults().take_front(getSums().size()); }
    int64_t getColumns() {
      return ::llvm::cast<SequenceType>(getStates().front().getType()).getWidth();
    }
  }];
}

#endif
