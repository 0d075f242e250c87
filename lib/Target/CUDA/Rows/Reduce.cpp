// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions along a row: over the vectors of a thread, the columns of a vector, the lanes of a
// warp, and the warps.
#include "Rows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;

/// Sum or maximum. The result for NaN is unspecified, as on the CPU.
static Value combine(TeamRowEmitter &emitter, dispatch::ReduceKind kind, Value left, Value right) {
  Emitter &e = emitter.e;
  bool floats = isa<FloatType>(getElementTypeOrSelf(left.getType()));
  if (kind == dispatch::ReduceKind::Add) {
    return floats ? e.addf(left, right) : e.add(left, right);
  }
  return floats ? Value(arith::MaxNumFOp::create(emitter.b, left, right)) : e.max(left, right);
}

/// Reduces the vectors of a thread in order, to one vector per reduction.
Values rows::accumulate(TeamRowEmitter &emitter, const RowStage &stage, Columns &columns,
                        ValueRange carried) {
  Values next(carried);
  for (auto [r, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    Value row = reduce.getRow();
    Values values = getGroupSize(row) ? emitter.reducedGroup({}, row, columns)
                                      : emitter.rowValues(row, columns);
    for (auto [j, value] : llvm::enumerate(values)) {
      if (Value columnsOnly = computeMask(emitter, columns, j)) {
        value = emitter.e.select(columnsOnly, value,
                                 emitIdentity(emitter.b, reduce.getKind(), value.getType()));
      }
      next[r] = combine(emitter, reduce.getKind(), next[r], value);
    }
  }
  return next;
}

/// Returns the value of the lane at that distance. A shuffle moves 32 bits.
static Value shuffleLane(TeamRowEmitter &emitter, Value value, int64_t distance) {
  ImplicitLocOpBuilder &b = emitter.b;
  Emitter &e = emitter.e;
  if (value.getType().isInteger(64)) {
    Type i32 = b.getI32Type(), two = VectorType::get({2}, i32);
    Value halves = vector::BitCastOp::create(
        b, two, vector::BroadcastOp::create(b, VectorType::get({1}, value.getType()), value));
    Values moved;
    for (int64_t i : {0, 1}) {
      moved.push_back(shuffleLane(emitter, vector::ExtractOp::create(b, halves, i), distance));
    }
    Value whole = vector::BitCastOp::create(b, VectorType::get({1}, value.getType()),
                                            vector::FromElementsOp::create(b, two, moved));
    return vector::ExtractOp::create(b, whole, 0);
  }
  return NVVM::ShflOp::create(b, value.getType(), e.integer(-1), value, e.integer(distance),
                              e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
}

/// Reduces over the lanes of a row as a tree; every lane gets the result.
static Value reduceWarp(TeamRowEmitter &emitter, dispatch::ReduceKind kind, Value value) {
  int64_t lanes = std::min(emitter.plan.team, threadsPerWarp);
  for (int64_t distance = lanes / 2; distance > 0; distance /= 2) {
    value = combine(emitter, kind, value, shuffleLane(emitter, value, distance));
  }
  return value;
}

/// Reduces the columns of a vector, the lanes of a warp, and the warps in order; the order depends
/// on the width only. The reductions of a stage share one barrier.
void rows::finishReductions(TeamRowEmitter &emitter, const RowStage &stage, ValueRange carried) {
  ImplicitLocOpBuilder &b = emitter.b;
  Frame &frame = emitter.frame;
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  for (auto [r, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    Value total = vector::ExtractOp::create(b, carried[r], 0);
    for (int64_t i = 1; i < plan.vector; ++i) {
      total =
          combine(emitter, reduce.getKind(), total, vector::ExtractOp::create(b, carried[r], i));
    }
    total = reduceWarp(emitter, reduce.getKind(), total);
    emitter.scalars[reduce.getResult()] = total;
    if (plan.team > threadsPerWarp) {
      Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, frame.lane, e.index(0));
      e.when(first, [&] { e.store(total, emitter.slots.lookup(reduce), frame.warp); });
    }
  }
  if (plan.team <= threadsPerWarp || stage.reductions.empty()) {
    return;
  }
  NVVM::BarrierOp::create(b);
  for (dispatch::ReduceOp reduce : stage.reductions) {
    Value slot = emitter.slots.lookup(reduce), total = e.loadScalar(slot, e.index(0));
    for (int64_t warp = 1; warp < plan.team / threadsPerWarp; ++warp) {
      total = combine(emitter, reduce.getKind(), total, e.loadScalar(slot, e.index(warp)));
    }
    emitter.scalars[reduce.getResult()] = total;
  }
}
