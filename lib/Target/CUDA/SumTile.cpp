// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums from fragments to rows, and from parts to a whole.
#include "SumTile.h"
#include "Columns.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

static constexpr int64_t floatBytes = sizeof(float);
/// Behind each row: a half-warp stores pairs of four rows at a time, and eight words put each row's
/// in banks of their own.
static constexpr int64_t padding = 8;

SumTile::SumTile(Frame &frame, TensorCore &core, WarpGrid grid)
    : frame(frame), core(core), e(frame.e), grid(grid), stride(grid.blockColumns() + padding),
      threadsPerRow(grid.blockColumns() / columnsPerThread) {
  Value thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  Value mine = arith::RemUIOp::create(e.b, thread, e.index(threadsPerRow));
  firstColumn = e.mul(mine, columnsPerThread);
  firstLine = arith::DivUIOp::create(e.b, thread, e.index(threadsPerRow));
}

void SumTile::store(const Values &sums, Value warpRow, Value warpColumn) {
  Value group = arith::DivUIOp::create(e.b, frame.lane, e.index(4));
  Value pair = e.mul(Value(arith::RemUIOp::create(e.b, frame.lane, e.index(4))), 2);
  Value at = e.add(e.mul(e.add(warpRow, group), stride), e.add(warpColumn, pair));
  Value first = e.mul(at, floatBytes);
  for (size_t i = 0; i < sums.size(); i += 2) {
    int64_t fragment = int64_t(i) / sumsPerFragment, half = int64_t(i) % sumsPerFragment / 2;
    int64_t down = fragment / grid.columnFragments() * fragmentRows + half * 8;
    int64_t across = fragment % grid.columnFragments() * fragmentColumns;
    Value two = vector::FromElementsOp::create(e.b, VectorType::get({2}, e.b.getF32Type()),
                                               ValueRange{sums[i], sums[i + 1]});
    core.store(two, core.shared(first, (down * stride + across) * floatBytes), 2 * floatBytes);
  }
}

Value SumTile::load(Value line) {
  Value at = e.mul(e.add(e.mul(line, stride), firstColumn), floatBytes);
  return core.load(VectorType::get({columnsPerThread}, e.b.getF32Type()), core.shared(at),
                   columnsPerThread * floatBytes);
}

void SumTile::eachLines(int64_t atOnce, function_ref<void(ArrayRef<Value>)> body) {
  int64_t down = frame.threads / threadsPerRow;
  e.loop(e.index(0), e.index(grid.blockRows()), atOnce * down, [&](Value turn) {
    Values lines;
    for (int64_t i = 0; i < atOnce; ++i) {
      lines.push_back(e.add(e.add(turn, firstLine), i * down));
    }
    body(lines);
  });
}

Value PartialSums::matrix(Frame &frame) const {
  return frame.workspaceView(MemRefType::get({splits * height, stride()}, frame.b.getF32Type()));
}

Value PartialSums::vector(Frame &frame) const {
  return frame.workspaceView(MemRefType::get({splits * height}, frame.b.getF32Type()),
                             matrixBytes());
}

/// first + second + ..., `part` giving each.
static Value addParts(cpu::Emitter &e, int64_t splits, function_ref<Value(Value)> part) {
  Values sum = e.loop(
      e.index(1), e.index(splits), 1, {part(e.index(0))},
      [&](Value split, ValueRange carried) -> Values { return {e.addf(carried[0], part(split))}; });
  return sum[0];
}

Stage cuda::emitOrderedSums(Operation *op, dispatch::DomainAttr domain, ModuleOp module,
                            StringRef name, const PartialSums &parts, const SumTargets &targets) {
  Frame frame(op, domain, module, name);
  TensorCore core(frame);
  cpu::Emitter &e = frame.e;
  int64_t perRow = parts.stride() / columnsPerThread;
  int64_t matrixBlocks = llvm::divideCeil(parts.height * perRow, frame.threads);
  Value thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  auto item = [&](Value block) { return e.add(e.mul(block, frame.threads), thread); };
  if (targets.matrix >= 0) {
    Value i = item(frame.block);
    e.when(e.less(i, e.index(parts.height * perRow)), [&] {
      Value row = arith::DivUIOp::create(e.b, i, e.index(perRow));
      Value column =
          e.mul(Value(arith::RemUIOp::create(e.b, i, e.index(perRow))), columnsPerThread);
      Value memory = parts.matrix(frame);
      Value sum = addParts(e, parts.splits, [&](Value split) {
        return loadColumns(core, e, memory, {e.add(e.mul(split, parts.height), row), column});
      });
      if (targets.initMatrix >= 0) {
        sum = e.addf(loadColumns(core, e, frame.buffer(targets.initMatrix), {row, column}), sum);
      }
      storeColumns(core, e, sum, frame.buffer(targets.matrix), {row, column});
    });
  }
  if (targets.vector >= 0) {
    Value i = item(e.sub(frame.block, e.index(matrixBlocks)));
    Value mine = e.both(e.atLeast(i, e.index(0)), e.less(i, e.index(parts.height)));
    e.when(mine, [&] {
      Value memory = parts.vector(frame);
      Value sum = addParts(e, parts.splits, [&](Value split) {
        return e.loadScalar(memory, {e.add(e.mul(split, parts.height), i)});
      });
      if (targets.initVector >= 0) {
        sum = e.addf(e.loadScalar(frame.buffer(targets.initVector), {i}), sum);
      }
      e.store(sum, frame.buffer(targets.vector), {i});
    });
  }
  func::ReturnOp::create(e.b);
  int64_t vectorBlocks = targets.vector >= 0 ? llvm::divideCeil(parts.height, frame.threads) : 0;
  return {frame.function, matrixBlocks + vectorBlocks, frame.threads, 0};
}
