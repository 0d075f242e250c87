// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that verifiers of stages share. Each reports at the key that is wrong.
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

/// Fails where a stage of this kind cannot read rows of its input's axis: an input's, or segments.
mlir::LogicalResult verifyAxis(mlir::Operation *stage, mlir::Value input);
/// Fails unless two streams are of one axis and scale, and of one width where `sameWidth`.
mlir::LogicalResult verifyPair(mlir::Operation *stage, mlir::Value input, mlir::Value with,
                               bool sameWidth);
/// Fails where "start" is "null" without first rows to learn: a shift of 0.
mlir::LogicalResult verifyStart(mlir::Operation *stage, StartRows start, std::optional<int64_t> by);
/// Fails where a linear map of a group has a window: `key` with "METHOD_KEY": "linear".
mlir::LogicalResult verifyNoWindow(mlir::Operation *stage, bool isLinear, llvm::StringRef methodKey,
                                   llvm::StringRef key, llvm::StringRef other);
/// Returns the boundaries stage of a segmentation.
BoundariesOp getCut(mlir::Value segmentation);
/// Returns the boundaries stage of the segments that are the rows of a stream; null if its rows are
/// not segments.
BoundariesOp getCutBelow(StreamType stream, mlir::Operation *from);
/// Begins the error of a key that is missing, with its declaration's hint or this one.
mlir::InFlightDiagnostic emitMissingKey(mlir::Operation *op, llvm::StringRef key,
                                        llvm::StringRef hint = "");
/// Formats a number for a message: "0.5".
std::string describeNumber(double number);
/// Returns the model of a stage.
ModelOp getModel(mlir::Operation *stage);

using sluice::quote;

} // namespace sluice::spec
