// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward: the numbers of each query.
#include "AttentionBackward.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

constexpr int64_t lanesPerQuery = 8;

/// Each query's delta = sum over c of dO O and log-sum-exp, by eight lanes.
class RowStage : BackwardStage {
public:
  using BackwardStage::BackwardStage;
  Stage generate();
};

} // namespace

/// Queries that are not valid or have no key get a log-sum-exp of +inf: their P is 2^-inf = 0 with
/// no mask.
Stage RowStage::generate() {
  int64_t perBlock = threadsPerBlock / lanesPerQuery;
  auto [inBlock, lane] = f.split(f.thread, lanesPerQuery);
  auto [rowAndHead, p] = f.split(e.add(e.mul(f.frame.block, perBlock), inBlock), roundedPositions);
  auto [row, head] = f.split(rowAndHead, shape.heads);
  f.enterRow(row);
  Value position = e.add(f.base, e.min(p, e.index(shape.positions - 1)));
  Value output = f.frame.buffer(Output), gradient = f.frame.buffer(OutputGradient);
  Value column = e.mul(head, shape.head), total = f.f32(0);
  auto read = [&](Value memory, Value at) {
    Value number = e.loadScalar(memory, {position, at});
    return number.getType().isF32() ? number
                                    : Value(arith::ExtFOp::create(b, b.getF32Type(), number));
  };
  for (int64_t i = 0; i < shape.head; i += lanesPerQuery) {
    Value at = e.add(lane, i), isColumn = e.less(at, e.index(shape.head));
    at = e.add(column, e.min(at, e.index(shape.head - 1)));
    Value term = e.mulf(read(output, at), read(gradient, at));
    total =
        e.addf(total, i + lanesPerQuery <= shape.head ? term : e.select(isColumn, term, f.f32(0)));
  }
  for (int64_t distance = 1; distance < lanesPerQuery; distance *= 2) {
    total = e.addf(total, NVVM::ShflOp::create(b, b.getF32Type(), e.integer(-1), total,
                                               e.integer(distance), e.integer(threadsPerWarp - 1),
                                               NVVM::ShflKind::bfly, UnitAttr()));
  }
  Value isValid = e.less(p, f.length);
  Value logSum = e.loadScalar(f.frame.buffer(Lse), {position, head});
  Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, logSum, f.f32(-infinity));
  Value usable = e.select(empty, f.f32(infinity), e.mulf(logSum, f.f32(log2e)));
  Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, e.index(0));
  e.when(first, [&, head = head, p = p] {
    e.store(e.select(isValid, usable, f.f32(infinity)), statistics(), {statisticsRow(0, head), p});
    e.store(e.select(isValid, total, f.f32(0)), statistics(), {statisticsRow(1, head), p});
  });
  return finish(shape.batch * shape.heads * roundedPositions / perBlock, 0);
}

Stage attention::makeRowStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                              StringRef name) {
  return RowStage(op, shape, module, name).generate();
}
