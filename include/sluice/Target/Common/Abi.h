// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launch arguments of kernels on every target (docs/plan-and-artifact.md).
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::target {

/// Device scalars of every kernel. They are launch arguments after the offsets of the buffers, in
/// this order; each argument is the byte offset of a scalar. DrawRows is only passed to kernels
/// that draw by the rows of an update (dispatch::drawsByUpdate): a number per row of the batch. The
/// last argument is an integer: the first random stream of the launch, which the kernel adds to
/// every stream id, so that layers with different ids share a kernel.
enum class AbiScalar { Length, Rows, Step, Seed, DrawRows };
inline int64_t scalarCount(mlir::Operation *dispatch) {
  return dispatch::drawsByUpdate(dispatch) ? 5 : 4;
}

/// Returns the number of launch arguments of a dispatch: operands, results, scalars, first stream.
/// The byte offset of the workspace follows them.
inline int64_t argumentCount(mlir::Operation *dispatch) {
  return dispatch->getNumOperands() + dispatch->getNumResults() + scalarCount(dispatch) + 1;
}

} // namespace sluice::target
