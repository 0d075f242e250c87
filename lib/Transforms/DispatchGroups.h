// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which model ops share a dispatch.
#pragma once

#include "RepeatedMaps.h"
#include "sluice/Dialect/Sluice/Fusion.h"

namespace sluice {

/// Ops of one dispatch, in program order.
struct DispatchGroup {
  enum class Kind { Rows, Contraction, Alone };
  Kind kind = Kind::Rows;
  size_t order = 0; ///< program order of the op it formed around: groups run in this order
  llvm::SmallVector<mlir::Operation *> ops;
};

/// Groups of a function, in the order they run. Every op that computes is in exactly one; ops that
/// are only maps are in one where some reader takes no map.
///
/// A group runs where the op it formed around stands. An op may join if what it reads is there
/// before that point, and, where it moves later than its own place, if all its other readers run
/// later still. So the order is a valid one. `repeated` maps join the contraction that they stand
/// behind.
std::vector<DispatchGroup> formDispatchGroups(mlir::func::FuncOp func,
                                              const RepeatedMaps &repeated = RepeatedMaps());

} // namespace sluice
