// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bits that cut a stream into segments, and rows of segments.
#pragma once

#include "StageContext.h"

namespace sluice::spec_to_sluice {

/// Bits of a stage's rule, f32 0 or 1, by token or by row (Rules.cpp).
mlir::Value createRuleBits(StageContext &context, spec::BoundariesOp op);
/// Bits where a row adds much to the coding rate of the rows before it (CodingRate.cpp).
mlir::Value createCodingRateBits(StageContext &context, spec::BoundariesOp op);
/// Bits, and 1 where a document ends, and in the first row where bits begin
/// segments (Documents.cpp).
mlir::Value createForcedBits(StageContext &context, spec::BoundariesOp op, mlir::Value bits);
/// Bits of segments that have ended. Their axis has more rows than that, and all are computed.
mlir::Value createClosedBits(StageContext &context, mlir::Value bits);
/// One number per row of the stage's scale as one per token: a segment's at the
/// token that ends it, zeros elsewhere; a group's is shared by its tokens.
mlir::Value createTokenNumbers(StageContext &context, mlir::Value x);

/// Bits that a predictor computes from the stream, and its loss: against the
/// rule's bits, or the prior (Predictor.cpp).
mlir::Value createPredictedBits(StageContext &context, spec::BoundariesOp op);
/// Computes the losses of predictors that wait for the softmax of `loss`.
void superviseWaiting(StageContext &context, llvm::StringRef loss);
/// Bits where a row is at least as far from the row before as near, and the
/// router's loss (Router.cpp).
mlir::Value createRoutedBits(StageContext &context, spec::BoundariesOp op);
/// The product of two rows, one number per row.
mlir::Value createInnerProduct(StageContext &context, llvm::StringRef part, mlir::Value x,
                               mlir::Value y);

/// Targets of losses, which may move in training (Targets.cpp). Numbers of a loss, and after them
/// the update's where training moves its target. Evaluation always has the last one.
llvm::SmallVector<mlir::Value> addUpdate(StageContext &context, spec::BoundariesOp op,
                                         llvm::SmallVector<mlir::Value> numbers);
/// -log a and -log(1 - a) of the prior's share a.
std::pair<ScalarValue, ScalarValue> createBitCosts(StageContext &context, spec::BoundariesOp op,
                                                   llvm::ArrayRef<ScalarValue> update);
/// N / (N - 1) and N - 1 of the rows N of a segment that a router aims at.
std::pair<ScalarValue, ScalarValue> createRatio(StageContext &context, spec::BoundariesOp op,
                                                llvm::ArrayRef<ScalarValue> update);

/// Rows of segments from rows of the stream (Pooling.cpp), and rows of the
/// stream from rows of segments.
mlir::Value poolSegments(StageContext &context, spec::ShortenOp op);
mlir::Value spreadSegments(StageContext &context, spec::UpsampleOp op);

} // namespace sluice::spec_to_sluice
