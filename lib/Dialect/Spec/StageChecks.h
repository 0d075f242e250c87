// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that verifiers of stages share. Each reports errors at the invalid key.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"
#include "sluice/Support/Limits.h"
#include "sluice/Support/Text.h"

#include <optional>

namespace sluice::spec {

inline StreamType getStream(mlir::Value value) { return mlir::cast<StreamType>(value.getType()); }

/// Return the type of `stream` with another factor or width.
StreamType withFactor(StreamType stream, int64_t factor);
StreamType withWidth(StreamType stream, int64_t width);

/// Fails if a stage of this kind does not support the axis of its input: an input's axis, or
/// segments.
mlir::LogicalResult verifyAxis(mlir::Operation *stage, mlir::Value input);
/// Fails unless two streams have one axis and scale, and with `sameWidth` one width.
mlir::LogicalResult verifyPair(mlir::Operation *stage, mlir::Value input, mlir::Value with,
                               bool sameWidth, llvm::StringRef key = "with");
/// Fails if "start" is "null" with a shift of 0, which has no first rows to learn.
mlir::LogicalResult verifyStart(mlir::Operation *stage, StartRows start, std::optional<int64_t> by);
/// Fails if a linear map of a group has a window: `key` with "METHOD_KEY": "linear".
mlir::LogicalResult verifyNoWindow(mlir::Operation *stage, bool isLinear, llvm::StringRef methodKey,
                                   llvm::StringRef key, llvm::StringRef other);
/// Rejects a stream of the tokens for a stage whose rows read later ones.
mlir::LogicalResult verifyGiven(mlir::Operation *stage, mlir::Value input, llvm::StringRef why);
/// Returns the boundaries stage of a segmentation.
BoundariesOp getCut(mlir::Value segmentation);
/// Returns the boundaries stage of the segments that are the rows of a stream; null if its rows are
/// not segments.
BoundariesOp getCutBelow(StreamType stream, mlir::Operation *from);
/// Emits the error for a missing key, with its declaration's hint or this one.
mlir::InFlightDiagnostic emitMissingKey(mlir::Operation *op, llvm::StringRef key,
                                        llvm::StringRef hint = "");
/// Verifies that a stage has "heads", which divide the width or have a "head_size".
template <typename Op> mlir::LogicalResult verifyWordHeads(Op op) {
  if (!op.getHeads()) {
    return emitMissingKey(op, "heads");
  }
  int64_t width = getStream(op.getInput()).getWidth();
  if (!op.getHeadSize() && width % *op.getHeads() != 0) {
    return emitKeyError(op, "heads")
           << "expected \"heads\" to divide the width, found " << *op.getHeads()
           << " heads for width " << width << "; change one of the two or give \"head_size\"";
  }
  return mlir::success();
}
/// Formats a number for a message: "0.5".
std::string describeNumber(double number);
/// Returns the model of a stage.
ModelOp getModel(mlir::Operation *stage);

using sluice::quote;

} // namespace sluice::spec
