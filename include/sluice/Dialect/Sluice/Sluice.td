// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model dialect: sequences on named scales, and the ops whose scale, shift or mask an analysis needs.

#ifndef SLUICE_TD
#define SLUICE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "sluice/Dialect/Dispatch/DispatchInterfaces.td"
include "sluice/Dialect/Sluice/SluiceInterfaces.td"

def Sluice_Dialect : Dialect {
  let name = "sluice";
  let cppNamespace = "::sluice";
  let summary = "Multi-scale sequence models";
  let description = [{
    A module holds `sluice.axis`, `sluice.scale` and `sluice.parameter` symbols and functions over sequences. Module
    attributes `sluice.batch` and `sluice.context` (i64) are the capacities B and N. A sequence on a scale of factor f has
    ceil(length / f) valid positions of ceil(N / f). A function's first argument is the tokens of its axis; others are
    tokens of given axes.

    A sequence is a function on all integers: outside its valid positions it is null (zeros). `shift` and `upsample` are
    *lazy*: their results extend past the end of their operand's scale. So `shorten` of `shift` reads
    x[k m + i - s] of the unshifted sequence. The adjoint of `shorten` is exactly `upsample`, that of `shift` exactly the
    opposite shift. Every other op defines its result on valid positions alone.

    A group of k may have a *window* of w rows: of group m those that end where the group ends, x[k m + k - w + i], 0 <= i < w.
    With w > k windows overlap, with w < k rows between them are left out; w = k where none is given. Then a row stands in
    several windows or none, and the adjoint is `unfold` of `overlap_add`.

    A sequence's element type says how it is stored, f32 or bf16; regions compute in f32. A parameter is f32. Reading it as
    bf16 gives its *compute copy*, and a linear map, or head, multiplies in the type that it reads its weight in: an input
    of another type is converted by a map of its own (`sluice-convert-factors`). Gradients of sequences have the sequences'
    types, those of parameters are f32. Shifts, folds, upsampling and `last` may change the type, as they move rows.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

include "sluice/Dialect/Sluice/Origin.td"

def Sluice_Sequence : TypeDef<Sluice_Dialect, "Sequence"> {
  let mnemonic = "seq";
  let summary = "A sequence of rows on a scale";
  let description = "`!sluice.seq<@scale, d, f32>`: d numbers a position; d = 0: one number a position.";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$scale, "int64_t":$width, "::mlir::Type":$element);
  let assemblyFormat = "`<` $scale `,` $width `,` $element `>`";
}

class Sluice_Op<string mnemonic, list<Trait> traits = []> : Op<Sluice_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

def Sluice_AxisOp : Sluice_Op<"axis", [Symbol]> {
  let summary = "An independent sequence: a decoder's tokens, what is given before them, or segments of another scale";
  let description = [{
    One axis counts the tokens that are predicted: N of them at most, `length` of them valid. Any other is *given*, with a
    capacity and a vocabulary of its own: all of it is known before the first token is predicted. It has one scale, of factor 1, and each
    row of a batch has its own count of valid positions there. What lies past the count is computed from whatever stands
    there, and attention leaves those keys out. Sequences of two axes meet in attention alone, and no query of a given
    axis reads the tokens that are predicted.

    A *segmented* axis counts the segments of the scale `segments`, which boundary bits make (`sluice.segment`): `rows` of them at
    most, and each row of a batch has its own number n. All `rows` are computed; what stands in rows m >= n is read by no row that is
    scored. Boundaries are said to be at least `least` positions apart: nothing checks it, and no proof uses it. Ops that move between the two scales are those named after segments.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<I64Attr>:$capacity, OptionalAttr<I64Attr>:$vocabulary,
                       OptionalAttr<FlatSymbolRefAttr>:$segments, OptionalAttr<I64Attr>:$rows,
                       DefaultValuedAttr<I64Attr, "1">:$least);
  let assemblyFormat = [{$sym_name (`given` $capacity^ `vocabulary` $vocabulary)?
                         (`segments` `of` $segments^ `capacity` $rows (`least` $least^)?)? attr-dict}];
  let hasVerifier = 1;
}

def Sluice_ScaleOp : Sluice_Op<"scale", [Symbol]> {
  let summary = "An axis at a constant factor";
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$axis, I64Attr:$factor);
  let assemblyFormat = "$sym_name `on` $axis `factor` $factor attr-dict";
  let hasVerifier = 1;
}

def Sluice_ParameterOp : Sluice_Op<"parameter", [Symbol]> {
  let summary = "A trained tensor, or several stored one after the other; or a constant table";
  let description = [{
    `names` and `sizes` say which weights, as files name them, are stored here, along dimension 0, in order. `initial` is
    `zeros`, `ones`, `normal` (with `deviation`) or `identity` (of a matrix: 1 where row and column are the same, else 0). Of frozen tables it may
    also be `members` (1 in the rows that `members` lists, 0 elsewhere),
    `rotary` (row p: cosine and sine of p base^(-2i/D) at
    2i and 2i + 1) or `sinusoidal` (sine and cosine there, base^(-2i/d), of p times `stride`). `decay` marks matrices that weight decay applies to.
    `held` marks weights that training leaves as they were given: no gradient reaches them.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type, StrArrayAttr:$names,
                       DenseI64ArrayAttr:$sizes, StrAttr:$initial,
                       DefaultValuedAttr<F64Attr, "0.0">:$deviation, DefaultValuedAttr<F64Attr, "10000.0">:$base,
                       UnitAttr:$decay, UnitAttr:$frozen, DefaultValuedAttr<I64Attr, "1">:$stride,
                       OptionalAttr<DenseI64ArrayAttr>:$members, UnitAttr:$held);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
}

class Sluice_ComputeOp<string mnemonic, list<Trait> traits = []> : Sluice_Op<mnemonic, !listconcat([Pure], traits)>;

/// An op of the forward pass answers every question; an op that differentiation makes has no backward of its own. `says` are the
/// methods of CausalFlowInterface that it has beside those without a default.
class Sluice_ForwardOp<string mnemonic, list<Trait> traits = [], list<string> says = []>
    : Sluice_ComputeOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<CausalFlowInterface, says>, DeclareOpInterfaceMethods<DifferentiableInterface>,
        DeclareOpInterfaceMethods<CostInterface>, DeclareOpInterfaceMethods<ReferenceInterface>], traits)>;
class Sluice_BackwardOp<string mnemonic, list<Trait> traits = []>
    : Sluice_ComputeOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<ReferenceInterface>,
                                               DeclareOpInterfaceMethods<CostInterface>,
                                               DeclareOpInterfaceMethods<RowReadsInterface>], traits)>;
def FusedAccess : DeclareOpInterfaceMethods<FusionInterface, ["composeAccess"]>;
def FusedBody : DeclareOpInterfaceMethods<FusionInterface, ["emitBody"]>;
def FusedGroup : DeclareOpInterfaceMethods<FusionInterface, ["emitBody", "getRowGroup"]>;
def FusedWholeGroup : DeclareOpInterfaceMethods<FusionInterface, ["emitBody", "getRowGroup", "yieldsGroup"]>;
def FusedAlone : DeclareOpInterfaceMethods<FusionInterface, ["emitDispatches"]>;
def FusedContraction : DeclareOpInterfaceMethods<FusionInterface, ["emitBody"]>;

def Sluice_ReadOp : Sluice_Op<"read", [Pure]> {
  let summary = "The value of a parameter: its f32 master, or its bf16 compute copy";
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = "$parameter attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Sluice_StoreGradientOp : Sluice_Op<"store_gradient"> {
  let summary = "The gradient of a parameter, once a step";
  let arguments = (ins FlatSymbolRefAttr:$parameter, AnyRankedTensor:$gradient);
  let assemblyFormat = "$parameter `,` $gradient attr-dict `:` type($gradient)";
}

//===----------------------------------------------------------------------===//
// Inputs, elementwise maps
//===----------------------------------------------------------------------===//

def Sluice_EmbedOp : Sluice_ForwardOp<"embed", [FusedBody]> {
  let summary = "Row of a table by token: y[p] = table[token[p]]";
  let description = "A map of tokens may stand in their place if it ends in (x and c) mod n, n at most the table's rows.";
  let arguments = (ins Sluice_Sequence:$tokens, AnyRankedTensor:$table);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_EmbedBackwardOp : Sluice_BackwardOp<"embed_backward", [FusedAlone]> {
  let summary = "Gradient of an embedding's table: rows added by token, in order of position";
  let arguments = (ins Sluice_Sequence:$tokens, Sluice_Sequence:$gradient, Optional<AnyRankedTensor>:$init);
  let results = (outs AnyRankedTensor:$table);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_PositionOp : Sluice_ForwardOp<"position", [FusedBody]> {
  let summary = "Row of a table by position: y[p] = table[p]";
  let arguments = (ins AnyRankedTensor:$table);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_PositionBackwardOp : Sluice_BackwardOp<"position_backward", [FusedAlone]> {
  let summary = "Gradient of a position table: the sum over the batch";
  let arguments = (ins Sluice_Sequence:$gradient);
  let results = (outs AnyRankedTensor:$table);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_MapOp : Sluice_ForwardOp<"map", [FusedBody, SingleBlock, IsolatedFromAbove]> {
  let summary = "Scalar code applied to every element of sequences of one scale and width";
  let description = [{
    Residual sums, activations and dropout are maps. The region takes one f32 an operand (i32 of a sequence of i32) and yields one; it is
    straight-line arith and math, and `dispatch.random` (dropout's draw, which differentiation and recomputation repeat).
    Its backward is a map too, made by differentiating the region.

    ```mlir
    %y = sluice.map(%a, %b) { ^bb0(%x: f32, %r: f32): %s = arith.addf %x, %r : f32  sluice.yield %s : f32 } : ...
    ```
  }];
  let arguments = (ins Variadic<Sluice_Sequence>:$inputs);
  let results = (outs Sluice_Sequence:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict-with-keyword $body `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_YieldOp : Sluice_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a scalar region";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Norms, linear maps
//===----------------------------------------------------------------------===//

def Sluice_NormOp : Sluice_ForwardOp<"norm", [FusedBody]> {
  let summary = "Layer norm, or RMS norm where `rms` is set";
  let description = [{
    Layer: y = (x - mean) rstd gain + bias, rstd = 1/sqrt(mean((x - mean)^2) + epsilon). RMS: y = x rstd gain (+ bias),
    rstd = 1/sqrt(mean(x^2) + epsilon); `mean` is then zero. `mean` and `rstd` are kept for backward.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$gain, Optional<AnyRankedTensor>:$bias,
                       UnitAttr:$rms, F64Attr:$epsilon);
  let results = (outs Sluice_Sequence:$result, Sluice_Sequence:$mean, Sluice_Sequence:$rstd);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_NormBackwardOp : Sluice_BackwardOp<"norm_backward", [FusedBody]> {
  let summary = "Gradients of a norm's input, gain and bias";
  let description = [{
    With h = (x - mean) rstd and e = dy gain: layer dx = rstd (e - mean(e) - h mean(e h)); RMS dx = rstd (e - h mean(e h)), h = x rstd.
    dgain = sum over rows of dy h, dbias = sum of dy.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$gain, Sluice_Sequence:$mean, Sluice_Sequence:$rstd,
                       Sluice_Sequence:$gradient, UnitAttr:$rms);
  let results = (outs Sluice_Sequence:$input_gradient, AnyRankedTensor:$gain_gradient,
                      Optional<AnyRankedTensor>:$bias_gradient);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_LinearOp : Sluice_ForwardOp<"linear", [FusedContraction, FactorInterface]> {
  let summary = "y = x W^T + b, W [out, in]";
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$weight, Optional<AnyRankedTensor>:$bias);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_LinearInputGradientOp : Sluice_BackwardOp<"linear_input_gradient", [FusedContraction]> {
  let summary = "dx = dy W";
  let arguments = (ins Sluice_Sequence:$gradient, AnyRankedTensor:$weight);
  let results = (outs Sluice_Sequence:$result);
  let extraClassDeclaration = [{ bool multipliesByInput() { return true; } }];
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_LinearWeightGradientOp
    : Sluice_BackwardOp<"linear_weight_gradient", [FusedAlone, AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "dW = init + sum over valid rows of dy^T x, and db = init + sum of dy";
  let arguments = (ins Sluice_Sequence:$gradient, Sluice_Sequence:$input, Optional<AnyRankedTensor>:$init_weight,
                       Optional<AnyRankedTensor>:$init_bias);
  let results = (outs Optional<AnyRankedTensor>:$weight, Optional<AnyRankedTensor>:$bias);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def attentionAttributes {
  dag attributes = (ins I64Attr:$heads, I64Attr:$kv_heads, I64Attr:$head_size,
                        I64Attr:$query_column, I64Attr:$key_column, I64Attr:$value_column, IntegerSetAttr:$mask,
                        DefaultValuedAttr<F32Attr, "0.0f">:$dropout, DefaultValuedAttr<I64Attr, "0">:$random_id,
                        UnitAttr:$distance_bias, OptionalAttr<AffineMapAttr>:$distance);
  code declaration = [{
    /// The table of angles, the last operand; null where nothing is rotated.
    ::mlir::Value getRotary() {
      auto isTable = [](::mlir::Value value) { return ::llvm::isa<::mlir::RankedTensorType>(value.getType()); };
      bool isThere = ::llvm::count_if(getExtras(), isTable) > (getDistanceBias() ? 1 : 0);
      return isThere ? ::mlir::Value(getExtras().back()) : ::mlir::Value();
    }
    /// What scores have by distance.
    ::sluice::dispatch::DistanceTerms getTerms() {
      return ::sluice::dispatch::DistanceTerms(getExtras().drop_back(getRotary() ? 1 : 0), getDistanceBias(), getDistance());
    }
  }];
}

def Sluice_AttentionOp : Sluice_ForwardOp<"attention", [FusedAlone, IsolatedFromAbove, AxesInterface], ["getRemedy"]> {
  let summary = "Softmax attention with a score region and a mask relation";
  let description = [{
    As dispatch.attention: queries, keys and values are columns of `query`, `key` and `value` (one packed sequence or
    several). Keys and values lie on one scale, queries and the output on one. `mask` is the relation over p, a position
    of the queries' scale, and q, one of the keys', with symbol n, the valid length of keys: on a given axis, the row's own
    count. The score region is scalar
    code (f32 score, i32 p, i32 q, i32 head) -> f32, with an argument more for a term that it reads. With `rotary` ([T, D], at 2i the cosine and at 2i + 1 the sine of row p's
    angle) each pair (2i, 2i + 1) of a query's or key's columns is rotated by its row's angle first (Su et al. 2021,
    equation 34). Results: output and the rows' log-sum-exp. The backward differentiates
    the region and transposes the relation.

    *Terms* by distance may stand between the three sequences and the table. `distance` is d(p, q) = a p - b q + c with
    a, b >= 1; where it is absent, d(p, q) = p - q. With factors f of queries and g of keys, f / a = g / b. That is the factor of a step
    of distance. Two sequences of heads D columns each are Qv, on the queries' scale, and R, on that of the steps. The region then has
    an argument behind the head, the product Qv[p] R[d(p, q)]. Its sum with the score is Transformer-XL's (Dai et al. 2019, equation of
    section 3.3, with Q = q + u, Qv = q + v). With `distance_bias` a table [M, heads] follows, and the region's last argument is
    b[d(p, q), head]. A table of one row is a number a head. Gradients of Qv and R, and of the table, follow from those of the region by
    these arguments. A distance beyond the last valid row has that row. The mask says d(p, q) >= 0.
  }];
  let arguments = !con((ins Sluice_Sequence:$query, Sluice_Sequence:$key, Sluice_Sequence:$value,
                            Variadic<AnyType>:$extras), attentionAttributes.attributes);
  let results = (outs Sluice_Sequence:$output, Sluice_Sequence:$lse);
  let regions = (region SizedRegion<1>:$score);
  let assemblyFormat = "operands attr-dict-with-keyword $score `:` functional-type(operands, results)";
  let extraClassDeclaration = attentionAttributes.declaration;
  let hasVerifier = 1;
}

def Sluice_AttentionBackwardOp : Sluice_BackwardOp<"attention_backward", [FusedAlone, IsolatedFromAbove, AxesInterface]> {
  let summary = "Gradients of queries, keys and values";
  let description = [{
    One gradient a sequence: one where the three are packed, two where keys and values are, of queries and of both, three
    where none are. A gradient has its columns where the sequence has them. Those of the terms follow, in their order.
  }];
  let arguments = !con((ins Sluice_Sequence:$query, Sluice_Sequence:$key, Sluice_Sequence:$value, Sluice_Sequence:$output,
                            Sluice_Sequence:$lse, Sluice_Sequence:$output_gradient,
                            Variadic<AnyType>:$extras), attentionAttributes.attributes);
  let results = (outs Variadic<AnyType>:$gradients);
  let regions = (region SizedRegion<1>:$score, SizedRegion<1>:$score_gradient);
  let assemblyFormat = "operands attr-dict-with-keyword $score `derivative` $score_gradient `:` functional-type(operands, results)";
  let extraClassDeclaration = attentionAttributes.declaration # [{
    /// Gradients of queries, keys and values: one, two or three.
    ::mlir::ResultRange getSourceGradients() { return getGradients().drop_back(getTerms().count()); }
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

def Sluice_ShiftOp : Sluice_ForwardOp<"shift", [FusedAccess], ["isLazy", "getShift"]> {
  let summary = "y[p] = x[p - by], null before; lazy. A negative `by` looks ahead (an adjoint, or a leak)";
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$by);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `by` $by attr-dict `:` functional-type(operands, results)";
}

def Sluice_StartOp : Sluice_ForwardOp<"start", [FusedGroup], ["getShift"]> {
  let summary = "y[p] = x[p - by] for p >= by, and the row `null` before; stored";
  let description = [{
    A shift whose first rows are learned: `null` is a parameter of one row. No token is in it, so that the relation is a shift's.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$null, I64Attr:$by);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `,` $null `by` $by attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_StartBackwardOp : Sluice_BackwardOp<"start_backward", [FusedBody]> {
  let summary = "Gradient of the first row of `start`: the sum over the batch of gradient[p], p < by";
  let arguments = (ins Sluice_Sequence:$gradient, I64Attr:$by);
  let results = (outs AnyRankedTensor:$null);
  let assemblyFormat = "$gradient `by` $by attr-dict `:` functional-type(operands, results)";
}

def Sluice_ShortenOp : Sluice_ForwardOp<"shorten", [FusedGroup, SingleBlock, IsolatedFromAbove]> {
  let summary = "Group m: what a combiner makes of its window x[k m + k - w + i], 0 <= i < w";
  let description = [{
    The region is the *combiner*: of the number so far and that of a later row, column by column, it makes the next. It is
    elementwise arith and math. Positions where x is null are left out, and those where `mask`, one number a row, is not
    greater than 0.5. What is left is combined in order. Where nothing is left, the result is `identity`, which the combiner leaves
    alone on either side. A result that is an infinite identity becomes zero.

    `sum`, `average` (a sum divided by w, always) and `max` (the first of equal numbers stays) are short for their regions. Any other is
    written out: `mask %bits combine identity 1.0 {^bb0(%so_far: f32, %later: f32): ...}`. The region says what the gradient is. Of a sum it is spread; that of a maximum goes to the first of the greatest
    (`shorten_max_backward`), none where all are minus infinity. Any other region has none: it runs forward.
  }];
  let arguments = (ins Sluice_Sequence:$input, Optional<Sluice_Sequence>:$mask, I64Attr:$factor,
                       DefaultValuedAttr<I64Attr, "0">:$window, UnitAttr:$mean, F32Attr:$identity);
  let results = (outs Sluice_Sequence:$result);
  let regions = (region SizedRegion<1>:$combiner);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$input, "int64_t":$factor,
      "::sluice::dispatch::ReduceKind":$kind, CArg<"int64_t", "0">:$window, CArg<"bool", "false">:$mean)>];
  let extraClassDeclaration = [{
    bool isSum();
    bool isMax();
    /// "average", "sum", "max", or "combination".
    ::llvm::StringRef getWord();
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Sluice_ShortenMaxBackwardOp : Sluice_BackwardOp<"shorten_max_backward", [FusedWholeGroup]> {
  let summary = "z[m, i d + c] = gradient[m, c] for the first i whose x[k m + k - w + i, c] is the greatest of window m, else 0";
  let description = [{
    The input's gradient is `unfold` of this (with a window, of its `overlap_add`), which a shift may read past the last position.
  }];
  let arguments = (ins Sluice_Sequence:$input, Sluice_Sequence:$gradient, I64Attr:$factor,
                       DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands `factor` $factor (`window` $window^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_UpsampleOp : Sluice_ForwardOp<"upsample", [FusedAccess], ["isLazy"]> {
  let summary = "y[p] = x[p div k]; lazy. Adjoint of shorten with sum";
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_FoldOp : Sluice_ForwardOp<"fold", [FusedWholeGroup]> {
  let summary = "Group m: the w rows of its window, x[k m + k - w + i], side by side, w d columns";
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor, DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor (`window` $window^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_UnfoldOp : Sluice_ForwardOp<"unfold", [FusedAccess], ["isLazy", "readsMember"]> {
  let summary = "y[p] = columns (p mod k) d .. of x[p div k]; lazy. Adjoint of fold";
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_OverlapAddOp : Sluice_BackwardOp<"overlap_add", [FusedWholeGroup]> {
  let summary = "Group m: its k rows side by side, each the sum of what windows have at its position";
  let description = [{
    Row m of the input is window m of a `fold`: columns i d + c, 0 <= i < w, stand at position k m + k - w + i. Or it has d columns,
    which then stand at every position of the window. z[m, r d + c] is the sum of what stands at position k m + r: of windows m + j,
    0 <= j < ceil(w / k), column i d + c with i = r + w - k (j + 1), where i >= 0. `unfold` of this is the adjoint of a `fold`,
    or of a `shorten` with sum, with that window. The input is stored, so that nothing stands past its last row.
  }];
  let arguments = (ins Sluice_Sequence:$input, I64Attr:$factor, I64Attr:$window);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$input `factor` $factor `window` $window attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{ std::optional<::sluice::dispatch::RowRead> getMemberRead(); }];
  let hasVerifier = 1;
}

def Sluice_LastOp : Sluice_ForwardOp<"last", [FusedAccess], ["isLazy"]> {
  let summary = "The last valid position, as a sequence of one position";
  let arguments = (ins Sluice_Sequence:$input);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

include "sluice/Dialect/Sluice/Segments.td"

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

def Sluice_CrossEntropyOp : Sluice_ForwardOp<"cross_entropy", [FusedAlone, FactorInterface], ["getTargetReads", "getRemedy"]> {
  let summary = "Head and loss in one, a number a row: nats of token p + offset under softmax(x[p] W^T + b)";
  let description = [{
    One op, so that a batch's logits are never stored. Tokens are targets here: row p is scored against token p + offset.
    Rows p < `first` are not scored: their losses are zeros. With `smoothing` s > 0 the target's distribution is
    1 - s on the token plus s / V on every one of the V tokens (Szegedy et al. 2016, section 7), and the loss its
    cross-entropy. With `target` the distribution of row p is row p of the numbers that the host gives under this name, f32
    [B, T, V]: `sluice-expand-soft-targets` writes such a loss as ops. They are no value here, so nothing but the loss can read them.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$weight, Sluice_Sequence:$tokens,
                       Optional<AnyRankedTensor>:$bias, I64Attr:$offset, DefaultValuedAttr<I64Attr, "0">:$first,
                       DefaultValuedAttr<F32Attr, "0.0f">:$smoothing, DefaultValuedAttr<StrAttr, "\"\"">:$target);
  let results = (outs Sluice_Sequence:$losses);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_CrossEntropyBackwardOp
    : Sluice_BackwardOp<"cross_entropy_backward", [FusedAlone, AttrSizedOperandSegments]> {
  let summary = "Losses and their gradients, for an incoming gradient a row";
  let description = [{
    Row p's incoming gradient is gradient[p]. Without that operand it is that of `factor` times a mean, the same for all
    scored rows: factor / (scored rows). Rows p < `first` have none.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$weight, Sluice_Sequence:$tokens,
                       Optional<AnyRankedTensor>:$bias, Optional<Sluice_Sequence>:$gradient,
                       Optional<AnyRankedTensor>:$init_weight, Optional<AnyRankedTensor>:$init_bias, I64Attr:$offset,
                       DefaultValuedAttr<I64Attr, "0">:$first, DefaultValuedAttr<F32Attr, "0.0f">:$smoothing,
                       DefaultValuedAttr<F32Attr, "1.0f">:$factor);
  let results = (outs Sluice_Sequence:$losses, Sluice_Sequence:$input_gradient, AnyRankedTensor:$weight_gradient,
                      Optional<AnyRankedTensor>:$bias_gradient);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    bool readsLength(unsigned result) { return getOperation()->getResult(result) == getInputGradient(); }
  }];
}

def Sluice_ObjectiveOp : Sluice_Op<"objective", [FusedAlone, DeclareOpInterfaceMethods<DifferentiableInterface>,
                                                 DeclareOpInterfaceMethods<CostInterface>,
                                                 DeclareOpInterfaceMethods<ReferenceInterface>]> {
  let summary = "The scalar that training minimizes: the sum of factors times means of losses";
  let description = [{
    Operand i, one number a row, has the name names[i] and counts factors[i] times its mean: the sum over valid rows,
    divided by the number of rows p >= first[i]. Rows before those must be zeros, as `cross_entropy` makes them. The scalar becomes the device scalar `loss`, and where
    there are several means, each becomes `loss.NAME`. Losses may be mapped first, for instance weighted. A function
    without this op minimizes the mean of the losses that it returns. With `padded` the host says which rows are padding: these
    count neither in the sums nor in the numbers of rows. Numbers of rows are those of `batches` batches, as many as an update
    sums gradients of: the sums of this one are its share of the update's means. With `weights` loss i, where weights[i] is not empty, has
    rows that are multiplied already by the numbers of that name. Its mean is the sum divided by that of these numbers, which the host gives.
  }];
  let arguments = (ins Variadic<Sluice_Sequence>:$losses, StrArrayAttr:$names, DenseF64ArrayAttr:$factors,
                       DenseI64ArrayAttr:$first, UnitAttr:$padded, DefaultValuedAttr<I64Attr, "1">:$batches,
                       OptionalAttr<StrArrayAttr>:$weights);
  let assemblyFormat = "operands attr-dict `:` type($losses)";
  let hasVerifier = 1;
}

def Sluice_MeanGradientOp : Sluice_BackwardOp<"mean_gradient", [FusedBody]> {
  let summary = "Gradient of `factor` times a mean over rows p >= `first`: factor / (their number), for every row";
  let description = "With `padded`, rows of padding are not counted, and have zeros. Their number is that of `batches` batches. "
                    "With `weights` it is the sum of the numbers of this name.";
  let arguments = (ins F32Attr:$factor, I64Attr:$first, UnitAttr:$padded, DefaultValuedAttr<I64Attr, "1">:$batches,
                       DefaultValuedAttr<StrAttr, "\"\"">:$weights);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let extraClassDeclaration = [{ bool readsLength(unsigned) { return true; } }];
}

#endif
