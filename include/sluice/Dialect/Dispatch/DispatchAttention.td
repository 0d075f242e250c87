// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient. A part of Dispatch.td, which includes it.

defvar attentionDoc = [{
    Computed for every batch row b and head h, whose key/value head is h div (heads / kv_heads). D
    is head_size.

    - Scores: s(p, q) = score_region(sum_c Q[p, c] K[q, c], p, q, h) for (p, q) in `mask`. That is
      an integer set over dims (p, q); its symbol N is the valid length of keys.
    - P = softmax of s over the q's of the relation with 0 <= q < N.
    - O = (P o keep) V. A row whose relation is empty gives O = 0 and lse = -inf.

    `domain` is the domain of the queries. Keys and values have the rows of `key_domain`, by default
    `domain`. With `key_counts`, i64 [B], batch row b has key_counts[b] valid keys, from 0 to the
    positions of their domain. With `key_rows`, i32 [B], batch row b reads batch row key_rows[b] of
    keys, values and `key_counts`, so batch rows may share keys. Q, K and V are columns
    query_column + h D, key_column + hk D, value_column + hk D of rows of `query`, `key` and `value`
    (the three may be one tensor), after the rotation, if any (`contract`).
    keep = bernoulli(1 - dropout) / (1 - dropout), drawn by Philox at element
    ((b heads + h) T + p) T' + q, stream `random_id`, T the positions of queries and T' of keys. The
    score region takes (f32 score, i32 p, i32 q, i32 h), then its relative position terms, and
    yields f32; it is straight-line arith and math.

    Operands of relative position *terms* may follow the tensors above (DistanceTerms). `distance`
    is d(p, q) = a p - b q + c with a, b >= 1; if absent, d(p, q) = p - q. A row of R is a step of
    distance. Its factor is f / a, f the queries' factor, and also the keys' factor over b. With two
    tensors of rows, Qv [B, T, heads * D] and R [B, M, heads * D], the region has one more argument,
    their product: the sum over i of Qv[p, i] R[d(p, q), i]. With `distance_bias` a table b, f32 [M,
    heads], follows, and the region has one more argument, b[d(p, q), h]. The region may combine
    them by any function: a sum or a product, for example. A table of one row is one number per
    head. A distance beyond the last (valid) row uses that row. The mask implies d(p, q) >= 0. Q, K,
    V and the gradient of O have one type, f32 or bf16; results may have either; lse is f32.

    With a *range*, two tensors i32 [B, T], (p, q) is in the relation only if also first[b, p] <= q
    < end[b, p]. Both rise with p.

    With `centered` tables have both directions: of M rows, M odd, the middle one is for d(p, q) =
    c, where a p = b q, and the distances before the first row use that row. In place of a tensor of
    rows, R may then be a table [M, D] that all heads share: the product is the sum of the products
    Qv[p, h D + i] R[d(p, q), i].
}];

defvar attentionMethods = [{
    /// Returns the domain of keys and values. For a scheduled op only its factor is meaningful: the
    /// rings have the number of rows.
    DomainAttr getKeys() { return getKeyDomain().value_or(getDomain()); }
    /// Returns each batch row's number of valid keys, i64 [B]; null if the key domain has it.
    ::mlir::Value getKeyCounts() { return optionalOperand(getExtras(), 64, 1); }
    /// Returns the batch row of the keys of each batch row, i32 [B]; null: it is the same.
    ::mlir::Value getKeyRows() { return optionalOperand(getExtras(), 32, 1); }
    /// Returns the number of `extras` that select keys: the range, `key_counts` and `key_rows`.
    size_t countSelections() {
      return getRange().size() + (getKeyCounts() ? 1 : 0) + (getKeyRows() ? 1 : 0);
    }
    /// Returns the ends of the range of keys of each query, i32 [B, T], before the counts and the
    /// schedule; none if there are no ranges.
    ::mlir::OperandRange getRange() { return findRange(getExtras()); }
    bool staysWithinAxis(unsigned) { return true; }
    std::optional<int64_t> getRowFactor(unsigned operand);
    /// Returns true for queries, keys and values if heads are copied in chunks of 16 bytes: then
    /// rows that are not valid are skipped.
    bool skipsInvalid(unsigned operand) { return operand < 3 && getHeadSize() % 8 == 0; }
}];

class Dispatch_AttentionBase<string mnemonic_> : Dispatch_DrawingOp<mnemonic_> {
  dag attentionAttributes = !con((ins Dispatch_Domain:$domain,
                                  OptionalAttr<Dispatch_Domain>:$key_domain, I64Attr:$heads,
      I64Attr:$kv_heads, I64Attr:$head_size,
                       I64Attr:$query_column, I64Attr:$key_column, I64Attr:$value_column,
                       IntegerSetAttr:$mask, DefaultValuedAttr<F32Attr, "0.0f">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$random_id, OptionalAttr<StrAttr>:$label,
                       OptionalAttr<StrAttr>:$guard, UnitAttr:$distance_bias,
                           OptionalAttr<AffineMapAttr>:$distance, UnitAttr:$centered), drawing);
}

def Dispatch_AttentionOp : Dispatch_AttentionBase<"attention"> {
  let summary = "Attention forward: outputs and the rows' log-sum-exp";
  let description = !strconcat(attentionDoc # [{
    Results: output [B, T, heads * D], lse [B, T, heads] (natural logarithm; rank 3, so its rows are
    padded). In a scheduled domain queries are its rows; keys and values are the positions of the
    relation, all of which their rings still contain. `extras` has the operands of terms, then the
    range, `key_counts`, `key_rows` and the schedule, if present.

    Example:

    ```mlir
    %output, %lse = dispatch.attention %x, %x,
        %x attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
        heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64,
            key_column = 4 : i64,
        value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
      dispatch.yield %score : f32
    } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>)
        -> (tensor<2x16x4xf32>, tensor<2x16x2xf32>)
    ```

    Constraints:
    - D-018: the last operand of a scheduled op is its schedule, i64 [batch, 3].
    - D-082: a range has one i32 per query, in a domain that is not scheduled.
    - D-019: a scheduled op has no dropout.
    - D-020: the factor of a scheduled domain is at least 1.
  }], attentionConstraints);
  let arguments = !con((ins AnyRankedTensor:$query, AnyRankedTensor:$key, AnyRankedTensor:$value,
                            Variadic<AnyRankedTensor>:$extras), attentionAttributes);
  let results = (outs AnyRankedTensor:$output, AnyRankedTensor:$lse);
  let extraClassDeclaration = attentionMethods # [{
    std::optional<SharedRead> getSharedRead(unsigned operand);
    ::mlir::Value getSchedule() { return optionalOperand(getExtras(), 64, 2); }
    DistanceTerms getTerms() {
      size_t others = (getSchedule() ? 1 : 0) + countSelections();
      return DistanceTerms(getExtras().drop_back(others),
                           getDistanceBias(), getCentered(), getDistance());
    }
  }];
  let regions = (region SizedRegion<1>:$score);
  let assemblyFormat = [{operands attr-dict-with-keyword $score `:` functional-type(operands,
      results)}];
  let hasVerifier = 1;
}

def Dispatch_AttentionBackwardOp : Dispatch_AttentionBase<"attention_backward"> {
  let summary = "Attention backward: gradients of Q, K and V in one pass";
  let description = !strconcat(attentionDoc # [{
    `score_gradient` takes the arguments of the score region, then f32 g, and yields g * d
    score_region / d score, then the same for each term of the region. Scalar differentiation
    derives it from the score region. Results are one gradient of all three, [B, T, width]; or two,
    of Q and of K and V; or three. dQ, dK and dV are in the columns query_column, key_column and
    value_column, so ranges in one tensor are disjoint. One tensor for all three requires one
    domain. With `rotary`, f32 [T, D] as in `contract`, each pair of dQ and dK is rotated back by
    its row's angle. Rows that are not valid are zeros if all valid numbers are finite; on an axis
    their contents are undefined. `extras` has the operands of terms, `rotary`, the range and
    `key_counts`, in this order, if present. Gradients of terms follow: of Qv and R in the shapes of
    their operands, and of the table as [B, M, heads], one partial sum per batch row, which
    `scatter_rows` adds up. With `centered` partial sums have a row for each distance d(p, q), S of
    them: [B, S, heads] of the table of biases, and of the table R [B, heads * S, D], f32.

    Example:

    ```mlir
    %dx = dispatch.attention_backward %x, %x, %x, %output, %lse,
        %dy attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
        heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64,
            key_column = 4 : i64,
        value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
      dispatch.yield %score : f32
    } derivative {
    ^bb0(%score: f32, %p: i32, %q: i32, %head: i32, %gradient: f32):
      dispatch.yield %gradient : f32
    } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x4xf32>,
        tensor<2x16x2xf32>,
         tensor<2x16x4xf32>) -> tensor<2x16x12xf32>
    ```

    Constraints:
    - D-017: with `rotary`, `head_size` is even and the number of columns of the table,
      which has a row per position.
    - D-022: gradients of queries, keys and values are one, two or three tensors with the
      rows of their operands, one only where both domains are equal; gradients of terms
      follow.
  }], unscheduledConstraints, attentionConstraints);
  let arguments = !con((ins AnyRankedTensor:$query, AnyRankedTensor:$key, AnyRankedTensor:$value,
                            AnyRankedTensor:$output, AnyRankedTensor:$lse,
                                AnyRankedTensor:$output_gradient,
                            Variadic<AnyRankedTensor>:$extras), attentionAttributes);
  let results = (outs Variadic<AnyRankedTensor>:$gradients);
  let extraClassDeclaration = attentionMethods # [{
    /// Returns the table of rotary angles, after the terms; null without rotation.
    ::mlir::Value getRotary() {
      auto others = getExtras().drop_back(countSelections());
      size_t tables = ::llvm::count_if(others, DistanceTerms::isTable);
      bool isThere = tables > DistanceTerms::countTables(others, getDistanceBias());
      return isThere ? ::mlir::Value(others.back()) : ::mlir::Value();
    }
    DistanceTerms getTerms() {
      size_t others = (getRotary() ? 1 : 0) + countSelections();
      return DistanceTerms(getExtras().drop_back(others),
                           getDistanceBias(), getCentered(), getDistance());
    }
    /// Returns the gradients of queries, keys and values: one, two or three.
    ::mlir::ResultRange getSourceGradients() {
      return getGradients().drop_back(getTerms().count());
    }
    bool zeroesInvalid(unsigned) { return true; }
    DomainAttr getResultDomain(unsigned result);
  }];
  let regions = (region SizedRegion<1>:$score, SizedRegion<1>:$score_gradient);
  let assemblyFormat = [{operands attr-dict-with-keyword $score `derivative` $score_gradient `:`
                         functional-type(operands, results)}];
  let hasVerifier = 1;
}
