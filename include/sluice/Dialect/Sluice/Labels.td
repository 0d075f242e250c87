// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Labels of the data, the entropy of a model's predictions, and the progress of training. Apart
// from Sluice.td, as few programs need them.

#ifndef SLUICE_LABELS_TD
#define SLUICE_LABELS_TD

include "sluice/Dialect/Sluice/Hashed.td"

def Sluice_LabelsOp : Sluice_ForwardOp<"labels", [FusesAs<"Rows">], ["getRemedy"]> {
  let summary = "y[p] = what data beside the tokens say of token p, 0 or 1: for losses, which no "
                "row reads";
  let description = [{
    A tokenizer's segments, or what another model found, follow from the whole text. So a label
    reads every token, and a prediction that reads it is refused. The host gives f32 [B, T] as
    `label`. The reference does not have them. There a label is 1 where p and the tokens add up to
    an odd number, which stands for any rule that looks ahead.

    With `numbers` they are those of a named input, f32 [B, T] or [B, T, width].

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
    It decides where segments end, and so no gradient passes.

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
    The targets t are the numbers that the host gives as `target`, f32 [B, T, V], and no value of
    the model. The reference, which has none, makes them of the tokens: a stand-in for any rule that
    looks ahead.

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

def Sluice_UpdateOp : Sluice_ForwardOp<"update", [FusesAs<"Rows">]> {
  let summary = "y[p] = the number of the update that is made, from 1, for every p";
  let description = [{
    The host's number, which the learning rate follows too. So what is scheduled goes on as it was
    where a run is resumed. Up to 2^24 it is exact.

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
