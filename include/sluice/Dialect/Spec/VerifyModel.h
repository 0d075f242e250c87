// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of a whole model.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Most primitive stages of a model.
constexpr size_t mostStages = size_t(1) << 16;
/// Most numbers of all streams' rows at one stage, and most parameters.
constexpr int64_t mostElements = int64_t(1) << 40;

/// Checks a model whose composites are expanded: names of losses and segments, losses that
/// boundaries ask, sizes of streams. Reports the first error.
llvm::LogicalResult verifyExpandedModel(ModelOp model);

/// Checks a model as the reader of specs does, which IR written by hand may differ from: an
/// embedding of the tokens first, one head, which is last, and a path of each stage.
llvm::LogicalResult verifyStageOrder(ModelOp model);

/// True for a stage that `spec-expand-composites` replaces.
bool isComposite(mlir::Operation *stage);
/// Reports a composite stage after expansion. Fails.
llvm::LogicalResult refuseComposite(mlir::Operation *stage);
/// Reports that a frozen stage has no weights. Fails.
llvm::LogicalResult refuseFrozen(mlir::Operation *stage);

} // namespace sluice::spec
