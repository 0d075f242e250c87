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

/// Reduces the vectors of a thread in order, to one vector per reduction.
Values TeamRowEmitter::accumulate(const RowStage &stage, Columns &columns, ValueRange carried) {
  Values next(carried);
  for (auto [r, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    Value row = reduce.getRow();
    Values values = getGroupSize(row) ? reducedGroup({}, row, columns) : rowValues(row, columns);
    for (auto [j, value] : llvm::enumerate(values)) {
      if (Value columnsOnly = mask(columns, j)) {
        value = e.select(columnsOnly, value, emitIdentity(b, reduce.getKind(), value.getType()));
      }
      next[r] = combine(reduce.getKind(), next[r], value);
    }
  }
  return next;
}

/// Sum or maximum. The result for NaN is unspecified, as on the CPU.
Value TeamRowEmitter::combine(dispatch::ReduceKind kind, Value left, Value right) {
  bool floats = isa<FloatType>(getElementTypeOrSelf(left.getType()));
  if (kind == dispatch::ReduceKind::Add) {
    return floats ? e.addf(left, right) : e.add(left, right);
  }
  return floats ? Value(arith::MaxNumFOp::create(b, left, right)) : e.max(left, right);
}

/// Returns the value of the lane at that distance. A shuffle moves 32 bits.
Value TeamRowEmitter::ofLane(Value value, int64_t distance) {
  if (value.getType().isInteger(64)) {
    Type i32 = b.getI32Type(), two = VectorType::get({2}, i32);
    Value halves = vector::BitCastOp::create(
        b, two, vector::BroadcastOp::create(b, VectorType::get({1}, value.getType()), value));
    Values moved;
    for (int64_t i : {0, 1}) {
      moved.push_back(ofLane(vector::ExtractOp::create(b, halves, i), distance));
    }
    Value whole = vector::BitCastOp::create(b, VectorType::get({1}, value.getType()),
                                            vector::FromElementsOp::create(b, two, moved));
    return vector::ExtractOp::create(b, whole, 0);
  }
  return NVVM::ShflOp::create(b, value.getType(), e.integer(-1), value, e.integer(distance),
                              e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
}

/// Reduces over the lanes of a row as a tree; every lane gets the result.
Value TeamRowEmitter::acrossWarp(dispatch::ReduceKind kind, Value value) {
  int64_t lanes = std::min(plan.team, threadsPerWarp);
  for (int64_t distance = lanes / 2; distance > 0; distance /= 2) {
    value = combine(kind, value, ofLane(value, distance));
  }
  return value;
}

/// Reduces the columns of a vector, the lanes of a warp, and the warps in order; the order depends
/// on the width only. The reductions of a stage share one barrier.
void TeamRowEmitter::finishReductions(const RowStage &stage, ValueRange carried) {
  for (auto [r, reduction] : llvm::enumerate(stage.reductions)) {
    dispatch::ReduceOp reduce = reduction;
    Value total = vector::ExtractOp::create(b, carried[r], 0);
    for (int64_t i = 1; i < plan.vector; ++i) {
      total = combine(reduce.getKind(), total, vector::ExtractOp::create(b, carried[r], i));
    }
    total = acrossWarp(reduce.getKind(), total);
    scalars[reduce.getResult()] = total;
    if (plan.team > threadsPerWarp) {
      Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, frame.lane, e.index(0));
      e.when(first, [&] { e.store(total, slots.lookup(reduce), frame.warp); });
    }
  }
  if (plan.team <= threadsPerWarp || stage.reductions.empty()) {
    return;
  }
  NVVM::BarrierOp::create(b);
  for (dispatch::ReduceOp reduce : stage.reductions) {
    Value slot = slots.lookup(reduce), total = e.loadScalar(slot, e.index(0));
    for (int64_t warp = 1; warp < plan.team / threadsPerWarp; ++warp) {
      total = combine(reduce.getKind(), total, e.loadScalar(slot, e.index(warp)));
    }
    scalars[reduce.getResult()] = total;
  }
}
