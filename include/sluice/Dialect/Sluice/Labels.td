// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Labels of the data, the entropy of a model's predictions, and the progress of training. Separate
// from Sluice.td, because few programs need them.

#ifndef SLUICE_LABELS_TD
#define SLUICE_LABELS_TD

include "sluice/Dialect/Sluice/Hashed.td"

def Sluice_LabelsOp : Sluice_ForwardOp<"labels", [FusesAs<"Rows">], ["getRemedy"]> {
  let summary = "y[p] = label of token p from the data, 0 or 1: for losses only";
  let description = [{
    Labels from a tokenizer or from another model depend on the whole text. So a label depends on
    every token, and a prediction that uses a label is rejected. The host provides f32 [B, T] as
    `label`. The reference does not have them: there a label is 1 if the sum of p and the tokens is
    odd, as an example of a rule that looks ahead.

    With `numbers` they are the values of a named input, f32 [B, T] or [B, T, width].

    Example:

    ```mlir
    %label = sluice.labels "word" of %tokens
        : (!sluice.seq<@bytes, 0, i32>) -> !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-120: tokens are an argument of the function, and the result is one f32 per token on
      their scale; with `numbers` it may have columns.
  }];
  let arguments = (ins Sluice_Sequence:$tokens, StrAttr:$label, UnitAttr:$numbers);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$label `of` $tokens attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_EntropyOp : Sluice_ForwardOp<"entropy", [FusesAs<"Rows">], ["getNeutralName"]> {
  let summary = "y[p] = the entropy of softmax(x[p]) over the columns, in nats, one column";
  let description = [{
    It determines segment ends, so no gradient passes through it.

    Example:

    ```mlir
    %h = sluice.entropy %logits : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 1, f32>
    ```

    Constraints:
    - S-127: rows are f32 and the result is one column of f32 on their scale.
  }];
  let arguments = (ins Sluice_Sequence:$logits);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_SoftLossOp : Sluice_ForwardOp<"soft_loss", [FusesAs<"Rows">]> {
  let summary = "y[p] = -sum over v of t[p, v] log softmax(z[p])[v], in nats; 0 for p < first";
  let description = [{
    The targets t are the numbers that the host provides as `target`, f32 [B, T, V], and not a value
    of the model. The reference has none and computes them from the tokens, as an example of a rule
    that looks ahead.

    Example:

    ```mlir
    %losses = sluice.soft_loss %logits, %tokens against "teacher"
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, i32>) -> !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-145: tokens are an argument of the function; rows are f32, losses are one f32 per
      row, and all have one scale; `target` is not empty.
  }];
  let arguments = (ins Sluice_Sequence:$logits, Sluice_Sequence:$tokens, StrAttr:$target,
                       DefaultValuedAttr<I64Attr, "0">:$first);
  let results = (outs Sluice_Sequence:$losses);
  let assemblyFormat = "operands `against` $target attr-dict `:` functional-type(operands, "
                       "results)";
  let hasVerifier = 1;
}

def Sluice_SoftLossBackwardOp : Sluice_BackwardOp<"soft_loss_backward", [FusesAs<"Rows">]> {
  let summary = "dz[p] = dy[p] (softmax(z[p]) (sum over v of t[p, v]) - t[p]); zeros for p < first";
  let description = [{
    Example:

    ```mlir
    %dlogits = sluice.soft_loss_backward %logits, %tokens, %gradient against "teacher"
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@bytes, 0, f32>)
            -> !sluice.seq<@bytes, 8, f32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$logits, Sluice_Sequence:$tokens, Sluice_Sequence:$gradient,
                   StrAttr:$target,
                       DefaultValuedAttr<I64Attr, "0">:$first);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands `against` $target attr-dict `:` functional-type(operands, "
                       "results)";
}

def Sluice_ContrastOp : Sluice_ForwardOp<"contrast", [FusesAs<"Alone">], ["getRemedy"]> {
  let summary = "Losses of rows that choose the next row of another sequence among all its rows: "
                "y[p] = log sum over c of exp(x[p] v[c]) - x[p] v[p + 1], in nats";
  let description = [{
    The sum is over the valid rows v[c] of all texts of the batch, the candidates; they have
    gradients too. Row p has no loss, zero, if v[p + 1] is not valid. Rows of v whose number in
    `valid` is 0 are not valid either. With `parts` n only rows of the first B / n texts of a batch
    of B have losses; the other texts give candidates alone. A loss depends on other texts and on
    later rows, so a prediction that uses it is rejected. The products are never stored.

    Example:

    ```mlir
    %losses = sluice.contrast %x, %v
        : (!sluice.seq<@patches, 8, f32>, !sluice.seq<@patches, 8, f32>)
            -> !sluice.seq<@patches, 0, f32>
    ```

    Constraints:
    - S-178: rows and candidates have one type, losses and `valid` are one f32 per row, and all
      have one scale; `parts` is at least 1 and divides the batch.
  }];
  let arguments = (ins Sluice_Sequence:$rows, Sluice_Sequence:$candidates,
                       Optional<Sluice_Sequence>:$valid,
                       DefaultValuedAttr<I64Attr, "1">:$parts);
  let results = (outs Sluice_Sequence:$losses);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_ContrastBackwardOp : Sluice_BackwardOp<"contrast_backward", [FusesAs<"Alone">]> {
  let summary = "Gradients of `contrast` by its rows and its candidates, for a gradient per row";
  let description = [{
    With s[p, c] the softmax of the products of row p and g[p] its incoming gradient, dx[p] = g[p]
    (sum over c of s[p, c] v[c] - v[p + 1]), and dv[c] is the sum over the rows p of all texts of
    g[p] (s[p, c] - [c = p + 1]) x[p]. The products are computed again.

    Example:

    ```mlir
    %dx, %dv = sluice.contrast_backward %x, %v, %g
        : (!sluice.seq<@patches, 8, f32>, !sluice.seq<@patches, 8, f32>,
           !sluice.seq<@patches, 0, f32>)
            -> (!sluice.seq<@patches, 8, f32>, !sluice.seq<@patches, 8, f32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$rows, Sluice_Sequence:$candidates,
                       Sluice_Sequence:$gradient, Optional<Sluice_Sequence>:$valid,
                       DefaultValuedAttr<I64Attr, "1">:$parts);
  let results = (outs Sluice_Sequence:$rows_gradient, Sluice_Sequence:$candidates_gradient);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{ bool readsLength(unsigned) { return true; } }];
}

def Sluice_CountedRowsOp : Sluice_ForwardOp<"counted_rows", [FusesAs<"Alone">]> {
  let summary = "y[p] = 1 in rows that the mean of a contrast counts, else 0";
  let description = [{
    These are the rows p >= `first` whose number `every` divides, in the first B / `parts` texts of
    a batch of B. With `padded` the host specifies padding rows, which are not counted.

    Example:

    ```mlir
    %weights = sluice.counted_rows {first = 4 : i64, every = 4 : i64, parts = 2 : i64}
        : !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-179: the result is one f32 per row of a scale of factor 1, `first` is at least 0, `every` at
      least 1, and `parts` at least 1 and a divisor of the batch.
  }];
  let arguments = (ins DefaultValuedAttr<I64Attr, "0">:$first,
                       DefaultValuedAttr<I64Attr, "1">:$every,
                       DefaultValuedAttr<I64Attr, "1">:$parts, UnitAttr:$padded);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Sluice_WeightSumOp
    : Sluice_Op<"weight_sum", [FusesAs<"Alone">, DeclareOpInterfaceMethods<CostInterface>,
                               DeclareOpInterfaceMethods<ReferenceInterface>]> {
  let summary = "Stores the sum of weights that the model computes, for the mean of a loss";
  let description = [{
    The losses that `sluice.objective` lists with the weights `name` are divided by this sum, or by
    1 where it is 0. Device scalars `weights.NAME.FIRST` and `counted.NAME` have the divisor and the
    sum. With `given` the host provides both: it runs @count on each batch of an update of several
    batches before their gradients, and adds the sums.

    Example:

    ```mlir
    sluice.weight_sum %weights as "next.contrast" from 4 : !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-180: weights are one f32 per row, and the name is not empty.
  }];
  let arguments = (ins Sluice_Sequence:$weights, StrAttr:$name, I64Attr:$first, UnitAttr:$given);
  let assemblyFormat = "$weights `as` $name `from` $first attr-dict `:` type($weights)";
  let hasVerifier = 1;
}

def Sluice_UpdateOp : Sluice_ForwardOp<"update", [FusesAs<"Rows">]> {
  let summary = "y[p] = the number of the current update, from 1, for every p";
  let description = [{
    The host provides the number, which also determines the learning rate, so that schedules
    continue when a run is resumed. It is exact up to 2^24.

    Example:

    ```mlir
    %number = sluice.update : !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-128: the result is one f32 a position.
  }];
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif
