// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared parts of the kernels of output head and cross-entropy: rows, their targets, and products
// of a resident block with streamed blocks.
#pragma once

#include "../TensorCore/SumTile.h"

namespace sluice::cuda {

/// Input, weight and the gradient of the input are bf16 (the gradient may be f32); everything else
/// is f32. Logits stay in registers. Their gradient is rounded to bf16 as a factor of products.
mlir::FailureOr<Kernel> generateCrossEntropy(dispatch::CrossEntropyOp op, mlir::ModuleOp module,
                                             llvm::StringRef name);
mlir::FailureOr<Kernel>
generateCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op, mlir::ModuleOp module,
                                   llvm::StringRef name);

} // namespace sluice::cuda

namespace sluice::cuda::cross_entropy {

/// The problem, as specified by its op.
struct Head {
  mlir::Operation *op;
  mlir::ModuleOp module;
  dispatch::DomainAttr domain;
  int64_t offset;                  ///< position offset of targets
  int64_t first;                   ///< first row with a loss
  float smoothing, factor;         ///< label smoothing; factor of the mean
  int64_t rows, width, vocabulary; ///< total rows, over all sequences
  /// Indices of operands and results for `Frame::buffer`, -1 if absent; input, weight and tokens
  /// are 0, 1 and 2.
  int bias = -1, rowGradient = -1, lse = -1, losses = -1, inputGradient = -1;
  SumTargets weightGradients = {};

  /// True if the incoming gradient differs by row.
  bool differsByRow() const { return rowGradient >= 0 || first > 0; }
  /// Share of each token in a smoothed target.
  float evenShare() const { return smoothing / float(vocabulary); }
};

/// Rows and their targets in one kernel.
class LossRows {
public:
  LossRows(Frame &frame, const Head &head);

  Value getTargetToken(const Row &row); ///< i32
  Value share();                        ///< f32: factor / (number of rows with a loss)
  Value isScored(const Row &row); ///< i1: the row is valid and not before the first row with a loss
  Value incoming(const Row &row); ///< f32: incoming gradient of the row, 0 for rows without a loss
  /// e^x of one f32 that is at most about 0.
  Value exp(Value x);
  /// Log-sum-exps [B, T] of the rows, in a tensor of the op or in the workspace.
  Value lse();
  Value bias(Value token); ///< f32; null if the op has no bias. Tokens past the last repeat it

private:
  Frame &frame;
  Emitter &e;
  const Head &head;
  Value tokens, biases, gradients;
};

/// Emits losses and log-sum-exps.
KernelStage emitLosses(const Head &head, llvm::StringRef name);

/// Emits a gradient: of the rows, with resident rows and streamed tokens, or of the weights, with
/// resident tokens and streamed rows. `parts` counts the splits of the streamed dimension.
KernelStage emitGradient(const Head &head, llvm::StringRef name, bool holdsRows,
                         const PartialSums &parts);
/// Number of blocks of `emitGradient` per split.
int64_t gradientBlocks(const Head &head, bool holdsRows);
/// Number of blocks along the streamed dimension.
int64_t streamedBlocks(const Head &head, bool holdsRows);

} // namespace sluice::cuda::cross_entropy
