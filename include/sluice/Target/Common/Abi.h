// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every kernel of every target is called with (docs/plan-and-artifact.md).
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::target {

/// Device scalars that every kernel is given: launch arguments after the buffers' offsets, in this
/// order; each is the byte offset of the scalar. The last is given to those alone that draw by the
/// rows of an update (dispatch::drawsByUpdate). A plain integer ends the list: the launch's first
/// random stream, which is added to every stream id in the kernel, so that layers that differ in
/// their ids share a kernel.
enum class Scalar { Length, Rows, Step, Seed, FirstRow };
inline int64_t scalarCount(mlir::Operation *dispatch) {
  return dispatch::drawsByUpdate(dispatch) ? 5 : 4;
}

/// Number of launch arguments of a dispatch: operands, results, scalars, first stream. The byte
/// offset of the workspace follows them.
inline int64_t argumentCount(mlir::Operation *dispatch) {
  return dispatch->getNumOperands() + dispatch->getNumResults() + scalarCount(dispatch) + 1;
}

} // namespace sluice::target
