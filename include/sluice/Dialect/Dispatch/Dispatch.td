// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dispatch dialect: fused groups of work, loop-free and target-neutral. One op is one kernel.

#ifndef SLUICE_DISPATCH_TD
#define SLUICE_DISPATCH_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "sluice/Dialect/Dispatch/DispatchInterfaces.td"

def Dispatch_Dialect : Dialect {
  let name = "dispatch";
  let cppNamespace = "::sluice::dispatch";
  let summary = "Fused groups of work: rows, contractions, attention, cross-entropy, scatter";
  let description = [{
    What both targets share. A dispatch is one kernel: which buffers it reads and through which map, what it
    computes, which buffers it writes. It has no loops and no addresses: the order of the work, tiles,
    packing and vectors belong to each target.

    Values are statically shaped tensors. By rank:
      - rank 3, `[B, T, d]`: rows of a sequence, capacity B rows of T positions. Each position's row is stored
        padded to `paddedWidth(d)` elements; the padding holds anything.
      - rank 2, `[B, T]`: one number a position, dense.
      - `[1, T, d]` or `[1, T]` with access `row`, in a domain of more batch rows: each of them reads the one sequence.
      - rank 2 or 1 with access `table`, `gather`, `vector`, `flat`, and every operand named weight: dense, no padding.
    Padding is counted in elements, whatever their type. A *domain* names the rows a dispatch runs over and which of them
    are valid at run time.

    `guard` names an i32 scalar, `scalar:GUARD`, that a dispatch before it in the function stores. There are two kinds:
      - `due.N` *allows* to leave the launch out where it is not 1. Only a scheduled dispatch may have it, and the scalar is made of
        its schedule: all counts are zero then, so started or not, it writes nothing. A GPU's host, which would have to wait, starts it.
      - Any other, such as `finite`, *forbids* the launch where it is not 1. Results then keep what their memory held, so they
        live in named memory. What writes parameters, moments or compute copies has such a guard, but in @initialize and @prepare, and it is
        made of the loss and the gradients.

    Memory planning verifies this, and that dispatches of @gradient have `draws_by_update` where they draw random numbers and
    an update has several batches (`sluice.accumulate`), and nowhere else.

    Numbers are *stored* as f32 or bf16 and *computed with* as f32. Bodies, epilogues and regions take and yield f32. A
    bf16 operand is extended when it is read. A result is rounded to the nearest bf16 when it is written: ties go to even,
    NaN stays NaN. What stays inside a dispatch is not rounded. The two factors of a contraction have one type, its *compute
    type*: products and sums of bf16 factors are those of their f32 values. Statistics, log-sum-exps, losses, logits,
    biases and the gradients of weights are f32.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let useDefaultAttributePrinterParser = 1;
}

class Dispatch_Attr<string name, string mnemonic_, list<Trait> traits = []>
    : AttrDef<Dispatch_Dialect, name, traits> { let mnemonic = mnemonic_; }

def Dispatch_Domain : Dispatch_Attr<"Domain", "domain"> {
  let summary = "The rows a dispatch runs over";
  let description = [{
    Row r = b * positions + p, 0 <= b < batch, 0 <= p < positions. With `factor` f > 0 row (b, p) is valid when
    b < rows and p < ceil(length / f), `rows` and `length` being device scalars; with f = 0 every row is valid.

    With `axis` the length is the b-th number of `length.AXIS` instead, i64 [batch, 1], also for every access of row b: the rows that text b
    has on that axis of segments. A dispatch stores them before, once the bits are counted. Factors are those of the axis, and 0 for what is on
    another.

    A *scheduled* domain runs over a part of the rows that differs by batch row. The dispatch's last operand is then its
    *schedule*, i64 [batch, 3]: for batch row b the first position `start`, the number of rows `count`, 0 to `positions`,
    and the sequence's length in tokens, with start + count <= ceil(length / factor). Rows (b, j) with j < count are valid and stand at position p = start + j; the
    valid length of whatever is at factor f is ceil(length / f), in place of the device scalars. Every operand or result
    [B, T, ...] of rows is a *ring* there: position q lies in row q mod T. Where T covers the capacity that is row q, so
    a whole sequence is a special case. Rows that are not valid are neither computed nor written.
  }];
  let parameters = (ins "int64_t":$batch, "int64_t":$positions, "int64_t":$factor,
                        DefaultValuedParameter<"bool", "false">:$scheduled,
                        OptionalParameter<"::mlir::StringAttr">:$axis);
  let builders = [AttrBuilder<(ins "int64_t":$batch, "int64_t":$positions, "int64_t":$factor,
                                   CArg<"bool", "false">:$scheduled), [{
    return $_get($_ctxt, batch, positions, factor, scheduled, ::mlir::StringAttr());
  }]>];
  let assemblyFormat = [{`<` `batch` `=` $batch `,` `positions` `=` $positions `,` `factor` `=` $factor
                         (`,` `scheduled` `=` $scheduled^)? (`axis` `=` $axis^)? `>`}];
  let extraClassDeclaration = [{
    /// Rows that one launch runs over, valid or not.
    int64_t getLaunchRows() const { return getBatch() * getPositions(); }
  }];
}

def Dispatch_AccessKind : I32EnumAttr<"AccessKind", "how a row of an operand or a result is found", [
    I32EnumAttrCase<"Row", 0, "row">, I32EnumAttrCase<"Table", 1, "table">,
    I32EnumAttrCase<"Gather", 2, "gather">, I32EnumAttrCase<"Vector", 3, "vector">,
    I32EnumAttrCase<"Scalar", 4, "scalar">, I32EnumAttrCase<"Flat", 5, "flat">,
    I32EnumAttrCase<"Columns", 6, "columns">, I32EnumAttrCase<"Range", 7, "range">]> {
  let cppNamespace = "::sluice::dispatch";
  let genSpecializedAttr = 0;
}

def Dispatch_Access : Dispatch_Attr<"Access", "access"> {
  let summary = "Which rows of an operand (or result) a row of the domain touches";
  let description = [{
    | kind | tensor | row read for (b, p) | body argument |
    |---|---|---|---|
    | `row` | [B, T', d] | (b, map(p, i)[N']) for i < group | tensor<d> (group 1), tensor<group x d> |
    | `row` | [B, T'] | (b, map(p, 0)[N']) | element |
    | `table` | [T', d] | map(p, 0) | tensor<d> |
    | `gather` | [V, d] | v, the value (i32) of body argument `index` | tensor<d> |
    | `gather` | [B, T', d] | (b, map(v, 0)[N']) | tensor<d> |
    | `gather` | [B, T'] | (b, map(v, 0)[N']) | element |
    | `range` | [B, T', d] | the sum of (b, q), map(v, 0)[N'] <= q < map(w, 1)[N'] | tensor<d> |
    | `range` | [B, T'] | the same | element |
    | `vector` | [d] | | tensor<d> |
    | `scalar` | rank 0 | | element |
    | `flat` | [R, d] or [R] | r | tensor<d>, element |
    | `columns` (results only) | [parts, d] | sums over the rows of each part | tensor<d> yielded |

    `map` is (p, i)[N'] -> position, N' = ceil(length / source_factor) the valid length of the source. Where source_factor
    is 0, N' is T'; but a sequence that a scheduled domain reads has no end then, as its ring holds whatever is read. A
    position outside [0, N') is read as zeros. `column` is (p) or (p, i) -> first column, so that a row of k d columns
    can be read as k rows of d (zero: the whole row or its first d columns). Where the first column is negative, zeros
    are read too. With `outside` a position outside is read as that number, the identity of what combines the rows. Results use `row`
    with the identity map, `flat`, `vector` and `scalar` (domains of one row), or `columns`.
    A result of access `row` whose yield is tensor<k x d> is stored as one row of k d columns.

    An index is an argument of access `row`; that of a range may be a gathered element too. Of a range v is the value of
    argument `index` and w that of argument `last`, p where that is -1. What of it lies outside [0, N') is left out, and the sum is taken in the order of q.
    With an infinite `outside` it is the greatest number of each column instead, minus infinity of no row. With `extended`, of elements of i32 alone, a
    position below 0 is read as itself and one from N' on as the greatest number: so a sequence that ascends goes on.
  }];
  let parameters = (ins "::sluice::dispatch::AccessKind":$kind, "::mlir::AffineMapAttr":$map, "int64_t":$group,
                        "int64_t":$source_factor, "::mlir::AffineMapAttr":$column, "int64_t":$index,
                        OptionalParameter<"::mlir::FloatAttr">:$outside,
                        DefaultValuedParameter<"int64_t", "-1">:$last,
                        DefaultValuedParameter<"bool", "false">:$extended);
  let builders = [
    AttrBuilder<(ins "AccessKind":$kind), [{
      auto two = ::mlir::AffineMap::get(2, 1, ::mlir::getAffineDimExpr(0, $_ctxt));
      auto zero = ::mlir::AffineMap::get(1, 0, ::mlir::getAffineConstantExpr(0, $_ctxt));
      return $_get($_ctxt, kind, ::mlir::AffineMapAttr::get(two), 1, 0, ::mlir::AffineMapAttr::get(zero), -1,
                   ::mlir::FloatAttr(), -1, false);
    }]>,
    AttrBuilder<(ins "AccessKind":$kind, "::mlir::AffineMapAttr":$map, "int64_t":$group, "int64_t":$source_factor,
                     "::mlir::AffineMapAttr":$column, "int64_t":$index, "::mlir::FloatAttr":$outside), [{
      return $_get($_ctxt, kind, map, group, source_factor, column, index, outside, -1, false);
    }]>,
    AttrBuilder<(ins "AccessKind":$kind, "::mlir::AffineMap":$map, "int64_t":$group, "int64_t":$source_factor), [{
      auto zero = ::mlir::AffineMap::get(1, 0, ::mlir::getAffineConstantExpr(0, $_ctxt));
      return $_get($_ctxt, kind, ::mlir::AffineMapAttr::get(map), group, source_factor, ::mlir::AffineMapAttr::get(zero), -1,
                   ::mlir::FloatAttr(), -1, false);
    }]>];
  let assemblyFormat = [{`<` $kind `,` `map` `=` $map `,` `group` `=` $group `,` `factor` `=` $source_factor `,`
                         `column` `=` $column `,` `index` `=` $index (`,` `outside` `=` $outside^)?
                         (`last` `=` $last^)? (`extended` `=` $extended^)? `>`}];
  let extraClassDeclaration = [{
    /// Row p of the source itself: identity map, one row, whole width.
    bool isIdentity() const;
    /// 0 where no other argument finds it; a gathered one is found by those of level 0, a range by those of 0 and 1.
    unsigned getLevel() const {
      return getKind() == AccessKind::Range ? 2 : getKind() == AccessKind::Gather ? 1 : 0;
    }
    /// What a range makes of its rows: their sum, or the greatest number of each column.
    ReduceKind getRangeKind() const { return getOutside() ? ReduceKind::Max : ReduceKind::Add; }
    /// Arguments that find it.
    ::llvm::SmallVector<unsigned> getIndices() const;
  }];
}

class Dispatch_Op<string mnemonic, list<Trait> traits = []> : Op<Dispatch_Dialect, mnemonic, traits>;
class Dispatch_KernelOp<string mnemonic, list<Trait> traits = []>
    : Dispatch_Op<mnemonic, !listconcat(traits, [Pure, IsolatedFromAbove, KernelInterface, DeclareOpInterfaceMethods<RowReadsInterface>])>;

/// A kernel whose body, or dropout, may draw random numbers.
class Dispatch_DrawingOp<string mnemonic, list<Trait> traits = []>
    : Dispatch_KernelOp<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<DrawInterface, ["drawsNumbers"]>])> {
  dag drawing = (ins UnitAttr:$draws_by_update);
}

def SharesMemory : DeclareOpInterfaceMethods<SharedMemoryInterface>;

def Dispatch_RowsOp : Dispatch_DrawingOp<"rows", [SingleBlock, SharesMemory]> {
  let summary = "One pass over rows, with statistics";
  let description = [{
    The body runs once a row. Its arguments are the operands seen through `accesses`; it yields one value a
    result, stored through `result_accesses`. The body holds elementwise arith and math ops on tensors of
    one row, `tensor.splat`, and the dispatch ops that follow (reduce, reduce_group, spread, column, position, random).
    `aliases` gives, for each result, the operand whose memory it must share, or -1: it is updated in place.
    Rows that are not valid are skipped, or, with `zero_invalid`, their results are written as zeros.

    ```mlir
    %y, %h = dispatch.rows ... ins(%x, %gain) {
    ^bb0(%row: tensor<4x256xf32>, %g: tensor<256xf32>):
      %sum = dispatch.reduce_group add %row : tensor<4x256xf32> -> tensor<256xf32>
      ...
      dispatch.yield %mean, %normalized : tensor<256xf32>, tensor<256xf32>
    }
    ```
  }];
  let arguments = !con((ins Variadic<AnyRankedTensor>:$all_inputs,
                       Dispatch_Domain:$domain, ArrayAttr:$accesses, ArrayAttr:$result_accesses,
                       UnitAttr:$zero_invalid, OptionalAttr<DenseI64ArrayAttr>:$aliases, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard), drawing);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{operands attr-dict-with-keyword $body `:` functional-type(operands, results)}];
  let extraClassDeclaration = [{
    /// Operands with an access: all but the schedule.
    ::mlir::OperandRange getInputs() { return getAllInputs().drop_back(getDomain().getScheduled() ? 1 : 0); }
    AccessAttr getAccess(unsigned operand);
    bool followsDomain(unsigned result);
    bool zeroesInvalid(unsigned) { return getZeroInvalid(); }
    bool staysWithinAxis(unsigned result) { return !getZeroInvalid() && followsDomain(result); }
    std::optional<int64_t> getRowFactor(unsigned operand);
  }];
  let hasVerifier = 1;
}

def Dispatch_ContractOp : Dispatch_DrawingOp<"contract", [SingleBlock]> {
  let summary = "Rows times a weight matrix, with an epilogue";
  let description = [{
    acc[r, n] = sum over k of input[r, k] * W(k, n). Weights are stored [out, in], so a linear map reads
    W(k, n) = weight[n, k] and, with `by_input`, the gradient of its input reads W(k, n) = weight[k, n].
    The epilogue is scalar code: arguments (acc, then one f32 an extra operand at element (r, n)), it yields one
    value a result. Extra operands: access `row` [B, T, N] (identity map), `vector` [N], and `scalar`. Results: `row`
    [B, T, N]. `input` is [B, T, K]. Rows that are not valid may be computed or not. `input` and `weight` have one type,
    f32 or bf16; extras and results may have either.

    With `rotated_columns` the last extra is the table of angles, f32 [T, D] of access `table`. At 2i it has the cosine and
    at 2i + 1 the sine of row p's angle, and no argument stands for it. `rotated_columns` is a multiple of D. Of the columns
    below it, each pair (hD + 2i, hD + 2i + 1) of what is stored as the first result is rotated by its row's angle (Su et
    al. 2021, equation 34).
  }];
  let arguments = !con((ins AnyRankedTensor:$input, AnyRankedTensor:$weight, Variadic<AnyRankedTensor>:$all_extras,
                       Dispatch_Domain:$domain, UnitAttr:$by_input,
                       ArrayAttr:$accesses, ArrayAttr:$result_accesses, OptionalAttr<I64Attr>:$rotated_columns,
                       OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard), drawing);
  let results = (outs Variadic<AnyRankedTensor>:$outputs);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{operands attr-dict-with-keyword $epilogue `:` functional-type(operands, results)}];
  let extraClassDeclaration = [{
    /// Operands with an access: all behind the weight but the schedule.
    ::mlir::OperandRange getExtras() { return getAllExtras().drop_back(getDomain().getScheduled() ? 1 : 0); }
    /// The table of angles; null where nothing is rotated.
    ::mlir::Value getRotary() { return getRotatedColumns() ? ::mlir::Value(getExtras().back()) : ::mlir::Value(); }
    /// Extras that are arguments of the epilogue.
    ::mlir::OperandRange getArgumentExtras() { return getExtras().drop_back(getRotatedColumns() ? 1 : 0); }
    AccessAttr getAccess(unsigned operand);
    bool staysWithinAxis(unsigned) { return true; }
    /// Of rows, all but a table of angles.
    bool readsOwnRows(unsigned operand);
    int64_t getTileRows(int64_t blocks);
  }];
  let hasVerifier = 1;
}

def Dispatch_WeightGradientOp : Dispatch_KernelOp<"weight_gradient", [AttrSizedOperandSegments, AttrSizedResultSegments, SharesMemory]> {
  let summary = "Sum over valid rows of an outer product, and of its left factor";
  let description = [{
    weight[m, k] = init_weight[m, k] + sum over valid rows r of left[r, m] * right[r, k];
    bias[m] = init_bias[m] + sum over valid rows of left[r, m]. `left` is the gradient of a linear map's result, `right` its
    input. Inits may be absent (zero) and may share their result's memory. The order of the sum is fixed. `left` and
    `right` have one type, f32 or bf16; inits and results are f32.
  }];
  let arguments = (ins AnyRankedTensor:$left, AnyRankedTensor:$right, Optional<AnyRankedTensor>:$init_weight,
                       Optional<AnyRankedTensor>:$init_bias, Dispatch_Domain:$domain, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard);
  let results = (outs Optional<AnyRankedTensor>:$weight, Optional<AnyRankedTensor>:$bias);
  let extraClassDeclaration = [{ bool followsDomain(unsigned) { return false; } }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

defvar attentionDoc = [{
    Of every batch row b and head h, whose key/value head is h div (heads / kv_heads). D is head_size.

    - Scores: s(p, q) = score_region(sum_c Q[p, c] K[q, c], p, q, h) for (p, q) in `mask`. That is an integer set over dims
      (p, q); its symbol N is the valid length of keys.
    - P = softmax of s over the q's of the relation with 0 <= q < N.
    - O = (P o keep) V. A row whose relation is empty gives O = 0 and lse = -inf.

    `domain` is that of queries. Keys and values have the rows of `key_domain`, the same where it is absent. With
    `key_counts`, i64 [B], batch row b has key_counts[b] valid keys, 0 to the positions of their domain.
    Q, K and V are columns query_column + h D, key_column + hk D, value_column + hk D of rows of `query`, `key`
    and `value` (the three may be one tensor), rotated already where they are to be (`contract`).
    keep = bernoulli(1 - dropout) / (1 - dropout), drawn by Philox at element ((b heads + h) T + p) T' + q, stream
    `random_id`, T the positions of queries and T' of keys.
    The score region takes (f32 score, i32 p, i32 q, i32 h), then the terms that it reads, and yields f32; it is straight-line arith
    and math.

    *Terms* by distance may follow the tensors above (DistanceTerms). `distance` is d(p, q) = a p - b q + c with
    a, b >= 1; where it is absent, d(p, q) = p - q. A row of R is a step of distance. Its factor is f / a, f the queries' factor, and also
    the keys' factor over b. With two tensors of rows, Qv [B, T, heads * D] and R [B, M, heads * D], the region has one more
    argument, their product: the sum over i of Qv[p, i] R[d(p, q), i].
    With `distance_bias` a table b, f32 [M, heads], follows, and the region has one more argument, b[d(p, q), h]. What the region makes
    of them is its own affair: a sum, a factor, any function. A table of one row is a number a head. A distance beyond the
    last (valid) row has that row. The mask says d(p, q) >= 0.
    Q, K, V and the gradient of O have one type, f32 or bf16; results may have either; lse is f32.
}];

defvar attentionMethods = [{
    /// The rows of keys and values. Of a scheduled op the factor alone holds: their rings say how many there are.
    DomainAttr getKeys() { return getKeyDomain().value_or(getDomain()); }
    /// Each batch row's valid keys, i64 [B]; null where the key domain says how many there are.
    ::mlir::Value getKeyCounts() { return optionalOperand(getExtras(), 64, 1); }
    bool staysWithinAxis(unsigned) { return true; }
    std::optional<int64_t> getRowFactor(unsigned operand);
    /// Queries, keys and values, where heads are copied in chunks of 16 bytes: those of rows that are not valid are not.
    bool skipsInvalid(unsigned operand) { return operand < 3 && getHeadSize() % 8 == 0; }
}];

class Dispatch_AttentionBase<string mnemonic_> : Dispatch_DrawingOp<mnemonic_> {
  dag attentionAttributes = !con((ins Dispatch_Domain:$domain, OptionalAttr<Dispatch_Domain>:$key_domain, I64Attr:$heads, I64Attr:$kv_heads, I64Attr:$head_size,
                       I64Attr:$query_column, I64Attr:$key_column, I64Attr:$value_column,
                       IntegerSetAttr:$mask, DefaultValuedAttr<F32Attr, "0.0f">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$random_id, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard, UnitAttr:$distance_bias, OptionalAttr<AffineMapAttr>:$distance), drawing);
}

def Dispatch_AttentionOp : Dispatch_AttentionBase<"attention"> {
  let summary = "Attention forward: outputs and the rows' log-sum-exp";
  let description = attentionDoc # [{
    Results: output [B, T, heads * D], lse [B, T, heads] (natural logarithm; rank 3, so its rows are padded).
    In a scheduled domain queries are its rows; keys and values are read wherever the relation holds, at the positions
    that their rings still hold. `extras` holds the operands of terms, then the schedule or `key_counts`, each where it is there.
  }];
  let arguments = !con((ins AnyRankedTensor:$query, AnyRankedTensor:$key, AnyRankedTensor:$value,
                            Variadic<AnyRankedTensor>:$extras), attentionAttributes);
  let results = (outs AnyRankedTensor:$output, AnyRankedTensor:$lse);
  let extraClassDeclaration = attentionMethods # [{
    std::optional<SharedRead> getSharedRead(unsigned operand);
    ::mlir::Value getSchedule() { return optionalOperand(getExtras(), 64, 2); }
    DistanceTerms getTerms() {
      return DistanceTerms(getExtras().drop_back((getSchedule() ? 1 : 0) + (getKeyCounts() ? 1 : 0)), getDistanceBias(), getDistance());
    }
  }];
  let regions = (region SizedRegion<1>:$score);
  let assemblyFormat = [{operands attr-dict-with-keyword $score `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Dispatch_AttentionBackwardOp : Dispatch_AttentionBase<"attention_backward"> {
  let summary = "Attention backward: gradients of Q, K and V in one pass";
  let description = attentionDoc # [{
    `score_gradient` takes what the score region takes, then f32 g, and yields g * d score_region / d score, then the same for each term
    that the region reads. It is derived from the score region by differentiation of scalar code, never written by hand. Results are one gradient
    of all three, [B, T, width]; or two, of Q and of K and V; or three. dQ, dK and dV are in the columns query_column,
    key_column and value_column, so ranges in one tensor are disjoint. One tensor of all takes one domain. Where `rotary` is given, f32 [T, D] as in `contract`, each pair of dQ and dK is
    rotated back by its row's angle. Rows that are not valid are zeros where all valid numbers are finite; on an axis they hold anything.
    `extras` holds the operands of terms, `rotary` and `key_counts`, in this order, each where it is there.
    Gradients of terms follow: of Qv and R rows as theirs, and of the table [B, M, heads], one part a row of the batch, whose sum
    `scatter_rows` forms.
  }];
  let arguments = !con((ins AnyRankedTensor:$query, AnyRankedTensor:$key, AnyRankedTensor:$value,
                            AnyRankedTensor:$output, AnyRankedTensor:$lse, AnyRankedTensor:$output_gradient,
                            Variadic<AnyRankedTensor>:$extras), attentionAttributes);
  let results = (outs Variadic<AnyRankedTensor>:$gradients);
  let extraClassDeclaration = attentionMethods # [{
    /// The table of angles, behind the terms; null where nothing is rotated back.
    ::mlir::Value getRotary() {
      auto isTable = [](::mlir::Value value) {
        return ::llvm::cast<::mlir::RankedTensorType>(value.getType()).getRank() == 2;
      };
      auto others = getExtras().drop_back(getKeyCounts() ? 1 : 0);
      bool isThere = ::llvm::count_if(others, isTable) > (getDistanceBias() ? 1 : 0);
      return isThere ? ::mlir::Value(others.back()) : ::mlir::Value();
    }
    DistanceTerms getTerms() {
      return DistanceTerms(getExtras().drop_back((getRotary() ? 1 : 0) + (getKeyCounts() ? 1 : 0)), getDistanceBias(), getDistance());
    }
    /// Gradients of queries, keys and values: one, two or three.
    ::mlir::ResultRange getSourceGradients() { return getGradients().drop_back(getTerms().count()); }
    bool zeroesInvalid(unsigned) { return true; }
    DomainAttr getResultDomain(unsigned result);
  }];
  let regions = (region SizedRegion<1>:$score, SizedRegion<1>:$score_gradient);
  let assemblyFormat = [{operands attr-dict-with-keyword $score `derivative` $score_gradient `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
}

defvar crossEntropyDoc = [{
    Row r = (b, p) of `input` [B, T, d] has logits x[v] = sum over c of input[r, c] * weight[v, c], plus bias[v], for the V
    rows v of `weight`. Its target t is token p + offset of row b of `tokens` (i32 [B, T'], in [0, V); 0 beyond T'). Its
    loss is log(sum over v of e^x[v]) - sum over v of y[v] x[v]. Here y[v] = (1 - s) [v = t] + s / V, and s is `smoothing`.
    Rows p < `first` are not scored. The logits' gradient is g[r, v] = a[r] (e^(x[v] - lse[r]) - y[v]), with the incoming
    gradient a[r] = `row_gradient`[r], f32 [B, T]; without that operand a[r] = `factor` / (scored rows), that of a mean.
    Rows that are not scored have a[r] = 0. A mean counts all texts alike, so the domain has no axis. Logits and g are never stored: a
    kernel holds those of one block of rows or of tokens. `input` and `weight` have one type, f32 or bf16; the input's
    gradient may have either; all else is f32.
}];

defvar crossEntropyAttributes = (ins I64Attr:$offset, DefaultValuedAttr<I64Attr, "0">:$first,
                                     DefaultValuedAttr<F32Attr, "0.0f">:$smoothing,
                                     DefaultValuedAttr<F32Attr, "1.0f">:$factor,
                                     OptionalAttr<StrAttr>:$label, OptionalAttr<StrAttr>:$guard);

def Dispatch_CrossEntropyOp
    : Dispatch_KernelOp<"cross_entropy", [AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "Head and cross-entropy of rows: losses and, in training, the rows' gradient";
  let description = crossEntropyDoc # [{
    Results: losses [B, T]; lse [B, T], the log-sum-exp of each row (natural logarithm), for
    `cross_entropy_weight_gradient`; input_gradient[r, c] = sum over v of g[r, v] * weight[v, c], [B, T, d]. Losses of rows
    that are not scored are zeros. The other results are left alone at rows that are not valid.
  }];
  let arguments = !con((ins AnyRankedTensor:$input, AnyRankedTensor:$weight, AnyRankedTensor:$tokens,
                            Optional<AnyRankedTensor>:$bias, Optional<AnyRankedTensor>:$row_gradient,
                            Dispatch_Domain:$domain), crossEntropyAttributes);
  let results = (outs AnyRankedTensor:$losses, Optional<AnyRankedTensor>:$lse,
                      Optional<AnyRankedTensor>:$input_gradient);
  let extraClassDeclaration = [{
    /// The gradient of a mean is divided by the number of scored rows.
    bool readsLength(unsigned result) { return getOperation()->getResult(result) == getInputGradient(); }
    bool zeroesInvalid(unsigned result) { return result == 0; }
    int64_t getTileRows(int64_t) { return 64; }
  }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Dispatch_CrossEntropyWeightGradientOp
    : Dispatch_KernelOp<"cross_entropy_weight_gradient", [AttrSizedOperandSegments, SharesMemory]> {
  let summary = "Head and cross-entropy: the gradients of the head's weights and bias";
  let description = crossEntropyDoc # [{
    weight_gradient[v, c] = init_weight[v, c] + sum over valid rows r of g[r, v] * input[r, c]; bias_gradient[v] =
    init_bias[v] + sum over valid rows of g[r, v]. `lse` is that of `cross_entropy`: logits are formed a second time from
    it. Inits may be absent (zero) and may share their result's memory. The order of the sum is fixed.
  }];
  let arguments = !con((ins AnyRankedTensor:$input, AnyRankedTensor:$weight, AnyRankedTensor:$tokens, AnyRankedTensor:$lse,
                            Optional<AnyRankedTensor>:$bias, Optional<AnyRankedTensor>:$row_gradient,
                            Optional<AnyRankedTensor>:$init_weight, Optional<AnyRankedTensor>:$init_bias,
                            Dispatch_Domain:$domain), crossEntropyAttributes);
  let results = (outs AnyRankedTensor:$weight_gradient, Optional<AnyRankedTensor>:$bias_gradient);
  let extraClassDeclaration = [{
    bool followsDomain(unsigned) { return false; }
    std::optional<int64_t> getRowFactor(unsigned operand);
    bool skipsInvalid(unsigned) { return false; }
  }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Dispatch_ScatterRowsOp : Dispatch_KernelOp<"scatter_rows", [SharesMemory]> {
  let summary = "Deterministic scatter-add: the gradient of a gather";
  let description = [{
    table[v, :] = init[v, :] + sum, in row order, over valid rows r with index[r] = v of values[r, :]. `index` is
    i32 [B, T + extra] (row b, column p), `values` [B, T, d], `table` [V, d] dense. `init` may be absent (zero) and may
    share the result's memory. `values` are f32 or bf16, tables f32.
  }];
  let arguments = (ins AnyRankedTensor:$index, AnyRankedTensor:$values, Optional<AnyRankedTensor>:$init,
                       Dispatch_Domain:$domain, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard);
  let results = (outs AnyRankedTensor:$table);
  let extraClassDeclaration = [{ bool followsDomain(unsigned) { return false; } }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

def Dispatch_SegmentScanOp : Dispatch_KernelOp<"segment_scan"> {
  let summary = "Where segments end: how many bits are set so far, and at which positions";
  let description = [{
    A bit is set where it is greater than 0.5, at a valid row. `bits` are [B, T, 1] or [B, T], f32 or bf16.
    counts[b, t], i32 [B, T], is the number of set bits at positions <= t. ends[b, m], i32 [B, M], is the position of set bit
    m, counted from 0, and T where there is none. totals[b], i32 [B, 2], are the set bits and M. Bits beyond M have no end:
    the host refuses what came of a row whose first number is greater than its second.
  }];
  let arguments = (ins AnyRankedTensor:$bits, Dispatch_Domain:$domain, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard);
  let results = (outs AnyRankedTensor:$counts, AnyRankedTensor:$ends, AnyRankedTensor:$totals);
  let extraClassDeclaration = [{
    bool followsDomain(unsigned) { return false; }
    bool skipsInvalid(unsigned) { return false; }
    bool makesSegments() { return true; }
  }];
  let assemblyFormat = [{operands attr-dict-with-keyword `:` functional-type(operands, results)}];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Ops of bodies
//===----------------------------------------------------------------------===//

def Dispatch_YieldOp : Dispatch_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "Ends a body";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Dispatch_ReduceKind : I32EnumAttr<"ReduceKind", "reduction over a row or a group of rows", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::sluice::dispatch";
}

def Dispatch_ReduceOp : Dispatch_Op<"reduce", [Pure]> {
  let summary = "Reduces a row over its columns to one number";
  let arguments = (ins Dispatch_ReduceKind:$kind, AnyRankedTensor:$row);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$kind $row attr-dict `:` type($row) `->` type($result)";
}

def Dispatch_ReduceGroupOp : Dispatch_Op<"reduce_group", [Pure, SingleBlock, IsolatedFromAbove]> {
  let summary = "Combines the k rows of a group, in order: tensor<k x d> -> tensor<d>";
  let description = [{
    The region is the *combiner*: of the number so far and that of a later row, column by column, it makes the next. It is
    elementwise arith and math. `identity` is what the combiner leaves alone on either side: of a group with many rows it is the
    first number so far.

    Two combiners have names: `add`, and `max`, where a later row takes over if it is greater, so that of equal numbers the first
    stays, and NaN stays NaN. Any other is written out: `combine %rows identity 1.0 : f32 {^bb0(%so_far: f32, %later: f32): ...}`.
  }];
  let arguments = (ins AnyRankedTensor:$rows, TypedAttrInterface:$identity);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$combiner);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::sluice::dispatch::ReduceKind":$kind, "::mlir::Value":$rows)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Dispatch_SpreadOp : Dispatch_Op<"spread", [Pure]> {
  let summary = "One row as each of the k rows of a group: tensor<d> -> tensor<k x d>";
  let arguments = (ins AnyRankedTensor:$row);
  let results = (outs AnyRankedTensor:$rows);
  let assemblyFormat = "$row attr-dict `:` type($row) `->` type($rows)";
  let hasVerifier = 1;
}

def Dispatch_ColumnOp : Dispatch_Op<"column", [Pure]> {
  let summary = "Column numbers of a row: tensor<d x i32> in rows, i32 in scalar regions";
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Dispatch_PositionOp : Dispatch_Op<"position", [Pure]> {
  let summary = "Position p of the row within its sequence (i32)";
  let results = (outs I32:$result);
  let assemblyFormat = "attr-dict";
}

def Dispatch_StraightThroughOp
    : Dispatch_Op<"straight_through", [Pure, AllTypesMatch<["value", "surrogate", "result"]>]> {
  let summary = "The first operand, whose derivative is that of the second";
  let description = [{
    A region of model IR holds it; a dispatch does not. The derivative of the result is 0 by `value` and 1 by `surrogate`
    (Bengio et al. 2013, arXiv 1308.3432, section 4).
  }];
  let arguments = (ins AnyType:$value, AnyType:$surrogate);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value `,` $surrogate attr-dict `:` type($result)";
}

def Dispatch_RandomOp : Dispatch_Op<"random", [Pure]> {
  let summary = "Uniform random number in [0, 1), f32, one an element";
  let description = [{
    Element e = r * width + column (64 bits; r the global row). `id` names the stream; a launch may add to it. Philox4x32-10 with counter (low 32 bits of e / 4, bits 32.. of
    e / 4, id, low 32 bits of the device scalar step) and key (low, high 32 bits of the device scalar seed); word
    w = e mod 4 of the result; the number is (w >> 8) * 2^-24. `width` is the true width of a row. With `fixed_step` the
    step in the counter is 0 (initialization). In a dispatch with `draws_by_update`, r counts from the device scalar
    first_row times the rows of a text. Elementwise ops may carry it through fusion: it depends on nothing else.
  }];
  let arguments = (ins I64Attr:$id, I64Attr:$width, UnitAttr:$fixed_step);
  let results = (outs AnyType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif
