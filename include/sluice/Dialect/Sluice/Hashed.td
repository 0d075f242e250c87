// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by hashes (Reformer). Apart from Sluice.td, as few programs need it.

#ifndef SLUICE_HASHED_TD
#define SLUICE_HASHED_TD

include "sluice/Dialect/Sluice/Step.td"

defvar hashedAttributes = (ins I64Attr:$heads, I64Attr:$head_size, I64Attr:$bucket_count,
                           I64Attr:$chunk, UnitAttr:$sorted);

def Sluice_HashedBucketsOp : Sluice_ForwardOp<"hashed_buckets", [FusesAs<"Alone">],
                                              ["getNeutralName", "getBurstRefusal"]> {
  let summary = "The bucket of a row by each hash (Kitaev et al. 2020, section 2)";
  let description = [{
    `rotations`, [hashes buckets / 2, d], are constants. For each hash, y = R x has a number for
    each of half the buckets. The bucket of a row is i where |y[i]| is the greatest, plus half the
    buckets where y[i] < 0 (equation 4's argmax of [y; -y]). The result has a column a hash: whole
    numbers from 0 on, as f32. No gradient passes through it.

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
    /// Buckets of a hash, an even number.
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
    Queries and keys are one sequence, of heads D columns, and values another one. `buckets` has a
    column a hash: the row's bucket, 0 to `bucket_count` - 1 (hashed_buckets). All heads share it.

    The rank of row p is the number of rows q < p of its bucket, and its chunk is rank div `chunk`.
    Row p reads the rows q < p of its bucket in its own chunk and in the one before; itself only
    where no hash finds it any other row. Buckets and ranks depend on rows up to p. Scores are
    products over sqrt(D); softmax runs over the rows of all hashes together, a row that two of them
    find counting twice. It is the sum of each hash's attention, weighted by its log-sum-exp. `lse`
    is the log-sum-exp of a row, 0 where it reads itself alone. No gradient passes through buckets.

    In a step keys, values and buckets are read from states, and queries are the rows that are due.

    With `sorted` rows are ranked as published: sorted by bucket, then by position, and the sorted
    list is cut into chunks. Which rows are in a chunk then depends on all of them. Such an op
    leaks, and does not compile.

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
  let summary = "Gradients of the rows that are queries and keys, and of values";
  let description = [{
    Each hash's part is a gradient of attention by the output and the log-sum-exp of all hashes
    together.

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
