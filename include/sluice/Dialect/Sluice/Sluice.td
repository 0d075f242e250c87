// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model dialect: sequences on named scales, and the ops whose scale, shift or mask the
// causality analysis needs.

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
    A module contains `sluice.axis`, `sluice.scale` and `sluice.parameter` symbols and functions
    over sequences. Module attributes `sluice.batch` and `sluice.context` (i64) are the capacities B
    and N. A sequence on a scale of factor f has ceil(length / f) valid positions of ceil(N / f). A
    function's first argument is the tokens of its axis; others are tokens of given axes.

    A sequence is a function on all integers: outside its valid positions it is null (zeros).
    `shift` and `upsample` are *lazy*: their results extend past the end of their operand's scale.
    So `shorten` of `shift` accesses x[k m + i - s] of the unshifted sequence. The adjoint of
    `shorten` is exactly `upsample`, and the adjoint of `shift` is exactly the opposite shift. Every
    other op defines its result only on valid positions.

    A group of k may have a *window* of w rows, which ends at the last row of the group: x[k m + k -
    w + i], 0 <= i < w, for group m. With w > k windows overlap, with w < k they skip rows; w = k by
    default. Then a row is in several windows or none, and the adjoint is `unfold` of `overlap_add`.

    A sequence's element type is its storage type, f32 or bf16; regions compute in f32. A parameter
    is f32. Reading it as bf16 returns its *compute copy*, and a linear map, or head, multiplies in
    the type of its weight operand: a separate map converts an input of another type
    (`sluice-convert-factors`). Gradients of sequences have the sequences' types, gradients of
    parameters are f32. Shifts, folds, upsampling and `last` may change the type while they move
    rows.

    Constraints have numbers, which start the verifiers' messages. Unless a constraint names a pass,
    the verifier of the op checks it. `--sluice-verify-model` also checks all ops for:
    - S-039: the sequences of an op have one axis, except in attention and in ops of
      segments.

    Examples of ops are parts of a function of this module, or other symbols in it:

    ```mlir
    module attributes {sluice.batch = 2 : i64, sluice.context = 16 : i64} {
      sluice.axis @tokens
      sluice.scale @bytes on @tokens factor 1
      sluice.scale @patches on @tokens factor 4
      sluice.scale @last on @tokens factor 0
      sluice.axis @segments segments of @bytes capacity 6
      sluice.scale @words on @segments factor 1
      sluice.axis @source given 32 vocabulary 256
      sluice.scale @inputs on @source factor 1
      sluice.axis @phrases segments of @inputs capacity 32
      sluice.scale @units on @phrases factor 1
      sluice.parameter @table
          : tensor<7x8xf32> {names = ["token.weight"], sizes = array<i64: 7>, initial = "zeros"}
      sluice.schedule @each count (t) -> (t + 1) due (m) -> (m) first 0 period 1 rise 1 burst 1
      sluice.state @window ring 4 : !sluice.seq<@bytes, 8, f32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  /// Attributes of a model's module; a function may override the batch. `group` is set if the rows
  /// of the head are groups, `accumulate` if an update has several batches. Any op may have `names`
  /// and `gradients_of`, one string per result, for --verify-each-causality.
  let discardableAttrs = (ins "::mlir::IntegerAttr":$batch, "::mlir::IntegerAttr":$context,
                          "::mlir::IntegerAttr":$vocabulary, "::mlir::IntegerAttr":$width,
                          "::mlir::IntegerAttr":$seed, "::mlir::StringAttr":$name,
                          "::mlir::DictionaryAttr":$training, "::mlir::IntegerAttr":$accumulate,
                          "::mlir::IntegerAttr":$draw_parts, "::mlir::IntegerAttr":$group,
                          "::mlir::ArrayAttr":$names, "::mlir::ArrayAttr":$gradients_of);
}

include "sluice/Dialect/Sluice/Origin.td"

def Sluice_Sequence : TypeDef<Sluice_Dialect, "Sequence"> {
  let mnemonic = "seq";
  let summary = "A sequence of rows on a scale";
  let description = [{
    `!sluice.seq<@scale, d, f32>` has d numbers per position; d = 0 means one number per position.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$scale, "int64_t":$width,
                    "::mlir::Type":$element);
  let assemblyFormat = "`<` $scale `,` $width `,` $element `>`";
}

/// Constraints that several ops have.
defvar scaleConstraints = [{
    - S-010: the scales of both sequences are defined.
    - S-011: the factor of the coarse scale is `factor` times the factor of the fine scale.
    - S-012: a coarse row has the columns of a fine row, or of all rows of a window where it
      holds them.
}];
defvar windowConstraints = [{
    - S-095: `factor` and `window` are at least 1.
}];
defvar scoreConstraints = [{
    - S-009: the score region takes (f32 score, i32 p, i32 q, i32 head), then one f32 per
      term that it reads; the derivative takes one f32 more, the gradient of the score.
    - S-035: keys and values have one scale; queries, outputs and the rows Qv of terms have
      one scale.
    - S-044: the extra operands are none or two sequences of terms, then the table of biases
      where `distance_bias` is set, then at most one table of angles.
    - S-045: the rows of terms have `heads` times `head_size` columns; the table of biases
      is [M, heads], M at least 1.
    - S-046: where scores have distance terms, the mask implies a distance of at least 0; with
      `centered` no pair of positions has one below 0 (`--sluice-verify-model`).
    - S-150: tables of `centered` have an odd number of rows, and R is a table only with
      `centered`.
    - S-080: `distance` has the form a p - b q + c with a and b of at least 1.
    - S-081: the factors of queries and keys are a and b times the factor of a step of
      distance.
    - S-040: on two axes, keys are on a given axis if queries are (`--sluice-verify-model`).
    - S-065: on two axes of which one counts segments, keys are on a given axis
      (`--sluice-verify-model`).
    - S-037: backward: queries, keys and values fill their sequences, each column being one
      of them (dispatch formation).
}];

class Sluice_Op<string mnemonic, list<Trait> traits = []> : Op<Sluice_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

def Sluice_AxisOp : Sluice_Op<"axis", [Symbol]> {
  let summary = "An independent sequence: a decoder's tokens, a given input, or segments of "
                "another scale";
  let description = [{
    One axis has the predicted tokens: at most N, of which `length` are valid. Any other axis is
    *given*, with a separate capacity and vocabulary: all of it is known before the first token is
    predicted. It has one scale, of factor 1, and each row of a batch has its own count of valid
    positions there. Rows past the count are undefined or not computed, and the padding mask
    of attention excludes them. `streams` are further tokens of a given axis, by name, with their
    vocabularies: a function's first argument on the axis has its tokens, the next ones have the
    tokens of the streams, in the order of their names. Sequences of two axes meet only in
    cross-attention, and no query of a given axis sees the predicted tokens.

    A *segmented* axis has the segments of the scale `segments`, defined by boundary bits
    (`sluice.segment`): at most `rows`, and each row of a batch has its own number n. All `rows` are
    computed; rows m >= n do not affect scored rows. Segments of a scale of a given axis are given
    too, and a row of a batch has as many keys there as it has segments. `least` declares a minimum
    distance of boundaries: no op checks it, and no proof uses it. The ops between the two scales
    have `segments` in their names.

    Example:

    ```mlir
    sluice.axis @target
    sluice.axis @prompt given 32 vocabulary 256
    sluice.axis @pieces given 32 vocabulary 8000 streams {word_split = 2 : i64}
    sluice.axis @sentences segments of @bytes capacity 4 least 2
    ```

    Constraints:
    - S-042: a capacity and a vocabulary are given together; the capacity is at least 1 and
      below 2^31.
    - S-058: an axis of segments has a capacity of at least 1 and below 2^31, a minimum
      distance of at least 1, and is not given.
    - S-059: segments are of a scale of the predicted tokens, of their segments, or of a
      given axis.
    - S-151: streams are of a given axis, and each has a vocabulary, an i64 of at least 1.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<I64Attr>:$capacity,
                   OptionalAttr<I64Attr>:$vocabulary,
                       OptionalAttr<FlatSymbolRefAttr>:$segments, OptionalAttr<I64Attr>:$rows,
                       DefaultValuedAttr<I64Attr, "1">:$least,
                       OptionalAttr<DictionaryAttr>:$streams);
  let assemblyFormat = [{$sym_name (`given` $capacity^ `vocabulary` $vocabulary)?
                         (`streams` $streams^)?
                         (`segments` `of` $segments^ `capacity` $rows (`least` $least^)?)?
                             attr-dict}];
  let extraClassDeclaration = [{
    /// Returns the names and vocabularies of the streams.
    ::llvm::ArrayRef<::mlir::NamedAttribute> listStreams() {
      return getStreams() ? getStreams()->getValue() : ::llvm::ArrayRef<::mlir::NamedAttribute>();
    }
  }];
  let hasVerifier = 1;
}

def Sluice_ScaleOp : Sluice_Op<"scale", [Symbol]> {
  let summary = "An axis at a constant factor";
  let description = [{
    Example:

    ```mlir
    sluice.scale @blocks on @tokens factor 8
    ```

    Constraints:
    - S-001: `factor` is at least 0; 0 is the scale of one position, the result of
      `sluice.last`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$axis, I64Attr:$factor);
  let assemblyFormat = "$sym_name `on` $axis `factor` $factor attr-dict";
  let hasVerifier = 1;
}

def Sluice_ParameterOp : Sluice_Op<"parameter", [Symbol]> {
  let summary = "A trained tensor, several concatenated tensors, or a constant table";
  let description = [{
    `names` and `sizes` list the weights, by their names in files, that are stored here along
    dimension 0, in order. `initial` is `zeros`, `ones`, `normal` (with `deviation`), `uniform`
    (between plus and minus `deviation`) or `identity` (for a matrix: 1 on the diagonal, else 0).
    For frozen tables it may also be `members` (1 in the rows that `members` lists, 0 elsewhere),
    `rotary` (row p: cosine and sine of p base^(-2i/D) at 2i and 2i + 1) or `sinusoidal` (sine and
    cosine there, base^(-2i/d), of p times `stride`).
    `decay` marks matrices with weight decay. `held` marks weights that training does not update:
    they have no gradient.

    Example:

    ```mlir
    sluice.parameter @matrix
        : tensor<8x8xf32> {names = ["layer.weight"], sizes = array<i64: 8>, initial = "normal",
        deviation = 0.02 : f64, decay}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                   StrArrayAttr:$names,
                       DenseI64ArrayAttr:$sizes, StrAttr:$initial,
                       DefaultValuedAttr<F64Attr, "0.0">:$deviation, DefaultValuedAttr<F64Attr,
                           "10000.0">:$base,
                       UnitAttr:$decay, UnitAttr:$frozen, DefaultValuedAttr<I64Attr, "1">:$stride,
                       OptionalAttr<DenseI64ArrayAttr>:$members, UnitAttr:$held);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
}

class Sluice_ComputeOp<string mnemonic, list<Trait> traits = []> : Sluice_Op<mnemonic,
    !listconcat([Pure], traits)>;

/// An op of the forward pass, which has a derivative; ops that differentiation creates have none.
/// `overrides` lists the methods of CausalFlowInterface that the op overrides, in addition to the
/// methods without a default.
class Sluice_ForwardOp<string mnemonic, list<Trait> traits = [], list<string> overrides = []>
    : Sluice_ComputeOp<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<CausalFlowInterface, overrides>,
            DeclareOpInterfaceMethods<DifferentiableInterface>,
        DeclareOpInterfaceMethods<CostInterface>, DeclareOpInterfaceMethods<ReferenceInterface>],
            traits)>;
class Sluice_BackwardOp<string mnemonic, list<Trait> traits = []>
    : Sluice_ComputeOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<ReferenceInterface>,
                                               DeclareOpInterfaceMethods<CostInterface>,
                                               DeclareOpInterfaceMethods<RowReadsInterface>],
                                                   traits)>;
class Sluice_FusionRole<string parameters> : ParamNativeOpTrait<"FusesAs", parameters> {
  let cppNamespace = "::sluice";
}
/// Declares an op's role in fusion, a case of FusionRole, and the methods of FusionInterface that
/// the op defines: the method of the role, and `others`. `multipliesByInput`: see the interface.
class FusesAs<string role, list<string> others = [], bit multipliesByInput = 0> : TraitList<[
    Sluice_FusionRole<"::sluice::FusionRole::" # role # !if(multipliesByInput, ", true", "")>,
    DeclareOpInterfaceMethods<FusionInterface, !listconcat(others, [
        !cond(!eq(role, "Access"): "composeAccess", !eq(role, "Alone"): "emitDispatches",
              true: "emitBody")])>]>;

def Sluice_ReadOp : Sluice_Op<"read", [Pure]> {
  let summary = "The value of a parameter: its f32 master, or its bf16 compute copy";
  let description = [{
    Example:

    ```mlir
    %table = sluice.read @table : tensor<7x8xf32>
    %copy = sluice.read @table : tensor<7x8xbf16>
    ```

    Constraints:
    - S-025: the element type of the value is f32 or bf16.
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = "$parameter attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Sluice_BeginBackwardOp : Sluice_Op<"begin_backward"> {
  let summary = "Separates the forward pass of @gradient from the backward pass";
  let description = [{
    The ops before it compute losses, the ops after it gradients. `sluice.objective`, which only
    reports losses, follows it too.

    Example:

    ```mlir
    sluice.begin_backward
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Sluice_StoreGradientOp : Sluice_Op<"store_gradient"> {
  let summary = "Stores the gradient of a parameter, once per step";
  let description = [{
    Example:

    ```mlir
    sluice.store_gradient @table, %gradient : tensor<7x8xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$parameter, AnyRankedTensor:$gradient);
  let assemblyFormat = "$parameter `,` $gradient attr-dict `:` type($gradient)";
}

//===----------------------------------------------------------------------===//
// Inputs, elementwise maps
//===----------------------------------------------------------------------===//

def Sluice_EmbedOp : Sluice_ForwardOp<"embed", [FusesAs<"Rows">]> {
  let summary = "Row of a table by token: y[p] = table[token[p]]";
  let description = [{
    `tokens` may be a map of the tokens that ends in (x and c) mod n, with n at most the table's
    rows.

    Example:

    ```mlir
    %rows = sluice.embed %tokens, %table
        : (!sluice.seq<@bytes, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
    - S-126: a map of tokens ends in (x and c) mod n, n at most the rows of the table.
    - S-043: the table has a row for each token of a given axis.
  }];
  let arguments = (ins Sluice_Sequence:$tokens, AnyRankedTensor:$table);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_EmbedBackwardOp : Sluice_BackwardOp<"embed_backward", [FusesAs<"Alone">]> {
  let summary = "Gradient of an embedding's table: rows added by token, in order of position";
  let description = [{
    Example:

    ```mlir
    %gradient = sluice.embed_backward %tokens, %rows, %sum
        : (!sluice.seq<@bytes, 0, i32>, !sluice.seq<@bytes, 8, f32>, tensor<7x8xf32>)
        -> tensor<7x8xf32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$tokens, Sluice_Sequence:$gradient,
                   Optional<AnyRankedTensor>:$init);
  let results = (outs AnyRankedTensor:$table);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_PositionOp : Sluice_ForwardOp<"position", [FusesAs<"Rows">]> {
  let summary = "Row of a table by position: y[p] = table[p]";
  let description = [{
    Example:

    ```mlir
    %rows = sluice.position %table : (tensor<16x8xf32>) -> !sluice.seq<@bytes, 8, f32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$table);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_PositionBackwardOp : Sluice_BackwardOp<"position_backward", [FusesAs<"Alone">]> {
  let summary = "Gradient of a position table: the sum over the batch";
  let description = [{
    Example:

    ```mlir
    %gradient = sluice.position_backward %rows : (!sluice.seq<@bytes, 8, f32>) -> tensor<16x8xf32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$gradient);
  let results = (outs AnyRankedTensor:$table);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_MapOp : Sluice_ForwardOp<"map", [FusesAs<"Elementwise">, SingleBlock,
                                            IsolatedFromAbove]> {
  let summary = "Scalar code applied to every element of sequences of one scale and width";
  let description = [{
    Residual sums, activations and dropout are maps. The region has one f32 argument per operand
    (i32 for a sequence of i32) and yields one number; it is straight-line arith and math, and
    `dispatch.random` (the random number of dropout, which differentiation and rematerialization
    reproduce). Its backward is also a map, whose region is the derivative.

    Example:

    ```mlir
    %sum = sluice.map(%x, %y) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
    - S-002: operands and result have one scale.
    - S-003: operands and result have one width.
    - S-004: the body has one argument per operand.
    - S-125: arguments, and the yielded value, are i32 for a sequence of i32 and f32 for any
      other.
    - S-020: every op of the body has a known derivative (differentiation).
  }];
  let arguments = (ins Variadic<Sluice_Sequence>:$inputs);
  let results = (outs Sluice_Sequence:$result);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict-with-keyword $body `:` "
                       "functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_YieldOp : Sluice_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a scalar region";
  let description = [{
    Example:

    ```mlir
    %double = sluice.map(%x) {
    ^bb0(%a: f32):
      %b = arith.addf %a, %a : f32
      sluice.yield %b : f32
    } : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 8, f32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

//===----------------------------------------------------------------------===//
// Norms, linear maps
//===----------------------------------------------------------------------===//

def Sluice_NormOp : Sluice_ForwardOp<"norm", [FusesAs<"Anchor">]> {
  let summary = "Layer norm, or RMS norm if `rms` is set";
  let description = [{
    Layer: y = (x - mean) rstd gain + bias, rstd = 1/sqrt(mean((x - mean)^2) + epsilon). RMS: y = x
    rstd gain (+ bias), rstd = 1/sqrt(mean(x^2) + epsilon); `mean` is then zero. `mean` and `rstd`
    are stored for the backward pass.

    Example:

    ```mlir
    %y, %mean, %rstd = sluice.norm %x, %gain, %bias {epsilon = 1.0e-5 : f64}
        : (!sluice.seq<@bytes, 8, f32>, tensor<8xf32>, tensor<8xf32>)
            -> (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, f32>,
            !sluice.seq<@bytes, 0, f32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$gain,
                   Optional<AnyRankedTensor>:$bias,
                       UnitAttr:$rms, F64Attr:$epsilon);
  let results = (outs Sluice_Sequence:$result, Sluice_Sequence:$mean, Sluice_Sequence:$rstd);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_NormBackwardOp : Sluice_BackwardOp<"norm_backward", [FusesAs<"Anchor">]> {
  let summary = "Gradients of a norm's input, gain and bias";
  let description = [{
    With h = (x - mean) rstd and e = dy gain: layer dx = rstd (e - mean(e) - h mean(e h)); RMS dx =
    rstd (e - h mean(e h)), h = x rstd. dgain = sum over rows of dy h, dbias = sum of dy.

    Example:

    ```mlir
    %dx, %dgain, %dbias = sluice.norm_backward %x, %gain, %mean, %rstd, %dy
        : (!sluice.seq<@bytes, 8, f32>, tensor<8xf32>, !sluice.seq<@bytes, 0, f32>,
            !sluice.seq<@bytes, 0, f32>, !sluice.seq<@bytes, 8, f32>)
            -> (!sluice.seq<@bytes, 8, f32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$gain, Sluice_Sequence:$mean,
                   Sluice_Sequence:$rstd,
                       Sluice_Sequence:$gradient, UnitAttr:$rms);
  let results = (outs Sluice_Sequence:$input_gradient, AnyRankedTensor:$gain_gradient,
                      Optional<AnyRankedTensor>:$bias_gradient);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_LinearOp : Sluice_ForwardOp<"linear", [FusesAs<"Contraction">, FactorInterface]> {
  let summary = "y = x W^T + b, W [out, in]";
  let description = [{
    Example:

    ```mlir
    %y = sluice.linear %x, %weight, %bias
        : (!sluice.seq<@bytes, 8, f32>, tensor<8x8xf32>, tensor<8xf32>)
        -> !sluice.seq<@bytes, 8, f32>
    ```

    Constraints:
    - S-005: the weight has rank 2, and one column per column of the input.
    - S-006: the result has one column per row of the weight.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$weight,
                   Optional<AnyRankedTensor>:$bias);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Sluice_LinearInputGradientOp : Sluice_BackwardOp<"linear_input_gradient",
                                                     [FusesAs<"Contraction", [], 1>]> {
  let summary = "dx = dy W";
  let description = [{
    Example:

    ```mlir
    %dx = sluice.linear_input_gradient %dy, %weight
        : (!sluice.seq<@bytes, 8, f32>, tensor<8x8xf32>) -> !sluice.seq<@bytes, 8, f32>
    ```
  }];
  let arguments = (ins Sluice_Sequence:$gradient, AnyRankedTensor:$weight);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Sluice_LinearWeightGradientOp
    : Sluice_BackwardOp<"linear_weight_gradient", [FusesAs<"Alone">, AttrSizedOperandSegments,
                                                   AttrSizedResultSegments]> {
  let summary = "dW = init + sum over valid rows of dy^T x, and db = init + sum of dy";
  let description = [{
    Example:

    ```mlir
    %dw, %db = sluice.linear_weight_gradient %dy, %x {operandSegmentSizes = array<i32: 1, 1, 0, 0>,
        resultSegmentSizes = array<i32: 1, 1>}
        : (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 8, f32>)
            -> (tensor<8x8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Sluice_Sequence:$gradient, Sluice_Sequence:$input,
                   Optional<AnyRankedTensor>:$init_weight,
                       Optional<AnyRankedTensor>:$init_bias);
  let results = (outs Optional<AnyRankedTensor>:$weight, Optional<AnyRankedTensor>:$bias);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

include "sluice/Dialect/Sluice/Attention.td"

include "sluice/Dialect/Sluice/Scales.td"

include "sluice/Dialect/Sluice/Segments.td"

include "sluice/Dialect/Sluice/Edges.td"

include "sluice/Dialect/Sluice/Columns.td"

include "sluice/Dialect/Sluice/Loss.td"

#endif
