// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Sums over valid rows of outer products. An item is a block of the result. It iterates over blocks
// of rows, copies the columns of valid rows of both factors to the thread's scratch (so that the
// inner loop sees neither invalid rows nor long strides), and adds each block's products to sums in
// scratch. One item adds its rows in order, so the result depends on shapes only. Where the target
// multiplies pairs of bf16, two consecutive valid rows are packed by pairs. For AMX tiles the left
// factor is transposed in place, a square of 16 pairs and 16 columns at a time, after all rows are
// packed, and pairs of zeros are added up to whole tiles.
#include "../../Common/Storage.h"
#include "Amx.h"
#include "Contract.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

/// Division of a weight gradient [M, N] into items.
struct WeightSchedule {
  RegisterTile tile;
  int64_t height, width;     ///< M, N; N is 0 if only the bias is computed
  int64_t blockRowPanels;    ///< panels of tile rows per item
  int64_t blockColumnPanels; ///< panels of tile columns per item
  /// Steps of the inner loop at a time. A right panel (16 KiB) and the left panels that pass by
  /// share L1; with 192 steps, the left ones evict the right one.
  static constexpr int64_t blockSteps = 128;
  bool pairs; ///< a step is two rows of the domain, pairs of bf16
  bool tiles; ///< pairs are multiplied in AMX tiles, 16 steps at a time

  int64_t blockDomainRows() const { return blockSteps * (pairs ? 2 : 1); }

  int64_t rowPanels() const { return llvm::divideCeil(height, tile.rows); }
  int64_t columnPanels() const { return llvm::divideCeil(width, tile.columns()); }
  int64_t rowBlocks() const { return llvm::divideCeil(rowPanels(), blockRowPanels); }
  int64_t columnBlocks() const {
    return std::max<int64_t>(1, llvm::divideCeil(columnPanels(), blockColumnPanels));
  }
  int64_t items() const { return rowBlocks() * columnBlocks(); }
  int64_t blockHeight() const { return blockRowPanels * tile.rows; }
  /// Elements of a packed panel of the left factor: the tile rows of each step, step by step. Steps
  /// are written as whole vectors in order, so the surplus of a vector is overwritten by the next
  /// step; the surplus of the last one is at the end of the panel.
  int64_t leftPanel() const {
    return llvm::divideCeil(blockSteps * tile.rows + tile.lanes, 16) * 16;
  }

  /// Rows of the next block that each tile prefetches: all in all, unless the tiles are few.
  int64_t rowsAhead() const {
    int64_t products = std::max<int64_t>(1, blockRowPanels * blockColumnPanels);
    return std::min<int64_t>(llvm::divideCeil(blockDomainRows(), products),
                             TilePrefetches::mostRows);
  }

  WeightSchedule(const Target &target, int64_t height, int64_t width, bool pairs);
};

/// Copying costs (1 / height + 1 / width) of a block's work, so blocks are large and as square as
/// eight items allow, or four if eight would be smaller than 64 by 64; packed factors and sums
/// together stay within L2.
WeightSchedule::WeightSchedule(const Target &target, int64_t height, int64_t width, bool pairs)
    : tile(RegisterTile::of(target)), height(height), width(width), pairs(pairs),
      tiles(pairs && target.tiles && width > 0) {
  tile.rows = tiles ? tileSide : tile.rows; // two panels become a block of 2 x 2 tiles
  assert(tile.rows <= tile.lanes && "a packed step of a panel is one vector");
  constexpr int64_t tallest = 132;
  const int64_t wantedItems = height * width < 8 * 64 * 64 ? 4 : 8;
  int64_t widest = std::max<int64_t>(1, target.l2Bytes / 4 / (blockSteps * tile.columns() * 4));
  int64_t columnCuts = std::max<int64_t>(1, llvm::divideCeil(columnPanels(), widest));
  blockColumnPanels = std::max<int64_t>(1, llvm::divideCeil(columnPanels(), columnCuts));
  int64_t blocks = llvm::divideCeil(rowPanels(), tallest / tile.rows);
  blockRowPanels = llvm::divideCeil(rowPanels(), blocks);
  while (items() < wantedItems && blockColumnPanels > 2) {
    blockColumnPanels = llvm::divideCeil(blockColumnPanels, 2);
  }
  while (items() < wantedItems && blockRowPanels > 4) {
    blockRowPanels = llvm::divideCeil(blockRowPanels, 2);
  }
}

/// Emits one weight gradient.
class WeightEmitter {
public:
  WeightEmitter(dispatch::WeightGradientOp op, ModuleOp module, StringRef name,
                const Target &target, const WeightSchedule &schedule)
      : op(op), domain(op.getDomain()), s(schedule), frame(op, module, name, target),
        b(frame.builder()), type(schedule.tile.type(b)),
        packedType(schedule.pairs ? VectorType::get({schedule.tile.lanes}, b.getI32Type()) : type) {
  }

  void emit();
  func::FuncOp function() { return frame.function(); }
  int64_t scratchBytes() const { return frame.scratchBytes(); }

private:
  /// Rows of the next block that a tile prefetches: from `first` on, below `last`.
  struct Ahead {
    Value first, last;
  };

  void makeBuffers();
  void locateItem();
  void clearSums();
  Value packRows(Value first, Value last);
  void copyRow(Value row, Value slot);
  Value loadLeft(Value row, Value column);
  Value leftAt(Value panel, Value k);
  void addProducts(Value count, Value next, Value last);
  void addTileProducts(Value count);
  void addTile(Value m, Value n, const RegisterTile &tile, Value count, const Ahead *ahead);
  void prefetch(Value k, const Ahead &ahead);
  void addBias(Value count);
  void storeWeight();
  void storeBias();
  Value index(int64_t value) { return frame.index(value); }
  Value below(Value x, Value y) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
  }
  void storeSum(Value sum, Value init, Value result, ValueRange indices, Value column,
                int64_t columns);

  dispatch::WeightGradientOp op;
  dispatch::DomainAttr domain;
  const WeightSchedule &s;
  Frame frame;
  ImplicitLocOpBuilder &b;
  VectorType type, packedType; ///< a vector of sums, and of packed factors
  Value left, right, initWeight, initBias, weight, bias;
  Value packedLeft, packedRight, sums, biasSums;
  Value height0, panelRow0, panel0, rowPanels, columnPanels, ownsBias, validRows;
  Lengths lengths;
};

} // namespace

static Value emitZeros(ImplicitLocOpBuilder &b, VectorType type) {
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

/// Stores a row's vector as step `slot`, or as one half of step `slot` / 2: rows come in order, and
/// the first of a pair stores zeros for the second.
static void storeStep(ImplicitLocOpBuilder &b, Value vector, Value slot, Value packed,
                      function_ref<SmallVector<Value>(Value)> at) {
  auto type = cast<VectorType>(vector.getType());
  if (type.getElementType().isF32()) {
    vector::StoreOp::create(b, vector, packed, at(slot));
    return;
  }
  Value two = arith::ConstantIndexOp::create(b, 2), none = arith::ConstantIndexOp::create(b, 0);
  SmallVector<Value> place = at(arith::DivUIOp::create(b, slot, two));
  Value half = arith::RemUIOp::create(b, slot, two);
  Value isSecond = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, half, none);
  Value zero = emitZeros(b, type);
  auto branch = scf::IfOp::create(b, isSecond, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value first = vector::LoadOp::create(b, type.clone(b.getI32Type()), packed, place);
  Value pair = arith::OrIOp::create(b, first, emitPairs(b, zero, vector));
  vector::StoreOp::create(b, pair, packed, place);
  b.setInsertionPointToStart(branch.elseBlock());
  vector::StoreOp::create(b, emitPairs(b, vector, zero), packed, place);
}

void WeightEmitter::makeBuffers() {
  unsigned next = 2;
  left = frame.buffer(0);
  right = frame.buffer(1);
  initWeight = op.getInitWeight() ? frame.buffer(next++) : Value();
  initBias = op.getInitBias() ? frame.buffer(next++) : Value();
  weight = op.getWeight() ? frame.buffer(next++) : Value();
  bias = op.getBias() ? frame.buffer(next++) : Value();
  Type f32 = b.getF32Type();
  Type packed = packedType.getElementType();
  packedLeft = frame.scratch(MemRefType::get({s.blockRowPanels * s.leftPanel()}, packed));
  if (weight) {
    // A row's parts go to all panels, so a panel is not a multiple of 4 KiB: it has a step more.
    packedRight = frame.scratch(
        MemRefType::get({s.blockColumnPanels, s.blockSteps + 1, s.tile.columns()}, packed));
    sums = frame.scratch(MemRefType::get(
        {s.blockRowPanels, s.blockColumnPanels, s.tile.rows, s.tile.columns()}, f32));
  }
  if (bias) {
    biasSums = frame.scratch(MemRefType::get({s.blockRowPanels, s.tile.lanes}, f32));
  }
}

void WeightEmitter::locateItem() {
  Value columnBlocks = index(s.columnBlocks());
  Value rowBlock = arith::DivUIOp::create(b, frame.item(), columnBlocks);
  Value columnBlock = arith::RemUIOp::create(b, frame.item(), columnBlocks);
  height0 = mulIndex(b, rowBlock, s.blockHeight());
  panel0 = mulIndex(b, columnBlock, s.blockColumnPanels);
  panelRow0 = mulIndex(b, rowBlock, s.blockRowPanels);
  Value rowsLeft = arith::SubIOp::create(b, index(s.rowPanels()), panelRow0);
  rowPanels = minIndex(b, index(s.blockRowPanels), rowsLeft);
  Value columnsLeft = arith::SubIOp::create(b, index(s.columnPanels()), panel0);
  columnPanels = minIndex(b, index(s.blockColumnPanels), columnsLeft);
  ownsBias = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, columnBlock, index(0));
  lengths = frame.lengths(domain.getFactor(), domain.getPositions());
  validRows = domain.getFactor() ? frame.rows() : index(domain.getBatch());
}

void WeightEmitter::emit() {
  makeBuffers();
  locateItem();
  clearSums();
  Value last = index(domain.getLaunchRows());
  emitLoop(b, index(0), last, index(s.blockDomainRows()), [&](Value first) {
    Value end = minIndex(b, addIndex(b, first, index(s.blockDomainRows())), last);
    Value count = packRows(first, end);
    if (s.pairs) { // an odd last row is paired with zeros
      count = arith::DivUIOp::create(b, addIndex(b, count, index(1)), index(2));
    }
    emitIf(b, below(index(0), count), [&] {
      if (weight && !s.tiles) {
        addProducts(count, end, last);
      }
      if (bias) {
        emitIf(b, ownsBias, [&] { addBias(count); });
      }
      if (s.tiles) { // transposes the left factor, which the bias needs as it is packed
        addTileProducts(count);
      }
    });
  });
  if (weight) {
    storeWeight();
  }
  if (bias) {
    emitIf(b, ownsBias, [&] { storeBias(); });
  }
  frame.finish();
}

void WeightEmitter::clearSums() {
  Value zero = emitZeros(b, type);
  if (weight) {
    emitLoop(b, index(0), rowPanels, index(1), [&](Value m) {
      emitLoop(b, index(0), columnPanels, index(1), [&](Value n) {
        for (int64_t i = 0; i < s.tile.rows * s.tile.vectors; ++i) {
          SmallVector<Value> at{m, n, index(i / s.tile.vectors),
                                index(i % s.tile.vectors * s.tile.lanes)};
          vector::StoreOp::create(b, zero, sums, at);
        }
      });
    });
  }
  for (int64_t panel = 0; bias && panel < s.blockRowPanels; ++panel) {
    vector::StoreOp::create(b, zero, biasSums, ValueRange{index(panel), index(0)});
  }
}

/// Packs the valid rows of [first, last) without gaps; returns their number.
Value WeightEmitter::packRows(Value first, Value last) {
  auto loop = scf::ForOp::create(b, first, last, index(1), ValueRange{index(0)});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value row = loop.getInductionVar(), count = loop.getRegionIterArg(0);
  if (domain.getFactor() == 0) {
    copyRow(row, count);
    scf::YieldOp::create(b, ValueRange{addIndex(b, count, index(1))});
    return loop.getResult(0);
  }
  Value sequence = arith::DivUIOp::create(b, row, index(domain.getPositions()));
  Value position = arith::RemUIOp::create(b, row, index(domain.getPositions()));
  Value valid =
      arith::AndIOp::create(b, below(sequence, validRows), below(position, lengths.of(sequence)));
  emitIf(b, valid, [&] { copyRow(row, count); });
  Value advance = arith::SelectOp::create(b, valid, index(1), index(0));
  scf::YieldOp::create(b, ValueRange{addIndex(b, count, advance)});
  return loop.getResult(0);
}

/// Left columns start at multiples of the tile's rows, so their last vector may straddle the end of
/// the row and is masked. Right columns start at whole vectors; vectors past the row's padded end
/// are clamped to readable ones, and never stored.
void WeightEmitter::copyRow(Value row, Value slot) {
  int64_t lanes = s.tile.lanes;
  for (int64_t panel = 0; panel < s.blockRowPanels; ++panel) {
    Value column = addIndex(b, height0, index(panel * s.tile.rows));
    storeStep(b, loadLeft(row, column), slot, packedLeft,
              [&](Value step) { return SmallVector<Value>{leftAt(index(panel), step)}; });
  }
  if (!weight) {
    return;
  }
  int64_t rightStride = cast<MemRefType>(right.getType()).getDimSize(1);
  emitLoop(b, index(0), columnPanels, index(1), [&](Value panel) {
    Value column = mulIndex(b, addIndex(b, panel0, panel), s.tile.columns());
    for (int64_t v = 0; v < s.tile.vectors; ++v) {
      Value from = minIndex(b, addIndex(b, column, index(v * lanes)), index(rightStride - lanes));
      storeStep(b, (s.pairs ? loadBits : loadVector)(b, lanes, right, {row, from}, {}), slot,
                packedRight,
                [&](Value step) { return SmallVector<Value>{panel, step, index(v * lanes)}; });
    }
  });
}

/// Without AVX-512, a masked load of 16-bit elements is one branch per element, so only the vector
/// that straddles the end of the row is masked.
Value WeightEmitter::loadLeft(Value row, Value column) {
  int64_t lanes = s.tile.lanes;
  Value mask = emitColumnMask(b, lanes, column, index(s.height));
  if (!isHalfMemory(left) || s.pairs) {
    return (s.pairs ? loadBits : loadVector)(b, lanes, left, {row, column}, mask);
  }
  Value end = addIndex(b, column, index(lanes));
  Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, end, index(s.height));
  auto branch = scf::IfOp::create(b, TypeRange{type}, inside, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, ValueRange{loadVector(b, lanes, left, {row, column})});
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, ValueRange{loadVector(b, lanes, left, {row, column}, mask)});
  return branch.getResult(0);
}

/// Returns the start of step `k` of a left panel.
Value WeightEmitter::leftAt(Value panel, Value k) {
  return addIndex(b, mulIndex(b, panel, s.leftPanel()), mulIndex(b, k, s.tile.rows));
}

/// A right panel stays in L1 while the left panels are streamed. `next` is the first row of the
/// next block, `last` the end of all rows.
void WeightEmitter::addProducts(Value count, Value next, Value last) {
  RegisterTile tail = s.tile;
  tail.rows = s.height % s.tile.rows;
  Value fullPanels = arith::SubIOp::create(b, index(s.height / s.tile.rows), panelRow0);
  fullPanels = minIndex(b, rowPanels, fullPanels);
  emitLoop(b, index(0), columnPanels, index(1), [&](Value n) {
    auto add = [&](Value m, const RegisterTile &tile) {
      Value number = addIndex(b, mulIndex(b, n, s.blockRowPanels), m);
      Ahead ahead{addIndex(b, next, mulIndex(b, number, s.rowsAhead())), last};
      addTile(m, n, tile, count, &ahead);
    };
    emitLoop(b, index(0), fullPanels, index(1), [&](Value m) { add(m, s.tile); });
    if (tail.rows > 0) {
      emitIf(b, below(fullPanels, rowPanels),
             [&] { addTile(fullPanels, n, tail, count, nullptr); });
    }
  });
}

/// Prefetches a part of the tile's rows of the next block, at step `k`, a multiple of the steps of
/// a line. The tiles together prefetch all rows. The rows come from memory or L3, and packing them
/// would otherwise only wait.
void WeightEmitter::prefetch(Value k, const Ahead &ahead) {
  Value part = arith::DivUIOp::create(b, k, index(TilePrefetches::lineSteps));
  Value lastRow = arith::SubIOp::create(b, ahead.last, index(1));
  const int64_t parts = llvm::divideCeil(s.blockSteps, TilePrefetches::lineSteps);
  auto touch = [&](Value buffer, Value row, Value column0, int64_t columns) {
    int64_t line = lineElements(buffer);
    int64_t each = llvm::divideCeil(llvm::divideCeil(columns, line), parts);
    Value lastColumn = index(cast<MemRefType>(buffer.getType()).getDimSize(1) - 1);
    for (int64_t i = 0; i < each; ++i) {
      Value at = addIndex(b, mulIndex(b, part, each), index(i));
      Value column = addIndex(b, column0, mulIndex(b, at, line));
      emitPrefetch(b, buffer, {row, minIndex(b, column, lastColumn)}, CacheLevel::L2);
    }
  };
  for (int64_t i = 0; i < s.rowsAhead(); ++i) {
    Value row = minIndex(b, addIndex(b, ahead.first, index(i)), lastRow);
    touch(left, row, height0, s.blockHeight());
    touch(right, row, mulIndex(b, panel0, s.tile.columns()),
          s.blockColumnPanels * s.tile.columns());
  }
}

/// Computes sums[m, n] += packed left panel m, transposed, times packed right panel n.
void WeightEmitter::addTile(Value m, Value n, const RegisterTile &tile, Value count,
                            const Ahead *ahead) {
  SmallVector<Value> initial;
  auto at = [&](int64_t i) {
    return SmallVector<Value>{m, n, index(i / tile.vectors), index(i % tile.vectors * tile.lanes)};
  };
  for (int64_t i = 0; i < tile.rows * tile.vectors; ++i) {
    initial.push_back(vector::LoadOp::create(b, type, sums, at(i)));
  }
  auto loadLeft = [&](Value k, int64_t row) -> Value {
    return memref::LoadOp::create(b, packedLeft, addIndex(b, leftAt(m, k), index(row)));
  };
  auto loadRight = [&](Value k, int64_t v) -> Value {
    return vector::LoadOp::create(b, packedType, packedRight,
                                  ValueRange{n, k, index(v * tile.lanes)});
  };
  auto line = [&](Value k) { prefetch(k, *ahead); };
  TilePrefetches prefetches;
  if (ahead) {
    prefetches.line = line;
  }
  SmallVector<Value> result =
      emitOuterProducts(b, tile, count, loadLeft, loadRight, initial, prefetches);
  for (auto [i, value] : llvm::enumerate(result)) {
    vector::StoreOp::create(b, value, sums, at(i));
  }
}

/// Transposes squares of 16 x 16 elements of `memory` in place: `count` (a multiple of 16) rows of
/// 16 from element `first`.
static void transposeSquares(ImplicitLocOpBuilder &b, Value memory, VectorType type, Value first,
                             Value count) {
  Value none = arith::ConstantIndexOp::create(b, 0);
  emitLoop(b, none, count, arith::ConstantIndexOp::create(b, tileSide), [&](Value row) {
    SmallVector<Value> places, rows;
    for (int64_t i = 0; i < tileSide; ++i) {
      Value step = addIndex(b, row, arith::ConstantIndexOp::create(b, i));
      places.push_back(addIndex(b, first, mulIndex(b, step, tileSide)));
      rows.push_back(vector::LoadOp::create(b, type, memory, places.back()));
    }
    for (auto [place, column] : llvm::zip_equal(places, emitTranspose(b, rows))) {
      vector::StoreOp::create(b, column, memory, ValueRange{place});
    }
  });
}

/// Computes sums += packed left, transposed, times packed right, two left panels at a time; the
/// last one may be alone.
void WeightEmitter::addTileProducts(Value count) {
  Value tile = index(tileSide);
  Value padded = arith::CeilDivUIOp::create(b, count, tile);
  padded = mulIndex(b, padded, tileSide);
  Value none = emitZeros(b, packedType);
  emitLoop(b, count, padded, index(1), [&](Value step) {
    emitLoop(b, index(0), rowPanels, index(1), [&](Value m) {
      vector::StoreOp::create(b, none, packedLeft, ValueRange{leftAt(m, step)});
    });
    emitLoop(b, index(0), columnPanels, index(1), [&](Value n) {
      for (int64_t v = 0; v < s.tile.vectors; ++v) {
        vector::StoreOp::create(b, none, packedRight, ValueRange{n, step, index(v * s.tile.lanes)});
      }
    });
  });
  emitLoop(b, index(0), rowPanels, index(1), [&](Value m) {
    transposeSquares(b, packedLeft, packedType, leftAt(m, index(0)), padded);
  });
  auto addBlock = [&](Value m, Value n, int64_t panels) {
    auto at = [&](int64_t i) {
      return SmallVector<Value>{addIndex(b, m, index(i / s.tile.vectors)), n, index(0),
                                index(i % s.tile.vectors * s.tile.lanes)};
    };
    SmallVector<Value> initial;
    for (int64_t i = 0; i < panels * s.tile.vectors; ++i) {
      initial.push_back(loadSums(b, sums, at(i)));
    }
    auto left = [&](Value pair, int64_t row) {
      return loadFactor(b, packedLeft, leftAt(addIndex(b, m, index(row)), pair), tile);
    };
    auto right = [&](Value pair, int64_t v) {
      return loadFactor(b, packedRight, {n, pair, index(v * s.tile.lanes)});
    };
    SmallVector<Value> result =
        emitTileProducts(b, panels, s.tile.vectors, padded, left, right, initial);
    for (auto [i, value] : llvm::enumerate(result)) {
      storeSums(b, value, sums, at(i));
    }
  };
  Value even = arith::AndIOp::create(b, rowPanels, index(-2));
  emitLoop(b, index(0), columnPanels, index(1), [&](Value n) {
    emitLoop(b, index(0), even, index(2), [&](Value m) { addBlock(m, n, 2); });
    emitIf(b, below(even, rowPanels), [&] { addBlock(even, n, 1); });
  });
}

void WeightEmitter::addBias(Value count) {
  SmallVector<Value> initial;
  for (int64_t panel = 0; panel < s.blockRowPanels; ++panel) {
    initial.push_back(vector::LoadOp::create(b, type, biasSums, {index(panel), index(0)}));
  }
  auto loop = scf::ForOp::create(b, index(0), count, index(1), initial);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> next;
    for (auto [panel, argument] : llvm::enumerate(loop.getRegionIterArgs())) {
      Value sum = argument;
      Value at = leftAt(index(panel), loop.getInductionVar());
      Value step = vector::LoadOp::create(b, packedType, packedLeft, ValueRange{at});
      if (s.pairs) {
        auto [first, second] = emitSplitPairs(b, step);
        sum = arith::AddFOp::create(b, sum, first);
        step = second;
      }
      next.push_back(arith::AddFOp::create(b, sum, step));
    }
    scf::YieldOp::create(b, next);
  }
  for (auto [panel, sum] : llvm::enumerate(loop.getResults())) {
    vector::StoreOp::create(b, sum, biasSums, ValueRange{index(panel), index(0)});
  }
}

/// Computes result = init + sum for `lanes` columns from `column`; results are dense, so the last
/// ones are masked.
void WeightEmitter::storeSum(Value sum, Value init, Value result, ValueRange indices, Value column,
                             int64_t columns) {
  Value mask = emitColumnMask(b, s.tile.lanes, column, index(columns));
  if (init) {
    Value start = vector::MaskedLoadOp::create(b, type, init, indices, mask, emitZeros(b, type));
    sum = arith::AddFOp::create(b, start, sum);
  }
  vector::MaskedStoreOp::create(b, result, indices, mask, sum);
}

void WeightEmitter::storeWeight() {
  const RegisterTile &tile = s.tile;
  emitLoop(b, index(0), rowPanels, index(1), [&](Value m) {
    emitLoop(b, index(0), index(tile.rows), index(1), [&](Value i) {
      Value row = addIndex(b, addIndex(b, height0, mulIndex(b, m, tile.rows)), i);
      emitIf(b, below(row, index(s.height)), [&] {
        emitLoop(b, index(0), columnPanels, index(1), [&](Value n) {
          for (int64_t v = 0; v < tile.vectors; ++v) {
            Value lane = index(v * tile.lanes);
            Value column = addIndex(b, mulIndex(b, addIndex(b, panel0, n), tile.columns()), lane);
            Value sum = vector::LoadOp::create(b, type, sums, ValueRange{m, n, i, lane});
            storeSum(sum, initWeight, weight, ValueRange{row, column}, column, s.width);
          }
        });
      });
    });
  });
}

void WeightEmitter::storeBias() {
  for (int64_t panel = 0; panel < s.blockRowPanels; ++panel) {
    Value column = addIndex(b, height0, index(panel * s.tile.rows));
    Value end = addIndex(b, column, index(s.tile.rows));
    Value mask = emitColumnMask(b, s.tile.lanes, column, minIndex(b, end, index(s.height)));
    Value sum = vector::LoadOp::create(b, type, biasSums, {index(panel), index(0)});
    if (initBias) {
      Value start = vector::MaskedLoadOp::create(b, type, initBias, ValueRange{column}, mask,
                                                 emitZeros(b, type));
      sum = arith::AddFOp::create(b, start, sum);
    }
    vector::MaskedStoreOp::create(b, bias, ValueRange{column}, mask, sum);
  }
}

FailureOr<Kernel> cpu::generateWeightGradient(dispatch::WeightGradientOp op, ModuleOp module,
                                              StringRef name, const Target &target) {
  auto left = cast<RankedTensorType>(op.getLeft().getType());
  int64_t height = left.getShape().back();
  int64_t width = cast<RankedTensorType>(op.getRight().getType()).getShape().back();
  auto isHalf = [](Value tensor) { return getElementTypeOrSelf(tensor.getType()).isBF16(); };
  bool pairs = target.bf16Dots && isHalf(op.getLeft()) && isHalf(op.getRight());
  WeightSchedule schedule(target, height, op.getWeight() ? width : 0, pairs);
  WeightEmitter emitter(op, module, name, target, schedule);
  emitter.emit();
  double rows = op.getDomain().getLaunchRows();
  double results = double(height) * schedule.width * (op.getInitWeight() ? 2 : 1);
  double factorBytes = left.getElementTypeBitWidth() / 8;
  double bytes = factorBytes * rows * (height + schedule.width) + 4 * results;
  double flops = 2 * rows * height * schedule.width + (op.getBias() ? rows * height : 0);
  return Kernel{
      emitter.function(), schedule.items(), emitter.scratchBytes(), "matmul", flops, bytes};
}
