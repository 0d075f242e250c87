// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the kernels of head and cross-entropy share: rows, their targets, and products of a block
// that is held with blocks that stream past it.
#pragma once

#include "SumTile.h"

namespace sluice::cuda::cross_entropy {

/// The problem, as its op states it.
struct Head {
  mlir::Operation *op;
  mlir::ModuleOp module;
  dispatch::DomainAttr domain;
  int64_t offset;                  ///< of targets
  int64_t first;                   ///< the first row that is scored
  float smoothing, factor;         ///< of targets; of the mean
  int64_t rows, width, vocabulary; ///< rows of all sequences
  /// Positions of operands and results as `Frame::buffer` counts them, -1 where there is none;
  /// input, weight and tokens are 0, 1 and 2.
  int bias = -1, rowGradient = -1, lse = -1, losses = -1, inputGradient = -1;
  SumTargets weightGradients = {};

  /// Whether the incoming gradient differs by row.
  bool differsByRow() const { return rowGradient >= 0 || first > 0; }
  /// Each token's share of a smoothed target.
  float evenShare() const { return smoothing / float(vocabulary); }
};

/// Rows and targets inside one kernel.
class Rows {
public:
  using Value = mlir::Value;

  Rows(Frame &frame, const Head &head);

  Value targetOf(const Row &row); ///< i32
  Value share();                  ///< f32: factor / (scored rows)
  Value isScored(const Row &row); ///< i1: valid, and not before the first
  Value incoming(const Row &row); ///< f32: its incoming gradient; of rows not scored 0
  /// e^x of one f32, at most about 0.
  Value exp(Value x);
  /// [B, T]: the rows' log-sum-exps, in the op's own tensor or in the workspace.
  Value lse();
  Value bias(Value token); ///< f32; null where the op has none. Tokens past the last repeat it

private:
  Frame &frame;
  Emitter &e;
  const Head &head;
  Value tokens, biases, gradients;
};

/// Losses and log-sum-exps.
Stage emitLosses(const Head &head, llvm::StringRef name);

/// A gradient: of the rows where they are held and tokens stream, of the weights where tokens are
/// held and rows stream. `parts` counts the splits of what streams.
Stage emitGradient(const Head &head, llvm::StringRef name, bool holdsRows,
                   const PartialSums &parts);
/// Blocks of `emitGradient` a split.
int64_t gradientBlocks(const Head &head, bool holdsRows);
/// Blocks of what streams.
int64_t streamedBlocks(const Head &head, bool holdsRows);

} // namespace sluice::cuda::cross_entropy
