// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that training, evaluation and generation agree about the token that a row predicts.
#pragma once

#include "sluice/Proof/Losses.h"
#include <optional>

namespace sluice {

/// Agreement of generation, which appends token t + 1 after row t, with the target of row t.
struct Alignment {
  enum Kind {
    Aligned,
    OtherTarget,    ///< a loss of the sampled prediction scores token t + `offset` instead
    OtherPrediction ///< no loss scores the prediction that is sampled
  } kind;
  mlir::Operation *op; ///< the loss, or the op of @predict at fault
  int64_t offset;
};
/// Checks that row t of @evaluate and the last row of @predict at length t + 1 are the same
/// computation, so that a proof about @evaluate holds for @predict.
Alignment checkAlignment(mlir::func::FuncOp evaluate, mlir::func::FuncOp predict);

/// A loss of training that evaluation does not score.
struct OtherTraining {
  CrossEntropyOp loss;
  /// The offset of the token against which evaluation scores the same head; none if no loss of
  /// training has the weights that are evaluated.
  std::optional<int64_t> evaluated;
};
std::optional<OtherTraining> findOtherTraining(mlir::func::FuncOp evaluate,
                                               mlir::func::FuncOp train);

} // namespace sluice
