// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LSH attention (Reformer). Separate from Sluice.td, because few programs need it.

#ifndef SLUICE_HASHED_TD
#define SLUICE_HASHED_TD

include "sluice/Dialect/Sluice/Recurrence.td"
include "sluice/Dialect/Sluice/Step.td"

defvar hashedAttributes = (ins I64Attr:$heads, I64Attr:$head_size, I64Attr:$bucket_count,
                           I64Attr:$chunk, UnitAttr:$sorted);

def Sluice_HashedBucketsOp : Sluice_ForwardOp<"hashed_buckets", [FusesAs<"Alone">],
                                              ["getNeutralName", "getBurstRefusal"]> {
  let summary = "The bucket of each row, per hash (Kitaev et al. 2020, section 2)";
  let description = [{
    `rotations`, [hashes buckets / 2, d], are constants. For each hash, y = R x has buckets / 2
    numbers. The bucket of a row is the i that maximizes |y[i]|, plus buckets / 2 if y[i] < 0
    (argmax of [y; -y], section 2). The result has one column per hash: integers from 0, stored as
    f32. No gradient passes through it.

    Example:

    ```mlir
    %buckets = sluice.hashed_buckets %x, %rotations
        : (!sluice.seq<@bytes, 4, f32>, tensor<6x4xf32>) -> !sluice.seq<@bytes, 3, f32>
    ```

    Constraints:
    - S-112: `rotations` has the columns of the input, and the same number of rows, at least
      1, for each hash.
    - S-140: buckets are f32 on the scale of the input.
    - S-115: rows are rows of the predicted tokens.
  }];
  let arguments = (ins Sluice_Sequence:$input, AnyRankedTensor:$rotations);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    int64_t getHashes() { return getResult().getType().getWidth(); }
    /// Returns the number of buckets per hash, which is even.
    int64_t getBuckets() {
      return 2 * ::llvm::cast<::mlir::RankedTensorType>(getRotations().getType()).getDimSize(0) /
             getHashes();
    }
  }];
  let hasVerifier = 1;
}

def Sluice_HashedAttentionOp : Sluice_ForwardOp<"hashed_attention", [FusesAs<"Alone">],
                                                ["getBurstRefusal", "getRemedy"]> {
  let summary = "Attention between rows of one bucket, chunk by chunk (Kitaev et al. 2020, "
                "section 2)";
  let description = [{
    Queries and keys are one sequence, of heads D columns, and values another one. `buckets` has one
    column per hash: the row's bucket, 0 to `bucket_count` - 1 (hashed_buckets). All heads share it.

    The rank of row p is the number of rows q < p of its bucket, and its chunk is rank div `chunk`.
    Row p attends to the rows q < p of its bucket in its own chunk and in the previous chunk, and to
    itself only if no hash finds another row. Buckets and ranks depend on rows up to p. Scores are
    products over sqrt(D); softmax is over the rows of all hashes together; a row that two hashes
    find counts twice. This equals the sum of each hash's attention, weighted by its log-sum-exp.
    `lse` is the log-sum-exp of a row, 0 if the row attends only to itself. No gradient passes
    through buckets.

    In a decode step keys, values and buckets come from states, and queries are the rows that are
    due.

    With `sorted` rows are ranked as published: sorted by bucket, then by position, and the sorted
    list is cut into chunks. The rows of a chunk then depend on all rows of the sequence. Such an op
    leaks future rows and does not compile.

    Example:

    ```mlir
    %output, %lse = sluice.hashed_attention %x, %x, %v, %buckets
        {heads = 2 : i64, head_size = 2 : i64, bucket_count = 4 : i64, chunk = 4 : i64}
        : (!sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 4, f32>,
            !sluice.seq<@bytes, 3, f32>)
            -> (!sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 2, f32>)
    ```

    Constraints:
    - S-110: `heads` and `head_size` are at least 1, `bucket_count` is at least 2, and
      `chunk` is a power of two.
    - S-111: queries are the keys, or the keys are their rows in a state; both, and
      values, have `heads` times `head_size` columns on one scale.
    - S-141: `buckets` is one f32 per hash on the scale of the queries.
    - S-115: rows are rows of the predicted tokens.
    - S-113: `sorted` is not set (dispatch formation).
    - S-114: queries, keys, values and outputs have one element type (dispatch formation).
  }];
  let arguments = !con((ins Sluice_Sequence:$query, Sluice_Sequence:$key, Sluice_Sequence:$value,
                        Sluice_Sequence:$buckets),
                       hashedAttributes);
  let results = (outs Sluice_Sequence:$output, Sluice_Sequence:$lse);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    int64_t getHashes() { return getBuckets().getType().getWidth(); }
  }];
  let hasVerifier = 1;
}

def Sluice_HashedAttentionBackwardOp : Sluice_BackwardOp<"hashed_attention_backward",
                                                         [FusesAs<"Alone">]> {
  let summary = "Gradients of the shared query and key rows, and of the values";
  let description = [{
    The contribution of each hash is an attention gradient with the output and the log-sum-exp of
    all hashes.

    Example:

    ```mlir
    %dx, %dv = sluice.hashed_attention_backward %x, %v, %output, %lse, %dy, %buckets
        {heads = 2 : i64, head_size = 2 : i64, bucket_count = 4 : i64, chunk = 4 : i64}
        : (!sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 4, f32>,
            !sluice.seq<@bytes, 2, f32>,
           !sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 3, f32>)
               -> (!sluice.seq<@bytes, 4, f32>, !sluice.seq<@bytes, 4, f32>)
    ```
  }];
  let arguments = !con((ins Sluice_Sequence:$query, Sluice_Sequence:$value,
                        Sluice_Sequence:$output, Sluice_Sequence:$lse,
                            Sluice_Sequence:$gradient, Sluice_Sequence:$buckets), hashedAttributes);
  let results = (outs Sluice_Sequence:$query_gradient, Sluice_Sequence:$value_gradient);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    int64_t getHashes() { return getBuckets().getType().getWidth(); }
  }];
}

#endif
