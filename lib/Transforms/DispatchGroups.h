// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects model ops that share a dispatch.
#pragma once

#include "RepeatedMaps.h"
#include "sluice/Dialect/Sluice/Fusion.h"

namespace sluice {

/// Ops of one dispatch, in program order.
struct DispatchGroup {
  enum class Kind { Rows, Contraction, Alone };
  Kind kind = Kind::Rows;
  size_t order = 0; ///< program order of the op it formed around; groups run in this order
  llvm::SmallVector<mlir::Operation *> ops;
};

/// Forms the groups of a function, in execution order. Every op that computes is in exactly one
/// group; ops that are only maps are in one if some reader accepts no map.
///
/// A group runs at the position of the op it formed around. An op may join if its operands are
/// available before that position and, if this delays the op, all its other readers run later
/// still. The order is therefore valid. `repeated` maps join the contraction that they follow. In a
/// step, given by `step`, ops of a group have one schedule.
std::vector<DispatchGroup> formDispatchGroups(mlir::func::FuncOp func,
                                              const RepeatedMaps &repeated = RepeatedMaps(),
                                              const StepValues *step = nullptr);

} // namespace sluice
