// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes logits and rows of streams with the entry `predict`.
#pragma once

#include "sluice/Runtime/Execute/Evaluator.h"

namespace sluice::runtime {

/// Computes the logits after each token of the file: file.tokenCount() rows of `vocabulary`
/// numbers, in order; row i predicts token i + 1. The entry `predict` of the executor must return
/// the logits of every row (sluice logits compiles it so). Windows are cut as in `evaluate`. Throws
/// JobError if a logit is not finite. With P processes each computes every P-th window, and `rows`
/// is called on rank 0 alone. Throws PeerError if another one failed.
void computeLogits(Executor &executor, const ByteFile &file, const EvaluationOptions &options,
                   const NumberSink &rows, const std::function<void(double)> &progress = {});

/// Computes the logits of items: of each as many rows as it has predicted tokens, in order. The
/// entry `predict` and errors are as of `computeLogits`.
void computeItemLogits(Executor &executor, const ItemSource &source, const NumberSink &rows,
                       const std::function<void(double)> &progress = {},
                       ProcessGroup *group = nullptr);

/// Returns the number of rows that `computeItemLogits` yields.
int64_t countItemRows(Executor &executor, const ItemSource &source);

/// Computes the rows of a stream on a scale of `factor` (row m represents the tokens from factor *
/// m on). The entry `predict` of the executor must return these rows. Windows have the length of
/// the context and do not overlap; a window of n tokens has ceil(n / factor) rows. Throws JobError
/// if a number is not finite.
void computeRows(Executor &executor, const ByteFile &file, int64_t factor, const NumberSink &rows,
                 const std::function<void(double)> &progress = {}, ProcessGroup *group = nullptr);

/// Returns the number of rows that `computeRows` yields for a file of `tokens` tokens.
int64_t countRows(int64_t tokens, int64_t context, int64_t factor);

} // namespace sluice::runtime
