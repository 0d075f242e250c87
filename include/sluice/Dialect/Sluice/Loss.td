// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses and the training objective. A part of Sluice.td, which includes it.

def Sluice_CrossEntropyOp : Sluice_ForwardOp<"cross_entropy", [FusesAs<"Alone">, FactorInterface],
                                             ["getTargetReads", "getRemedy"]> {
  let summary = "Fused head and loss, one number per row: nats of token p + offset under "
                "softmax(x[p] W^T + b)";
  let description = [{
    One op, so that the logits of a batch are never stored. Tokens are targets here: row p is scored
    against token p + offset. Rows p < `first` are not scored: their losses are zeros. With
    `smoothing` s > 0 the target's distribution is 1 - s on the token plus s / V on every one of the
    V tokens (Szegedy et al. 2016, section 7), and the loss its cross-entropy. With `target` the
    distribution of row p is row p of the numbers that the host provides under this name, f32 [B, T,
    V]: `sluice-expand-soft-targets` expands such a loss to ops. They are not an SSA value, so only
    the loss can use them.

    If `weight` is a sequence of one number per row, these are the losses: the op returns them, and
    declares that they score the rows x[p], which may use no token after p + offset - 1. So the
    losses of `sluice.contrast` are proved like others. `sluice-expand-soft-targets` replaces such
    an op by its losses.

    Example:

    ```mlir
    %losses = sluice.cross_entropy %x, %weight, %tokens {offset = 1 : i64, smoothing = 0.1 : f32}
        : (!sluice.seq<@bytes, 8, f32>, tensor<7x8xf32>, !sluice.seq<@bytes, 0, i32>)
            -> !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-146: `target` is empty and `weight` a tensor where the loss is differentiated or lowered
      (`sluice-expand-soft-targets`).
  }];
  let arguments = (ins Sluice_Sequence:$input,
                       AnyTypeOf<[AnyRankedTensor, Sluice_Sequence]>:$weight,
                       Sluice_Sequence:$tokens,
                       Optional<AnyRankedTensor>:$bias, I64Attr:$offset, DefaultValuedAttr<I64Attr,
                           "0">:$first,
                       DefaultValuedAttr<F32Attr, "0.0f">:$smoothing, DefaultValuedAttr<StrAttr,
                           "\"\"">:$target);
  let results = (outs Sluice_Sequence:$losses);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_CrossEntropyBackwardOp
    : Sluice_BackwardOp<"cross_entropy_backward", [FusesAs<"Alone">, AttrSizedOperandSegments]> {
  let summary = "Losses and their gradients, for an incoming gradient per row";
  let description = [{
    Row p's incoming gradient is gradient[p]. Without that operand it is the gradient of `factor`
    times a mean, the same for all scored rows: factor / (scored rows). Rows p < `first` have none.

    Example:

    ```mlir
    %losses, %dx, %dw = sluice.cross_entropy_backward %x, %weight, %tokens
        {offset = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}
        : (!sluice.seq<@bytes, 8, f32>, tensor<7x8xf32>, !sluice.seq<@bytes, 0, i32>)
            -> (!sluice.seq<@bytes, 0, f32>, !sluice.seq<@bytes, 8, f32>, tensor<7x8xf32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$weight, Sluice_Sequence:$tokens,
                       Optional<AnyRankedTensor>:$bias, Optional<Sluice_Sequence>:$gradient,
                       Optional<AnyRankedTensor>:$init_weight,
                           Optional<AnyRankedTensor>:$init_bias, I64Attr:$offset,
                       DefaultValuedAttr<I64Attr, "0">:$first, DefaultValuedAttr<F32Attr,
                           "0.0f">:$smoothing,
                       DefaultValuedAttr<F32Attr, "1.0f">:$factor);
  let results = (outs Sluice_Sequence:$losses, Sluice_Sequence:$input_gradient,
                 AnyRankedTensor:$weight_gradient,
                      Optional<AnyRankedTensor>:$bias_gradient);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    bool readsLength(unsigned result) {
      return getOperation()->getResult(result) == getInputGradient();
    }
  }];
}

def Sluice_ObjectiveOp : Sluice_Op<"objective", [FusesAs<"Alone">,
                                                 DeclareOpInterfaceMethods<DifferentiableInterface>,
                                                 DeclareOpInterfaceMethods<CostInterface>,
                                                 DeclareOpInterfaceMethods<ReferenceInterface>]> {
  let summary = "The scalar that training minimizes: the sum of factors times means of losses";
  let description = [{
    Operand i, one number per row, has the name names[i] and contributes factors[i] times its mean:
    the sum over valid rows, divided by the number of rows p >= first[i]. Earlier rows must be
    zeros, as in the result of `cross_entropy`. The scalar becomes the device scalar `loss`, and
    with several means, each becomes `loss.NAME`. Losses may be mapped first, for instance weighted.
    A function without this op minimizes the mean of the losses that it returns. With `padded` the
    host specifies the padding rows, which count neither in the sums nor in the numbers of rows.
    Numbers of rows count `batches` batches, the batches of an update: the sums of one batch are its
    share of the update's means. With `weights`, the rows of each loss i whose weights[i] is not
    empty are already multiplied by the input of that name. Its mean is the sum divided by the sum
    of these weights, which the host provides.

    Example:

    ```mlir
    sluice.objective %next, %bag {names = ["next", "bag"], factors = array<f64: 1.0, 0.3>,
        first = array<i64: 0, 3>}
        : !sluice.seq<@bytes, 0, f32>, !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-050: there is at least one loss, and a name, a factor, a first row and, with
      `weights`, a name of weights for each.
    - S-051: a loss is one f32 a row.
    - S-052: losses are on a scale of factor 1 (dispatch formation).
  }];
  let arguments = (ins Variadic<Sluice_Sequence>:$losses, StrArrayAttr:$names,
                   DenseF64ArrayAttr:$factors,
                       DenseI64ArrayAttr:$first, UnitAttr:$padded, DefaultValuedAttr<I64Attr,
                           "1">:$batches,
                       OptionalAttr<StrArrayAttr>:$weights);
  let assemblyFormat = "operands attr-dict `:` type($losses)";
  let hasVerifier = 1;
}

def Sluice_MeanGradientOp : Sluice_BackwardOp<"mean_gradient", [FusesAs<"Rows">]> {
  let summary = "Gradient of `factor` times a mean over rows p >= `first`: factor / (number of "
                "these rows), for every row";
  let description = [{
    With `padded`, padding rows are not counted, and are zeros. The number of rows counts `batches`
    batches. With `weights` it is the sum of the input of this name.

    Example:

    ```mlir
    %share = sluice.mean_gradient {factor = 0.5 : f32, first = 3 : i64}
        : !sluice.seq<@bytes, 0, f32>
    ```

    Constraints:
    - S-052: losses are on a scale of factor 1 (dispatch formation).
  }];
  let arguments = (ins F32Attr:$factor, I64Attr:$first, UnitAttr:$padded,
                   DefaultValuedAttr<I64Attr, "1">:$batches,
                       DefaultValuedAttr<StrAttr, "\"\"">:$weights);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let extraClassDeclaration = [{ bool readsLength(unsigned) { return true; } }];
}
