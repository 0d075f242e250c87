// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles in shared memory and the loop over the sum.
#include "Pipeline.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

static constexpr int64_t elementBytes = 2;

Tile::Tile(Frame &frame, TensorCore &core, Factor given, int64_t step)
    : frame(frame), core(core), e(frame.e), factor(std::move(given)),
      tileLines(factor.linesAreInner ? step : factor.extent),
      lineElements(factor.linesAreInner ? factor.extent : step),
      lineBytes(lineElements * elementBytes) {
  int64_t stride =
      factor.memory ? cast<MemRefType>(factor.memory.getType()).getDimSize(1) : chunkElements;
  grain = chunkElements;
  while (stride % grain != 0) {
    grain /= 2;
  }
}

bool Tile::linesAreWhole() const { return !factor.isValid && factor.lines % tileLines == 0; }
bool Tile::widthIsWhole() const { return factor.width % lineElements == 0; }

// Consecutive threads copy consecutive pieces of a line. Copies by way of registers are a loop,
// lest too many are under way at once.
void Tile::copy(Value to, Value outer, Value inner) {
  int64_t perLine = lineElements / grain, pieces = tileLines * perLine, threads = frame.threads;
  Value thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  auto divide = [&](Value a) -> Value { return arith::DivUIOp::create(e.b, a, e.index(perLine)); };
  auto rest = [&](Value a) -> Value { return arith::RemUIOp::create(e.b, a, e.index(perLine)); };
  auto emit = [&](Value first) {
    bool wide = perLine > threads; // a line takes all threads several times
    Value line = wide ? divide(first) : e.add(divide(thread), divide(first));
    Value piece = wide ? e.add(thread, rest(first)) : rest(thread);
    copyPiece(to, line, e.mul(piece, grain), outer, inner);
  };
  constexpr int64_t atOnce = 4;
  if (pieces < threads) {
    e.when(e.less(thread, e.index(pieces)), [&] { emit(e.index(0)); });
  } else if (grain == 1 && pieces > atOnce * threads) {
    e.loop(e.index(0), e.index(pieces), atOnce * threads, [&](Value first) {
      for (int64_t i = 0; i < atOnce; ++i) {
        emit(e.add(first, i * threads));
      }
    });
  } else {
    for (int64_t first = 0; first < pieces; first += threads) {
      emit(e.index(first));
    }
  }
}

/// `line` and `element` within the tile.
void Tile::copyPiece(Value to, Value line, Value element, Value outer, Value inner) {
  Value chunk = arith::DivUIOp::create(e.b, element, e.index(chunkElements));
  Value within = arith::RemUIOp::create(e.b, element, e.index(chunkElements));
  Value at = e.add(core.swizzled(line, chunk, lineBytes), e.mul(within, elementBytes));
  line = e.add(line, factor.linesAreInner ? inner : outer);
  element = e.add(element, factor.linesAreInner ? outer : inner);
  at = e.add(to, at);
  if (grain == 1) {
    return copyElement(at, line, element);
  }
  core.copy(core.shared(at), core.global(factor.memory, {line, element}), grain * elementBytes,
            sourceBytes(line, element));
}

/// Lines at odd multiples of two bytes: there is no asynchronous copy of two bytes.
void Tile::copyElement(Value to, Value line, Value element) {
  Type i16 = e.b.getI16Type();
  Value existing = e.min(line, e.index(factor.lines - 1));
  Value counts =
      e.both(e.less(line, e.index(factor.lines)), e.less(element, e.index(factor.width)));
  if (factor.isValid) {
    counts = e.both(counts, factor.isValid(existing));
  }
  Value from = core.global(factor.memory, {existing, e.min(element, e.index(factor.width - 1))});
  Value zero = arith::ConstantIntOp::create(e.b, i16, 0);
  core.store(e.select(counts, core.load(i16, from, elementBytes), zero), core.shared(to),
             elementBytes);
}

/// How many of a piece's bytes count; null where all always do.
Value Tile::sourceBytes(Value line, Value element) {
  if (linesAreWhole() && widthIsWhole()) {
    return nullptr;
  }
  Value bytes = e.index(grain * elementBytes);
  if (!widthIsWhole()) {
    Value left = e.mul(e.sub(e.index(factor.width), element), elementBytes);
    bytes = e.max(e.index(0), e.min(bytes, left));
  }
  if (!linesAreWhole()) {
    Value counts = e.less(line, e.index(factor.lines));
    if (factor.isValid) {
      counts = e.both(counts, factor.isValid(e.min(line, e.index(factor.lines - 1))));
    }
    bytes = e.select(counts, bytes, e.index(0));
  }
  return bytes;
}

/// Four matrices of 8 x 8 whose first elements are (outer, inner), given a lane's own matrix.
Values Tile::load(Value tile, Value outer, Value inner) {
  Value row = arith::RemUIOp::create(e.b, frame.lane, e.index(8));
  Value line = e.add(factor.linesAreInner ? inner : outer, row);
  Value chunk =
      arith::DivUIOp::create(e.b, factor.linesAreInner ? outer : inner, e.index(chunkElements));
  Value at = e.add(tile, core.swizzled(line, chunk, lineBytes));
  return core.loadMatrices(core.shared(at), factor.linesAreInner);
}

// Matrices in the order of the registers: outer 0 and 8 at inner 0, then at inner 8.
Values Tile::left(Value tile, Value outer, int64_t offset, Value inner) {
  Value matrix = arith::DivUIOp::create(e.b, frame.lane, e.index(8));
  Value second = arith::RemUIOp::create(e.b, matrix, e.index(2));
  Value high = arith::DivUIOp::create(e.b, matrix, e.index(2));
  return load(tile, e.add(e.add(outer, offset), e.mul(second, 8)), e.add(e.mul(high, 8), inner));
}

// Inner 0 and 8 at outer 0, then at outer 8: two fragments.
Values Tile::right(Value tile, Value outer, int64_t offset, Value inner) {
  Value matrix = arith::DivUIOp::create(e.b, frame.lane, e.index(8));
  Value high = arith::RemUIOp::create(e.b, matrix, e.index(2));
  Value second = arith::DivUIOp::create(e.b, matrix, e.index(2));
  return load(tile, e.add(e.add(outer, offset), e.mul(second, 8)), e.add(e.mul(high, 8), inner));
}

Values cuda::multiplyFragments(TensorCore &core, ArrayRef<Values> left, ArrayRef<Values> right,
                               ValueRange sums) {
  Values next;
  for (auto [i, a] : llvm::enumerate(left)) {
    for (auto [j, b] : llvm::enumerate(right)) {
      size_t first = (i * right.size() + j) * sumsPerFragment;
      llvm::append_range(next, core.multiply(a, b, sums.slice(first, sumsPerFragment)));
    }
  }
  return next;
}

SmallVector<Values> cuda::rightFragments(Tile &tile, Value at, Value outer, int64_t columnFragments,
                                         Value inner) {
  SmallVector<Values> fragments;
  for (int64_t j = 0; j < columnFragments; j += 2) {
    Values two = tile.right(at, outer, j * fragmentColumns, inner);
    fragments.push_back({two[0], two[1]});
    fragments.push_back({two[2], two[3]});
  }
  return fragments;
}

Pipeline::Pipeline(Frame &frame, TensorCore &core, WarpGrid grid, Factor left, Factor right,
                   int64_t step, int64_t stages, int64_t firstByte)
    : grid(grid), core(core), e(frame.e), left(frame, core, std::move(left), step),
      right(frame, core, right, step), hasRight(static_cast<bool>(right.memory)), step(step),
      stages(stages), firstByte(firstByte) {
  Value row = arith::DivUIOp::create(e.b, frame.warp, e.index(grid.columns));
  Value column = arith::RemUIOp::create(e.b, frame.warp, e.index(grid.columns));
  firstRow = e.mul(row, grid.tileRows);
  firstColumn = e.mul(column, grid.tileColumns);
}

Value Pipeline::stageOf(Value number) {
  Value stage = arith::RemUIOp::create(e.b, number, e.index(stages));
  return e.add(e.mul(stage, stageBytes()), firstByte);
}

void Pipeline::copyStage(const Origin &origin, Value number) {
  Value stage = stageOf(number), inner = e.add(origin.inner, e.mul(number, step));
  left.copy(stage, origin.row, inner);
  if (hasRight) {
    right.copy(e.add(stage, left.bytes()), origin.column, inner);
  }
}

void Pipeline::fill(const Origin &origin, Value steps) {
  e.loop(e.index(0), e.index(stages - 1), 1, [&](Value number) {
    e.when(e.less(number, steps), [&] { copyStage(origin, number); });
    core.commit();
  });
}

// The barrier of step s says two things: what the step reads has come, for every thread waited for
// its own share; and everybody has read step s - 1, whose stage the copies of step s + stages - 1
// fill.
Values Pipeline::run(const Origin &origin, Value steps, ValueRange sums, Each each) {
  size_t count = hasRight ? static_cast<size_t>(grid.sums()) : 0;
  return e.loop(e.index(0), steps, 1, sums, [&](Value number, ValueRange carried) {
    core.wait(stages - 2);
    core.barrier();
    Value ahead = e.add(number, stages - 1);
    e.when(e.less(ahead, steps), [&] { copyStage(origin, ahead); });
    core.commit();
    Value stage = stageOf(number);
    Values next = hasRight ? multiply(stage, carried.take_front(count)) : Values();
    if (each) {
      llvm::append_range(next, each(number, stage, carried.drop_front(count)));
    }
    return next;
  });
}

Values Pipeline::multiply(Value stage, ValueRange sums) {
  Values next(sums);
  Value rightAt = e.add(stage, left.bytes());
  for (int64_t first = 0; first < step; first += fragmentInner) {
    Value inner = e.index(first);
    SmallVector<Values> a;
    for (int64_t i = 0; i < grid.rowFragments(); ++i) {
      a.push_back(left.left(stage, firstRow, i * fragmentRows, inner));
    }
    auto c = rightFragments(right, rightAt, firstColumn, grid.columnFragments(), inner);
    next = multiplyFragments(core, a, c, next);
  }
  return next;
}
