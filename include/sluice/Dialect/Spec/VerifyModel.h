// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of a whole model.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Maximum number of primitive stages of a model.
constexpr size_t mostStages = size_t(1) << 16;
/// Maximum number of elements of all streams at one stage, and of parameters.
constexpr int64_t mostElements = int64_t(1) << 40;

/// Verifies a model whose composites are expanded: names of losses and segments, losses that
/// boundaries use, sizes of streams. Reports the first error.
llvm::LogicalResult verifyExpandedModel(ModelOp model);

/// Fails if tokens are on the axis of an input that has none, or do not fit it.
llvm::LogicalResult verifyInputAxes(ModelOp model);

/// Verifies the order of stages, which hand-written IR may violate: an embedding of the tokens
/// first, one head, which is last, and a path of each stage.
llvm::LogicalResult verifyStageOrder(ModelOp model);

/// Returns true for a stage that `spec-expand-composites` replaces.
bool isComposite(mlir::Operation *stage);
/// Reports a composite stage after expansion. Always fails.
llvm::LogicalResult refuseComposite(mlir::Operation *stage);
/// Reports a frozen stage without weights. Always fails.
llvm::LogicalResult refuseFrozen(mlir::Operation *stage);

} // namespace sluice::spec
