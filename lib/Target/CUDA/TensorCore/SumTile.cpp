// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves sums from fragments to rows, and adds partial sums.
#include "SumTile.h"
#include "../Frame/Arrival.h"
#include "Columns.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

static constexpr int64_t floatBytes = sizeof(float);
/// Padding of each row: a half-warp stores pairs of four rows at a time, and eight words put the
/// rows into different banks.
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
    int64_t down = fragment / grid.columnFragments() * grid.fragmentStride() + half * 8;
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

/// Returns first + second + ...; `part` returns the terms of a split for several sums at once.
static Values addParts(Emitter &e, int64_t splits, function_ref<Values(Value)> part) {
  return e.loop(e.index(1), e.index(splits), 1, part(e.index(0)),
                [&](Value split, ValueRange carried) {
                  Values sums(carried);
                  for (auto [sum, more] : llvm::zip_equal(sums, part(split))) {
                    sum = e.addf(sum, more);
                  }
                  return sums;
                });
}

/// Rows past the last are clamped to it for loads, and not stored.
static void addMatrixParts(Frame &frame, TensorCore &core, WarpGrid grid, const PartialSums &parts,
                           const SumTargets &targets, const TilePlace &place) {
  Emitter &e = frame.e;
  SumTile tile(frame, core, grid);
  Value column = e.add(place.firstColumn, tile.column());
  Value memory = parts.matrix(frame), result = frame.buffer(unsigned(targets.matrix));
  Value init = targets.initMatrix >= 0 ? frame.buffer(unsigned(targets.initMatrix)) : Value();
  e.when(e.less(column, e.index(parts.width)), [&] {
    tile.eachLines(4, [&](ArrayRef<Value> lines) {
      Values rows;
      for (Value line : lines) {
        rows.push_back(e.min(e.add(place.firstRow, line), e.index(parts.height - 1)));
      }
      Values sums = addParts(e, parts.splits, [&](Value split) {
        Values loaded;
        for (Value row : rows) {
          Value at = e.add(e.mul(split, parts.height), row);
          loaded.push_back(loadColumns(core, e, memory, {at, column}));
        }
        return loaded;
      });
      for (auto [line, row, sum] : llvm::zip_equal(lines, rows, sums)) {
        e.when(e.less(e.add(place.firstRow, line), e.index(parts.height)),
               [&, row = row, sum = sum] {
                 Value whole = init ? e.addf(loadColumns(core, e, init, {row, column}), sum) : sum;
                 storeColumns(core, e, whole, result, {row, column});
               });
      }
    });
  });
}

static void addVectorParts(Frame &frame, WarpGrid grid, const PartialSums &parts,
                           const SumTargets &targets, const TilePlace &place) {
  Emitter &e = frame.e;
  Value thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  Value memory = parts.vector(frame), result = frame.buffer(unsigned(targets.vector));
  for (int64_t base = 0; base < grid.blockRows(); base += frame.threads) {
    Value line = e.add(thread, base), row = e.add(place.firstRow, line);
    Value exists =
        e.both(e.less(line, e.index(grid.blockRows())), e.less(row, e.index(parts.height)));
    e.when(e.both(place.ownsVector, exists), [&] {
      Value sum = addParts(e, parts.splits, [&](Value split) {
        return Values{e.loadScalar(memory, {e.add(e.mul(split, parts.height), row)})};
      })[0];
      if (targets.initVector >= 0) {
        sum = e.addf(e.loadScalar(frame.buffer(unsigned(targets.initVector)), {row}), sum);
      }
      e.store(sum, result, {row});
    });
  }
}

void cuda::addPartsInOrder(Frame &frame, TensorCore &core, WarpGrid grid, const PartialSums &parts,
                           const SumTargets &targets, const TilePlace &place) {
  Value last = isLastToArrive(frame, place.number, parts.splits, core.shared(nullptr));
  frame.e.when(last, [&] {
    if (targets.matrix >= 0) {
      addMatrixParts(frame, core, grid, parts, targets, place);
    }
    if (targets.vector >= 0) {
      addVectorParts(frame, grid, parts, targets, place);
    }
  });
}
