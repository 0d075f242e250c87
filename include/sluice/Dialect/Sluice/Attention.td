// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient. A part of Sluice.td, which includes it.

def attentionAttributes {
  dag attributes = (ins I64Attr:$heads, I64Attr:$kv_heads, I64Attr:$head_size,
                        I64Attr:$query_column, I64Attr:$key_column, I64Attr:$value_column,
                            IntegerSetAttr:$mask,
                        DefaultValuedAttr<F32Attr, "0.0f">:$dropout, DefaultValuedAttr<I64Attr,
                            "0">:$random_id,
                        UnitAttr:$distance_bias, OptionalAttr<AffineMapAttr>:$distance,
                        UnitAttr:$centered);
  code declaration = [{
    /// Returns the two ends of each row's range of keys, the last operands; none without ranges.
    ::mlir::OperandRange getRange() {
      return getExtras().take_back(hasRange(getExtras()) ? 2 : 0);
    }
    /// Returns the terms and the table of rotary angles.
    ::mlir::OperandRange getTermsAndRotary() {
      return getExtras().drop_back(getRange().size());
    }
    /// Returns the table of rotary angles, after the terms; null without rotation.
    ::mlir::Value getRotary() {
      using ::sluice::dispatch::DistanceTerms;
      auto others = getTermsAndRotary();
      size_t tables = ::llvm::count_if(others, DistanceTerms::isTable);
      bool isThere = tables > DistanceTerms::countTables(others, getDistanceBias());
      return isThere ? ::mlir::Value(others.back()) : ::mlir::Value();
    }
    /// Returns the relative position terms of scores.
    ::sluice::dispatch::DistanceTerms getTerms() {
      return ::sluice::dispatch::DistanceTerms(getTermsAndRotary().drop_back(getRotary() ? 1 : 0),
                                               getDistanceBias(), getCentered(), getDistance());
    }
  }];
}

def Sluice_AttentionOp : Sluice_ForwardOp<"attention", [FusesAs<"Alone">, IsolatedFromAbove,
                                                        AxesInterface], ["getRemedy",
                                                                         "getNeutralName"]> {
  let summary = "Softmax attention with a score region and a mask relation";
  let description = !strconcat([{
    Like dispatch.attention: queries, keys and values are columns of `query`, `key` and `value` (one
    packed sequence or several). Keys and values are on one scale, queries and the output on one.
    `mask` is the relation over a query position p and a key position q, with symbol n, the valid
    length of the keys: on a given axis, the row's own count. The score region is scalar code (f32
    score, i32 p, i32 q, i32 head) -> f32, with one more argument for each term that it uses. With
    `rotary` ([T, D], at 2i the cosine and at 2i + 1 the sine of row p's angle) each pair (2i, 2i +
    1) of a query's or key's columns is rotated by its row's angle first (Su et al. 2021, equation
    34). Results: output and the rows' log-sum-exp. The backward differentiates the region and
    transposes the relation.

    Operands of relative position *terms* may follow the three sequences, before the table.
    `distance` is d(p, q) = a p - b q + c with a, b >= 1; if absent, d(p, q) = p - q. With factors f
    of queries and g of keys, f / a = g / b. That is the factor of a step of distance. Two sequences
    of heads D columns each are Qv, on the queries' scale, and R, on the scale of the steps. The
    region then has an argument after the head, the product Qv[p] R[d(p, q)]. Its sum with the score
    is Transformer-XL's (Dai et al. 2019, equation of section 3.3, with Q = q + u, Qv = q + v). With
    `distance_bias` a table [M, heads] follows, and the region's last argument is b[d(p, q), head].
    A table of one row is one number per head. Gradients of Qv, R and the table follow from the
    region's derivatives by these arguments. A distance beyond the last valid row uses that row. The
    mask implies d(p, q) >= 0.

    With `centered` tables have both directions: of M rows the middle one is for d(p, q) = c, where
    a p = b q, and distances before the first row use that row. R may then be a table [M, head_size]
    that all heads share (Shaw et al. 2018, equation 4 without values, with Q = Qv).

    Two sequences of one i32 per query may follow all other operands: the first key that a query
    reads, and the key after the last one. They restrict the mask. In a gradient, q is in the range
    of p exactly where p is in the range of q, as for rows of a segment.

    Example:

    ```mlir
    %output, %lse = sluice.attention %x, %x, %x attributes {heads = 2 : i64, kv_heads = 2 : i64,
        head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 16 : i64,
        mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
      %scale = arith.constant 0.5 : f32
      %scaled = arith.mulf %score, %scale : f32
      sluice.yield %scaled : f32
    } : (!sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 24, f32>)
        -> (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 2, f32>)
    ```

    Constraints:
    - S-007: `mask` is a set over (p, q) with the symbol n.
    - S-008: `heads` is a multiple of `kv_heads`.
    - S-013: `heads`, `kv_heads` and `head_size` are at least 1.
    - S-014: the columns of queries, keys and values are columns of their sequences.
    - S-027: where a table of angles is given, `head_size` is even and the number of columns
      of the table.
    - S-023: with a gradient, queries, keys and values are one packed sequence, or queries
      are a sequence of their own (differentiation).
    - S-026: where a table of angles is given, queries and keys are the first columns of a
      linear map that this op alone reads (dispatch formation).
    - S-169: ranges are on the scale of queries and keys, which is a given one or of its segments.
  }], scoreConstraints);
  let arguments = !con((ins Sluice_Sequence:$query, Sluice_Sequence:$key, Sluice_Sequence:$value,
                            Variadic<AnyType>:$extras), attentionAttributes.attributes);
  let results = (outs Sluice_Sequence:$output, Sluice_Sequence:$lse);
  let regions = (region SizedRegion<1>:$score);
  let assemblyFormat = "operands attr-dict-with-keyword $score `:` functional-type(operands, "
                       "results)";
  let extraClassDeclaration = attentionAttributes.declaration;
  let hasVerifier = 1;
}

def Sluice_AttentionBackwardOp : Sluice_BackwardOp<"attention_backward", [FusesAs<"Alone">,
    IsolatedFromAbove, AxesInterface]> {
  let summary = "Gradients of queries, keys and values";
  let description = !strconcat([{
    One gradient per sequence: one if all three are packed, two (queries, then keys and values) if
    keys and values are packed, else three. A gradient has the columns of its sequence. Gradients of
    the terms follow, in operand order.

    Example:

    ```mlir
    %dx = sluice.attention_backward %x, %x, %x, %output, %lse, %dy attributes {heads = 2 : i64,
        kv_heads = 2 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 16 : i64,
        mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
      sluice.yield %score : f32
    } derivative {
    ^bb0(%score: f32, %p: i32, %q: i32, %head: i32, %gradient: f32):
      sluice.yield %gradient : f32
    } : (!sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 24, f32>,
        !sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 2, f32>, !sluice.seq<@bytes, 8, f32>)
            -> !sluice.seq<@bytes, 24, f32>
    ```

    Constraints:
    - S-036: there are one, two or three gradients of sequences, then one gradient per term,
      each with the scale and the width of its operand.
  }], scoreConstraints);
  let arguments = !con((ins Sluice_Sequence:$query, Sluice_Sequence:$key, Sluice_Sequence:$value,
                        Sluice_Sequence:$output,
                            Sluice_Sequence:$lse, Sluice_Sequence:$output_gradient,
                            Variadic<AnyType>:$extras), attentionAttributes.attributes);
  let results = (outs Variadic<AnyType>:$gradients);
  let regions = (region SizedRegion<1>:$score, SizedRegion<1>:$score_gradient);
  let assemblyFormat = "operands attr-dict-with-keyword $score `derivative` $score_gradient `:` "
                       "functional-type(operands, results)";
  let extraClassDeclaration = attentionAttributes.declaration # [{
    /// Returns the gradients of queries, keys and values: one, two or three.
    ::mlir::ResultRange getSourceGradients() {
      return getGradients().drop_back(getTerms().count());
    }
  }];
  let hasVerifier = 1;
}
