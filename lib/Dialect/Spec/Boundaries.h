// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifiers of stages that use the segments of a boundaries stage.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Fails if the method of a shorten or upsample stage does not fit the segments of `cut`.
mlir::LogicalResult verifySelection(mlir::Operation *stage, BoundariesOp cut);
/// Returns the type of a stream of segments: a given one where the segmented scale is given.
StreamType getSegmentStream(SegmentationType segmentation, int64_t width);
/// Fails unless `input` is on the segmented scale.
mlir::LogicalResult verifyCutScale(mlir::Operation *stage, mlir::Value input,
                                   SegmentationType segmentation);

} // namespace sluice::spec
