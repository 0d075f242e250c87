// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles in shared memory and the loop over the inner dimension.
#include "Pipeline.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

/// Panels of a tile: lines of 64 elements.
static constexpr int64_t panelElements = 64;

/// Keeps LLVM and ptxas from unrolling the last emitted loop.
static void keepRolled(OpBuilder &b) {
  MLIRContext *context = b.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(context, b.getBoolAttr(true), {}, {}, {}, {}, {}, {});
  auto annotation = LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {}, {}, {},
                                                  {}, {}, {}, {}, {}, {});
  std::prev(b.getInsertionPoint())->setAttr("llvm.loop_annotation", annotation);
}

Tile::Tile(Frame &frame, TensorCore &core, Factor given, int64_t step, bool panels)
    : frame(frame), core(core), e(frame.e), factor(std::move(given)),
      tileLines(factor.linesAreInner ? step : factor.extent),
      lineElements(factor.linesAreInner ? factor.extent : step),
      lineBytes((panels ? std::min(lineElements, panelElements) : lineElements) * elementBytes) {
  int64_t stride =
      factor.memory ? cast<MemRefType>(factor.memory.getType()).getDimSize(1) : chunkElements;
  grain = chunkElements;
  while (stride % grain != 0) {
    grain /= 2;
  }
}

bool Tile::linesAreWhole() const { return !factor.isValid && factor.lines % tileLines == 0; }
bool Tile::widthIsWhole() const { return factor.width % lineElements == 0; }

// Consecutive threads copy consecutive pieces of a line, and the pieces of a thread are at constant
// distances, so one pointer and one shared memory address serve all of them.
Share Tile::share(Value outer, Value inner) {
  Value thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  Value line = e.index(0), piece = thread;
  if (piecesOfLine() <= frame.threads) {
    line = arith::DivUIOp::create(e.b, thread, e.index(piecesOfLine()));
    piece = arith::RemUIOp::create(e.b, thread, e.index(piecesOfLine()));
  }
  Value element = e.mul(piece, grain);
  Share result;
  result.thread = thread;
  result.line = line;
  result.element = element;
  result.inner = inner;
  result.sourceLine = e.add(line, factor.linesAreInner ? inner : outer);
  result.sourceElement = e.add(element, factor.linesAreInner ? outer : inner);
  if (grain > 1) {
    result.from = core.global(factor.memory, {result.sourceLine, result.sourceElement});
  }
  return result;
}

void Tile::copy(const Share &share, Value to, Value number, int64_t step) {
  int64_t pieces = tileLines * piecesOfLine();
  CopyTarget target{to, factor.stepStart ? factor.stepStart(number) : e.mul(number, step), nullptr};
  if (factor.validEnd) {
    target.validEnd = factor.validEnd(e.add(share.inner, target.ahead));
  }
  if (pieces < frame.threads) {
    e.when(e.less(share.thread, e.index(pieces)), [&] { copyPiece(share, target, 0); });
  } else if (grain == 1) {
    copyElements(share, target);
  } else {
    for (int64_t first = 0; first < pieces; first += frame.threads) {
      copyPiece(share, target, first);
    }
  }
}

/// Copies the piece that is `first` pieces after the first one of the thread.
void Tile::copyPiece(const Share &share, const CopyTarget &target, int64_t first) {
  int64_t lines = first / piecesOfLine(), elements = first % piecesOfLine() * grain;
  Value line = e.add(share.line, lines), element = e.add(share.element, elements);
  Value sourceLine = e.add(share.sourceLine, lines);
  Value sourceElement = e.add(share.sourceElement, elements);
  Value &inner = factor.linesAreInner ? sourceLine : sourceElement;
  inner = e.add(inner, target.ahead);
  if (grain == 1) {
    return copyElement(e.add(target.to, computeTileAddress(line, element)), sourceLine,
                       sourceElement, target.validEnd);
  }
  int64_t stride = cast<MemRefType>(factor.memory.getType()).getDimSize(1);
  Value from = core.behind(share.from,
                           e.mul(target.ahead, (factor.linesAreInner ? stride : 1) * elementBytes),
                           (lines * stride + elements) * elementBytes);
  // Lines whose distance is a multiple of the swizzle period swizzle their chunks in the same way.
  Value place = lines % TensorCore::swizzlePeriod == 0
                    ? core.shared(e.add(target.to, computeTileAddress(share.line, share.element)),
                                  lines * lineBytes + elements * elementBytes)
                    : core.shared(e.add(target.to, computeTileAddress(line, element)));
  Value counts;
  if (target.validEnd) {
    // Relative to the thread's first line, so that each piece compares with a constant.
    Value left = e.sub(target.validEnd, e.toInteger(e.add(share.sourceLine, target.ahead)));
    counts = e.less(e.integer(lines), left);
  } else if (!linesAreWhole()) {
    counts = lineCounts(sourceLine, nullptr);
  }
  core.copy(place, from, grain * elementBytes, sourceBytes(sourceElement, counts));
}

/// Returns the byte of an element within the tile.
Value Tile::computeTileAddress(Value line, Value element) {
  Value chunk = arith::DivUIOp::create(e.b, element, e.index(chunkElements));
  Value within = arith::RemUIOp::create(e.b, element, e.index(chunkElements));
  return e.add(computeChunkAddress(line, chunk), e.mul(within, elementBytes));
}

Value Tile::computeChunkAddress(Value line, Value chunk) {
  int64_t chunks = lineBytes / chunkBytes;
  if (lineElements * elementBytes == lineBytes) {
    return core.swizzled(line, chunk, lineBytes);
  }
  Value panel = arith::DivUIOp::create(e.b, chunk, e.index(chunks));
  chunk = arith::RemUIOp::create(e.b, chunk, e.index(chunks));
  return e.add(core.swizzled(line, chunk, lineBytes), e.mul(panel, tileLines * lineBytes));
}

/// Copies through registers, in a loop that limits the number of loads in flight.
void Tile::copyElements(const Share &share, const CopyTarget &target) {
  constexpr int64_t atOnce = 4;
  int64_t pieces = tileLines * lineElements;
  Value sourceLine = e.sub(share.sourceLine, share.line);
  Value sourceElement = e.sub(share.sourceElement, share.element);
  Value &inner = factor.linesAreInner ? sourceLine : sourceElement;
  inner = e.add(inner, target.ahead);
  int64_t count = std::min(atOnce, pieces / frame.threads);
  e.loop(e.index(0), e.index(pieces), count * frame.threads, [&](Value first) {
    for (int64_t i = 0; i < count; ++i) {
      Value piece = e.add(e.add(first, share.thread), i * frame.threads);
      Value line = arith::DivUIOp::create(e.b, piece, e.index(lineElements));
      Value element = arith::RemUIOp::create(e.b, piece, e.index(lineElements));
      copyElement(e.add(target.to, computeTileAddress(line, element)), e.add(sourceLine, line),
                  e.add(sourceElement, element), target.validEnd);
    }
  });
  keepRolled(e.b);
}

Value Tile::lineCounts(Value line, Value validEnd) {
  if (validEnd) {
    return e.less(e.toInteger(line), validEnd);
  }
  return factor.isValid ? factor.isValid(line) : e.less(line, e.index(factor.lines));
}

/// Lines start at odd multiples of two bytes, for which there is no asynchronous copy.
void Tile::copyElement(Value to, Value line, Value element, Value validEnd) {
  Type i16 = e.b.getI16Type();
  Value counts = e.both(lineCounts(line, validEnd), e.less(element, e.index(factor.width)));
  Value from = core.global(factor.memory, {e.min(line, e.index(factor.lines - 1)),
                                           e.min(element, e.index(factor.width - 1))});
  Value zero = arith::ConstantIntOp::create(e.b, i16, 0);
  if (factor.isPartial) {
    auto read = scf::IfOp::create(e.b, TypeRange{i16}, counts, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPointToStart(read.thenBlock());
    scf::YieldOp::create(e.b, core.load(i16, from, elementBytes));
    e.b.setInsertionPointToStart(read.elseBlock());
    scf::YieldOp::create(e.b, zero);
    e.b.setInsertionPointAfter(read);
    core.store(read.getResult(0), core.shared(to), elementBytes);
    return;
  }
  core.store(e.select(counts, core.load(i16, from, elementBytes), zero), core.shared(to),
             elementBytes);
}

/// Returns the number of a piece's bytes that are inside the factor; `lineCounts` is null if all
/// lines are. Returns null if all bytes of all pieces are inside.
Value Tile::sourceBytes(Value element, Value lineCounts) {
  if (!lineCounts && widthIsWhole()) {
    return nullptr;
  }
  Value bytes = e.index(grain * elementBytes);
  if (!widthIsWhole()) {
    Value left = e.mul(e.sub(e.index(factor.width), element), elementBytes);
    bytes = e.max(e.index(0), e.min(bytes, left));
  }
  return lineCounts ? e.select(lineCounts, bytes, e.index(0)) : bytes;
}

/// Loads four 8 x 8 matrices; (outer, inner) is the first element of the matrix that this lane
/// addresses.
Values Tile::load(Value tile, Value outer, Value inner) {
  Value row = arith::RemUIOp::create(e.b, frame.lane, e.index(8));
  Value line = e.add(factor.linesAreInner ? inner : outer, row);
  Value chunk =
      arith::DivUIOp::create(e.b, factor.linesAreInner ? outer : inner, e.index(chunkElements));
  Value at = e.add(tile, computeChunkAddress(line, chunk));
  return core.loadMatrices(core.shared(at), factor.linesAreInner);
}

// Matrices in register order: outer 0 and 8 at inner 0, then at inner 8.
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

Value Tile::describe(Warpgroup &warpgroup, Value tile, Value outer, int64_t offset, int64_t inner) {
  // Per outer element: a line, or a 64th of a panel.
  int64_t panelBytes = tileLines * lineBytes;
  int64_t outerBytes = factor.linesAreInner ? panelBytes / panelElements : lineBytes;
  int64_t innerBytes = factor.linesAreInner ? lineBytes : elementBytes;
  return warpgroup.describe({factor.linesAreInner, lineBytes, panelBytes},
                            e.add(tile, e.mul(outer, outerBytes)),
                            offset * outerBytes + inner * innerBytes);
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
                   int64_t step, int64_t stages, int64_t firstByte, bool unrolls)
    : grid(grid), core(core), e(frame.e), left(frame, core, std::move(left), step, grid.warpgroups),
      right(frame, core, right, step, grid.warpgroups), hasRight(static_cast<bool>(right.memory)),
      step(step), stages(stages), firstByte(firstByte), unrolls(unrolls),
      distance(grid.warpgroups ? stages - 2 : stages - 1) {
  if (grid.warpgroups) {
    warpgroup.emplace(frame, core);
    groupRow =
        e.mul(warpgroup->number(grid.rows / warpsPerWarpgroup), warpsPerWarpgroup * grid.tileRows);
    Value within = arith::RemUIOp::create(e.b, frame.warp, e.index(warpsPerWarpgroup));
    firstRow = e.add(groupRow, e.mul(within, fragmentRows));
    firstColumn = e.index(0);
    return;
  }
  Value row = arith::DivUIOp::create(e.b, frame.warp, e.index(grid.columns));
  Value column = arith::RemUIOp::create(e.b, frame.warp, e.index(grid.columns));
  firstRow = e.mul(row, grid.tileRows);
  firstColumn = e.mul(column, grid.tileColumns);
}

Value Pipeline::getStageId(Value number) {
  Value stage = arith::RemUIOp::create(e.b, number, e.index(stages));
  return e.add(e.mul(stage, stageBytes()), firstByte);
}

Value Pipeline::stageAt(int64_t stage) {
  return e.index(stage % stages * stageBytes() + firstByte);
}

Pipeline::Shares Pipeline::computeShares(const Origin &origin) {
  return {left.share(origin.row, origin.inner),
          hasRight ? right.share(origin.column, origin.inner) : Share()};
}

void Pipeline::copyStage(const Shares &shares, Value number, Value stage) {
  left.copy(shares.left, stage, number, step);
  if (hasRight) {
    right.copy(shares.right, e.add(stage, left.bytes()), number, step);
  }
}

void Pipeline::fill(const Origin &origin, Value steps, bool commits) {
  Shares shares = computeShares(origin);
  e.loop(e.index(0), e.index(distance), 1, [&](Value number) {
    e.when(e.less(number, steps), [&] { copyStage(shares, number, getStageId(number)); });
    if (commits) {
      core.commit();
    }
  });
}

// The barrier of step s has two purposes. The data of the step has arrived, because every thread
// waited for its own copies; and all threads have finished step s - 1, whose stage the copies of
// step s + stages - 1 overwrite.
Values Pipeline::emitStep(const PipelineRun &run, const PipelineStep &at, ValueRange carried) {
  size_t count = hasRight ? static_cast<size_t>(grid.sums()) : 0;
  if (grid.warpgroups && hasRight) {
    return emitWarpgroupStep(run, at, carried);
  }
  core.wait(distance - 1);
  core.barrier();
  copyAhead(run, at);
  Values sums(carried.take_front(count)), own(carried.drop_front(count));
  if (!hasRight) {
    return run.each(at.number, at.stage, {}, own);
  }
  for (int64_t inner = 0; inner < step; inner += fragmentInner) {
    SmallVector<Values> a;
    sums = multiply(at.stage, e.index(inner), sums, a);
    own = run.each ? run.each(at.number, at.stage, a, own) : own;
  }
  llvm::append_range(sums, own);
  return sums;
}

void Pipeline::copyAhead(const PipelineRun &run, const PipelineStep &at) {
  if (at.stageAhead) {
    Value ahead = e.add(at.number, distance);
    e.when(e.less(e.toInteger(ahead), e.toInteger(run.steps)),
           [&] { copyStage(run.shares, ahead, at.stageAhead); });
  }
  core.commit();
}

// The products of a step run while the next step's barrier is passed. The barrier of step s proves
// that every warp waited for the products of step s - 2, whose stage the copies of step s +
// stages - 2 overwrite.
Values Pipeline::emitWarpgroupStep(const PipelineRun &run, const PipelineStep &at,
                                   ValueRange carried) {
  auto count = static_cast<size_t>(grid.sums());
  auto each = static_cast<size_t>(grid.columnFragments() * sumsPerFragment);
  core.wait(distance - 1);
  warpgroup->publish();
  core.barrier();
  Values own(carried.drop_front(count));
  if (run.each) {
    own = run.each(at.number, at.stage, {}, own);
  }
  Values sums = warpgroup->start(carried.take_front(count));
  Value rightAt = e.add(at.stage, left.bytes());
  for (int64_t inner = 0; inner < step; inner += fragmentInner) {
    Value b = right.describe(*warpgroup, rightAt, firstColumn, 0, inner);
    for (int64_t i = 0; i < grid.rowFragments(); ++i) {
      Value a = left.describe(*warpgroup, at.stage, groupRow, i * warpgroupRows, inner);
      auto part = MutableArrayRef<Value>(sums).slice(size_t(i) * each, each);
      llvm::copy(warpgroup->multiply(a, left.source().linesAreInner, b,
                                     right.source().linesAreInner, part),
                 part.begin());
    }
  }
  warpgroup->commit();
  copyAhead(run, at);
  sums = warpgroup->wait(1, sums);
  llvm::append_range(sums, own);
  return sums;
}

Values Pipeline::run(const Origin &origin, Value steps, ValueRange sums, Each each) {
  PipelineRun run{computeShares(origin), steps, each};
  Values next(sums);
  Value done = e.index(0);
  if (unrolls) {
    Value rounds = arith::DivUIOp::create(e.b, steps, e.index(stages));
    next = e.loop(e.index(0), rounds, 1, next, [&](Value round, ValueRange carried) {
      return emitRound(run, e.mul(round, stages), carried);
    });
    keepRolled(e.b);
    done = e.mul(rounds, stages);
  }
  next = e.loop(done, steps, 1, next, [&](Value number, ValueRange carried) {
    // After the unrolled rounds no more steps remain than the copies run ahead.
    Value ahead = unrolls && distance == stages - 1 ? Value() : getStageId(e.add(number, distance));
    return emitStep(run, {number, getStageId(number), ahead}, carried);
  });
  keepRolled(e.b);
  if (grid.warpgroups && hasRight) {
    auto count = static_cast<size_t>(grid.sums());
    llvm::copy(warpgroup->wait(0, ValueRange(next).take_front(count)), next.begin());
  }
  return next;
}

/// Emits one step per stage; the first step is a multiple of the number of stages.
Values Pipeline::emitRound(const PipelineRun &run, Value first, ValueRange carried) {
  Values next(carried);
  for (int64_t i = 0; i < stages; ++i) {
    next = emitStep(run, {e.add(first, i), stageAt(i), stageAt(i + distance)}, next);
  }
  return next;
}

/// Computes sums += the products of 16 inner elements of a stage; returns the fragments of the left
/// factor in `a`.
Values Pipeline::multiply(Value stage, Value inner, ValueRange sums, SmallVectorImpl<Values> &a) {
  for (int64_t i = 0; i < grid.rowFragments(); ++i) {
    a.push_back(left.left(stage, firstRow, i * fragmentRows, inner));
  }
  Value rightAt = e.add(stage, left.bytes());
  auto c = rightFragments(right, rightAt, firstColumn, grid.columnFragments(), inner);
  return multiplyFragments(core, a, c, sums);
}
