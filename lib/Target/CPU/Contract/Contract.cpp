// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Rows times a weight matrix. An item is a block of rows by a block of columns. It packs its part
// of W once into panels [K][tile columns] in the thread's scratch, half of L2, and then runs its
// rows through every panel. Rows are read in place (their padding avoids power-of-two strides), and
// the sums of a tile stay in registers for all of K. Rows of bf16 are first extended, a tile at a
// time, because the inner loop reads them a scalar at a time. Where the target multiplies pairs of
// bf16, a step of the inner loop is two of K: rows are read in place, and panels are packed by
// pairs. AMX tiles read both as they are, 32 of K at a time: the end of K is padded with zeros, for
// which rows are copied to scratch, as are rows that are fewer than a tile's.
#include "Contract.h"
#include "../../Common/Storage.h"
#include "Amx.h"
#include "Epilogue.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

/// Division of a contraction into items.
struct ContractSchedule {
  RegisterTile tile;
  int64_t inner;       ///< K
  int64_t columns;     ///< N
  int64_t rows;        ///< rows of the launch
  int64_t blockRows;   ///< rows per item, a multiple of the tile's
  int64_t blockPanels; ///< column panels per item
  bool pairs;          ///< a step of the inner loop is a pair of bf16
  bool tiles;          ///< pairs are multiplied in AMX tiles, 16 steps at a time

  /// Steps of the inner loop, and steps of K in each.
  int64_t stepSize() const { return pairs ? 2 : 1; }
  int64_t steps() const { return inner / stepSize(); }
  int64_t panels() const { return llvm::divideCeil(columns, tile.columns()); }
  int64_t fullPanels() const { return columns / tile.columns(); }
  int64_t rowBlocks() const { return llvm::divideCeil(rows, blockRows); }
  int64_t columnBlocks() const { return llvm::divideCeil(panels(), blockPanels); }
  int64_t items() const { return rowBlocks() * columnBlocks(); }
  /// Steps of a packed panel: whole vectors of the transposed weight, or whole tiles.
  int64_t packedSteps() const { return llvm::alignTo(steps(), tile.lanes); }
  /// AMX tiles read whole steps of 32 of K, and whole tiles of rows.
  bool copiesRows() const { return tiles && (inner % tileDepth != 0 || rows < tile.rows); }

  ContractSchedule(const Target &target, int64_t rows, int64_t inner, int64_t columns, bool pairs);
};

/// Packing an element of W costs about as much as 4 tile rows of work on it, so blocks of rows stay
/// tall; columns are split first to get eight items.
ContractSchedule::ContractSchedule(const Target &target, int64_t rows, int64_t inner,
                                   int64_t columns, bool pairs)
    : tile(RegisterTile::of(target)), inner(inner), columns(columns), rows(rows), pairs(pairs),
      tiles(pairs && target.tiles) {
  tile.rows = tiles ? (rows > tileSide ? 2 : 1) * tileSide : std::min(tile.rows, rows);
  constexpr int64_t wantedItems = 8, tallBlock = 516, shortBlock = 132;
  int64_t panelBytes = steps() * tile.columns() * 4;
  blockPanels = std::clamp<int64_t>(target.l2Bytes / 2 / panelBytes, 1, panels());
  blockRows = llvm::divideCeil(std::min(rows, tallBlock), tile.rows) * tile.rows;
  while (items() < wantedItems && blockPanels > 2) {
    blockPanels = llvm::divideCeil(blockPanels, 2);
  }
  while (items() < wantedItems && blockRows > shortBlock) {
    blockRows = llvm::divideCeil(blockRows / 2, tile.rows) * tile.rows;
  }
}

/// Emits one contraction.
class ContractEmitter {
public:
  ContractEmitter(dispatch::ContractOp op, ModuleOp module, StringRef name, const Target &target,
                  const ContractSchedule &schedule)
      : op(op), domain(op.getDomain()), s(schedule), frame(op, module, name, target),
        b(frame.builder()), epilogue(makeEpilogue(op, frame)) {}

  LogicalResult emit();
  func::FuncOp function() { return frame.function(); }
  int64_t scratchBytes() const { return frame.scratchBytes(); }

private:
  void emitItem();
  void packPanel(Value panel, Value slot, const RegisterTile &tile);
  void packTransposed(Value slot, Value first, Value at, Value k, bool tail);
  void emitRows(Value first, Value panelBegin, Value fullEnd, Value hasTail);
  void extendRows(Value first);
  void copyRows(Value first);
  Value lastRowOr(Value row);
  void prefetchRows(Value first, Value slot, Value k);
  void prefetchEpilogue(Value first, Value panel, Value k);
  void emitSums(Value first, Value panel, Value slot, const RegisterTile &tile);
  void emitTileSums(Value first, Value slot, const RegisterTile &tile);
  void emitEpilogue(Value first, Value from, Value to, Value panel, const RegisterTile &tile);
  Value rotate(Value vector, Value row, Value column);
  Value loadWeights(int64_t count, ValueRange at, Value mask);
  Value loadDense(unsigned buffer, Value column, VectorType type);
  Value index(int64_t value) { return frame.index(value); }
  static dispatch::AccessKind getAccessKind(Attribute access) {
    return cast<dispatch::AccessAttr>(access).getKind();
  }

  dispatch::ContractOp op;
  dispatch::DomainAttr domain;
  const ContractSchedule &s;
  Frame frame;
  ImplicitLocOpBuilder &b;
  Epilogue epilogue;
  RegisterTile tail{};
  VectorType packedType; ///< a vector of the packed weight
  SmallVector<Value> extras, results;
  Value input, weight, packed, extended, copied, sums, rowEnd, validRows;
  Lengths lengths;
  bool failed_ = false;
};

} // namespace

LogicalResult ContractEmitter::emit() {
  tail = s.tile;
  tail.vectors = llvm::divideCeil(s.columns % s.tile.columns(), s.tile.lanes);
  input = frame.buffer(0);
  weight = frame.buffer(1);
  for (size_t i = 0; i < op.getAccesses().size(); ++i) {
    extras.push_back(frame.buffer(2 + i));
  }
  for (size_t i = 0; i < op.getResultAccesses().size(); ++i) {
    results.push_back(frame.buffer(2 + extras.size() + i));
  }
  packedType = VectorType::get({s.tile.lanes}, s.pairs ? Type(b.getI32Type()) : b.getF32Type());
  packed = frame.scratch(MemRefType::get({s.blockPanels, s.packedSteps(), s.tile.columns()},
                                         packedType.getElementType()));
  sums = frame.scratch(MemRefType::get({s.tile.rows, s.tile.columns()}, b.getF32Type()));
  if (isHalfMemory(input) && !s.pairs) {
    extended = frame.scratch(
        MemRefType::get({s.tile.rows, dispatch::paddedWidth(s.inner)}, b.getF32Type()));
  }
  if (s.copiesRows()) {
    int64_t width = dispatch::paddedWidth(llvm::alignTo(s.inner, tileDepth));
    copied = frame.scratch(MemRefType::get({s.tile.rows, width}, b.getI16Type()));
  }
  lengths = frame.lengths(domain.getFactor(), domain.getPositions());
  validRows = domain.getFactor() ? frame.rows() : index(domain.getBatch());
  emitItem();
  frame.finish();
  return failure(failed_);
}

void ContractEmitter::emitItem() {
  Value columnBlocks = index(s.columnBlocks());
  Value rowBlock = arith::DivUIOp::create(b, frame.item(), columnBlocks);
  Value columnBlock = arith::RemUIOp::create(b, frame.item(), columnBlocks);
  Value rowBegin = mulIndex(b, rowBlock, s.blockRows);
  rowEnd = minIndex(b, addIndex(b, rowBegin, index(s.blockRows)), index(s.rows));
  Value count = arith::SubIOp::create(b, rowEnd, rowBegin);
  Value any = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, count, index(0));
  Value valid = emitAnyValid(b, domain, lengths, validRows, rowBegin, count);
  Value panelBegin = mulIndex(b, columnBlock, s.blockPanels);
  Value panelEnd = minIndex(b, addIndex(b, panelBegin, index(s.blockPanels)), index(s.panels()));
  Value fullEnd = minIndex(b, panelEnd, index(s.fullPanels()));
  Value hasTail =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, panelEnd, index(s.fullPanels()));
  emitIf(b, arith::AndIOp::create(b, any, valid), [&] {
    emitLoop(b, panelBegin, fullEnd, index(1), [&](Value panel) {
      packPanel(panel, arith::SubIOp::create(b, panel, panelBegin), s.tile);
    });
    if (tail.vectors > 0) {
      emitIf(b, hasTail, [&] {
        Value panel = index(s.fullPanels());
        packPanel(panel, arith::SubIOp::create(b, panel, panelBegin), tail);
      });
    }
    emitLoop(b, rowBegin, rowEnd, index(s.tile.rows), [&](Value first) {
      Value rows = minIndex(b, index(s.tile.rows), arith::SubIOp::create(b, rowEnd, first));
      Value anyRow = emitAnyValid(b, domain, lengths, validRows, first, rows);
      emitIf(b, anyRow, [&] { emitRows(first, panelBegin, fullEnd, hasTail); });
    });
  });
}

/// Runs one panel of rows through the item's column panels. The last panel of all rows starts early
/// enough to be whole, so there is one tile; rows that the panel before it stored are computed
/// again and not stored, because a result may replace an operand of the epilogue.
void ContractEmitter::emitRows(Value first, Value panelBegin, Value fullEnd, Value hasTail) {
  Value start = first, from = index(0), to = index(s.tile.rows);
  if (s.rows < s.tile.rows) {
    to = index(s.rows);
  } else if (s.rows % s.tile.rows != 0) {
    start = minIndex(b, first, index(s.rows - s.tile.rows));
    from = arith::SubIOp::create(b, first, start);
  }
  if (extended) {
    extendRows(start);
  }
  if (s.copiesRows()) {
    copyRows(start);
  }
  auto emitPanel = [&](Value panel, const RegisterTile &tile) {
    Value slot = arith::SubIOp::create(b, panel, panelBegin);
    if (s.tiles) {
      emitTileSums(start, slot, tile);
    } else {
      emitSums(start, panel, slot, tile);
    }
    emitEpilogue(start, from, to, panel, tile);
  };
  emitLoop(b, panelBegin, fullEnd, index(1), [&](Value panel) { emitPanel(panel, s.tile); });
  if (tail.vectors > 0) {
    emitIf(b, hasTail, [&] { emitPanel(index(s.fullPanels()), tail); });
  }
}

/// Returns `row`, or the item's last row if that is smaller.
Value ContractEmitter::lastRowOr(Value row) {
  return minIndex(b, row, arith::SubIOp::create(b, rowEnd, index(1)));
}

/// Extends the tile's rows to f32, in whole vectors since rows are padded.
void ContractEmitter::extendRows(Value first) {
  emitLoop(b, index(0), index(s.tile.rows), index(1), [&](Value i) {
    Value row = addIndex(b, first, i);
    emitLoop(b, index(0), index(s.inner), index(s.tile.lanes), [&](Value k) {
      storeVector(b, loadVector(b, s.tile.lanes, input, {row, k}), extended, {i, k});
    });
  });
}

/// Copies the tile's rows to scratch, with zeros to the next multiple of 32 columns. Repeats the
/// item's last row for missing ones.
void ContractEmitter::copyRows(Value first) {
  int64_t whole = s.inner / tileDepth * tileDepth;
  auto copy = [&](Value row, Value i, Value k, Value mask) {
    Value bits = loadBits(b, tileDepth, input, {row, k}, mask);
    vector::StoreOp::create(b, bits, copied, ValueRange{i, k});
  };
  emitLoop(b, index(0), index(s.tile.rows), index(1), [&](Value i) {
    Value row = lastRowOr(addIndex(b, first, i));
    emitLoop(b, index(0), index(whole), index(tileDepth),
             [&](Value k) { copy(row, i, k, Value()); });
    if (whole < s.inner) {
      copy(row, i, index(whole), emitColumnMask(b, tileDepth, index(whole), index(s.inner)));
    }
  });
}

/// Loads `count` elements of W: f32, or the bits of bf16 where a step is a pair.
Value ContractEmitter::loadWeights(int64_t count, ValueRange at, Value mask) {
  return (s.pairs ? loadBits : loadVector)(b, count, weight, at, mask);
}

/// Packs the columns of W in `panel`, all of K, to slot `slot` of the packed block.
void ContractEmitter::packPanel(Value panel, Value slot, const RegisterTile &tile) {
  Value column = mulIndex(b, panel, s.tile.columns());
  int64_t lanes = tile.lanes;
  if (op.getByInput()) {
    emitLoop(b, index(0), index(s.steps()), index(1), [&](Value k) {
      for (int64_t v = 0; v < tile.vectors; ++v) {
        Value from = addIndex(b, column, index(v * lanes));
        bool isWhole = tile.vectors == s.tile.vectors && &tile == &s.tile;
        Value mask = isWhole ? Value() : emitColumnMask(b, lanes, from, index(s.columns));
        Value first = s.pairs ? mulIndex(b, k, 2) : k;
        Value row = loadWeights(lanes, {first, from}, mask);
        if (s.pairs) {
          row = emitPairs(b, row, loadWeights(lanes, {addIndex(b, first, index(1)), from}, mask));
        }
        vector::StoreOp::create(b, row, packed, ValueRange{slot, k, index(v * lanes)});
      }
    });
    if (s.tiles && s.steps() < s.packedSteps()) {
      Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(packedType));
      emitLoop(b, index(s.steps()), index(s.packedSteps()), index(1), [&](Value k) {
        for (int64_t v = 0; v < tile.vectors; ++v) {
          vector::StoreOp::create(b, zeros, packed, ValueRange{slot, k, index(v * lanes)});
        }
      });
    }
    return;
  }
  int64_t count = 4 * s.stepSize(), whole = s.inner / count * count;
  emitLoop(b, index(0), index(tile.columns()), index(lanes), [&](Value at) {
    Value first = addIndex(b, column, at);
    emitLoop(b, index(0), index(whole), index(count),
             [&](Value k) { packTransposed(slot, first, at, k, false); });
    if (whole < s.inner) {
      packTransposed(slot, first, at, index(whole), true);
    }
  });
}

/// Packs four steps from k of `lanes` columns of W from `first` to the slot's columns from `at`.
/// Columns past the last repeat it and are never stored.
void ContractEmitter::packTransposed(Value slot, Value first, Value at, Value k, bool tail) {
  int64_t lanes = s.tile.lanes, count = 4 * s.stepSize();
  Value mask = tail ? emitColumnMask(b, count, k, index(s.inner)) : Value();
  auto place = [&](int64_t i) {
    Value n = addIndex(b, first, index(i));
    return SmallVector<Value>{s.columns % lanes == 0 ? n : minIndex(b, n, index(s.columns - 1)), k};
  };
  SmallVector<Value> rows;
  Value step = k;
  if (s.pairs) {
    rows = emitTransposedColumns(
        b, lanes, [&](int64_t i) { return loadBits(b, count, weight, place(i), mask); },
        [&](Value bits) { return vector::BitCastOp::create(b, packedType, bits); });
    step = arith::DivUIOp::create(b, k, index(2));
  } else {
    rows = loadTransposed(b, lanes, weight, place, mask);
  }
  for (auto [i, row] : llvm::enumerate(rows)) {
    vector::StoreOp::create(b, row, packed, ValueRange{slot, addIndex(b, step, index(i)), at});
  }
}

/// Prefetches a line of some of the next tile's rows, those at step `k`. The panels of an item
/// together prefetch all of them, unless the panels are few.
void ContractEmitter::prefetchRows(Value first, Value slot, Value k) {
  int64_t each =
      std::min<int64_t>(llvm::divideCeil(s.tile.rows, s.blockPanels), TilePrefetches::mostRows);
  Value next = addIndex(b, addIndex(b, first, index(s.tile.rows)), mulIndex(b, slot, each));
  for (int64_t i = 0; i < each; ++i) {
    Value row = lastRowOr(addIndex(b, next, index(i)));
    emitPrefetch(b, input, {row, mulIndex(b, k, s.stepSize())}, CacheLevel::L2);
  }
}

/// Prefetches the tile's part of some rows of results and extra operands, which would be read or
/// allocated in the epilogue, far apart. The lines of steps of a tile together prefetch all rows if
/// they are at least three, and the first rows otherwise.
void ContractEmitter::prefetchEpilogue(Value first, Value panel, Value k) {
  SmallVector<Value> memories(results);
  for (auto [extra, access] : llvm::zip(extras, op.getAccesses())) {
    if (getAccessKind(access) == dispatch::AccessKind::Row) {
      memories.push_back(extra);
    }
  }
  int64_t each = llvm::divideCeil(s.tile.rows, s.steps() / TilePrefetches::lineSteps);
  each = std::min<int64_t>(each, TilePrefetches::mostRows);
  Value part = arith::DivUIOp::create(b, k, index(TilePrefetches::lineSteps));
  Value column = mulIndex(b, panel, s.tile.columns());
  for (int64_t i = 0; i < each; ++i) {
    Value row = addIndex(b, mulIndex(b, part, each), index(i));
    row = addIndex(b, first, minIndex(b, row, index(s.tile.rows - 1)));
    for (Value memory : memories) {
      for (int64_t c = 0; c < s.tile.columns(); c += lineElements(memory)) {
        emitPrefetch(b, memory, {row, addIndex(b, column, index(c))}, CacheLevel::L2);
      }
    }
  }
}

/// Stores the sums of one tile to scratch.
void ContractEmitter::emitSums(Value first, Value panel, Value slot, const RegisterTile &tile) {
  constexpr int64_t stepsAhead = 4;
  SmallVector<Value> rows;
  for (int64_t i = 0; i < tile.rows; ++i) {
    rows.push_back(extended ? index(i) : addIndex(b, first, index(i)));
  }
  auto left = [&](Value k, int64_t row) -> Value {
    if (s.pairs) {
      Value pair = vector::LoadOp::create(b, VectorType::get({2}, b.getI16Type()), input,
                                          ValueRange{rows[row], mulIndex(b, k, 2)});
      pair = vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()), pair);
      return vector::ExtractOp::create(b, pair, ArrayRef<int64_t>{0});
    }
    return memref::LoadOp::create(b, extended ? extended : input, ValueRange{rows[row], k});
  };
  auto right = [&](Value k, int64_t v) -> Value {
    return vector::LoadOp::create(b, packedType, packed,
                                  ValueRange{slot, k, index(v * tile.lanes)});
  };
  auto step = [&](Value k) {
    for (int64_t v = 0; v < tile.vectors; ++v) {
      Value later = addIndex(b, k, index(stepsAhead));
      emitPrefetch(b, packed, {slot, later, index(v * tile.lanes)}, CacheLevel::L1);
    }
  };
  auto line = [&](Value k) {
    prefetchRows(first, slot, k);
    prefetchEpilogue(first, panel, k);
  };
  TilePrefetches prefetches;
  if (tile.vectors == s.tile.vectors) { // the rest is a small part of the work
    if (tile.lanes >= 16) {             // narrower vectors leave time for loads from L2
      prefetches.step = step;
    }
    if (s.steps() >= TilePrefetches::lineSteps) {
      prefetches.line = line;
    }
  }
  SmallVector<Value> tileSums =
      emitOuterProducts(b, tile, index(s.steps()), left, right, {}, prefetches);
  for (int64_t i = 0; i < tile.rows; ++i) {
    for (int64_t v = 0; v < tile.vectors; ++v) {
      vector::StoreOp::create(b, tileSums[i * tile.vectors + v], sums,
                              ValueRange{index(i), index(v * tile.lanes)});
    }
  }
}

/// Stores the sums of one tile to scratch, from the rows in place or from their copy.
void ContractEmitter::emitTileSums(Value first, Value slot, const RegisterTile &tile) {
  int64_t blockRows = tile.rows / tileSide;
  auto left = [&](Value pair, int64_t i) -> Value {
    Value row = copied ? index(i * tileSide) : addIndex(b, first, index(i * tileSide));
    return loadFactor(b, copied ? copied : input, {row, mulIndex(b, pair, 2)});
  };
  auto right = [&](Value pair, int64_t v) -> Value {
    return loadFactor(b, packed, {slot, pair, index(v * tile.lanes)});
  };
  SmallVector<Value> tileSums =
      emitTileProducts(b, blockRows, tile.vectors, index(s.packedSteps()), left, right);
  for (auto [i, value] : llvm::enumerate(tileSums)) {
    int64_t row = i / tile.vectors, v = i % tile.vectors;
    storeSums(b, value, sums, {index(row * tileSide), index(v * tile.lanes)});
  }
}

/// Loads columns of a dense operand; does not touch columns past the last.
Value ContractEmitter::loadDense(unsigned buffer, Value column, VectorType type) {
  int64_t width = type.getDimSize(0);
  bool isWhole = s.columns % width == 0;
  Value mask = isWhole ? Value() : emitColumnMask(b, width, column, index(s.columns));
  return loadVector(b, width, extras[buffer], column, mask);
}

Value ContractEmitter::rotate(Value vector, Value row, Value column) {
  auto position = [&]() -> Value {
    return arith::RemUIOp::create(b, row, index(domain.getPositions()));
  };
  return emitColumnRotation(b, vector, extras.back(), position, column, *op.getRotatedColumns(),
                            s.tile.columns());
}

/// Processes the tile's rows [from, to) one at a time, from scratch in L1: the region's code is
/// emitted once, on vectors as wide as the tile, for any number of rows. Rows are padded to whole
/// vectors, so stores need no mask.
void ContractEmitter::emitEpilogue(Value first, Value from, Value to, Value panel,
                                   const RegisterTile &tile) {
  auto type = VectorType::get({tile.columns()}, b.getF32Type());
  Value column = mulIndex(b, panel, s.tile.columns());
  SmallVector<Value> shared;
  for (auto [i, access] : llvm::enumerate(op.getAccesses())) {
    Value value;
    if (getAccessKind(access) == dispatch::AccessKind::Table) {
      break; // the last extra, the angles, is not an argument
    }
    if (getAccessKind(access) == dispatch::AccessKind::Vector) {
      value = loadDense(i, column, type);
    } else if (getAccessKind(access) == dispatch::AccessKind::Scalar) {
      Value scalar = loadElement(b, extras[i], index(0));
      value = vector::BroadcastOp::create(b, type, scalar);
    }
    shared.push_back(value);
  }
  auto emitRow = [&](Value i) {
    SmallVector<Value> at{addIndex(b, first, i), column};
    SmallVector<Value> arguments{vector::LoadOp::create(b, type, sums, ValueRange{i, index(0)})};
    for (auto [e, value] : llvm::enumerate(shared)) {
      arguments.push_back(value ? value : loadVector(b, tile.columns(), extras[e], at));
    }
    FailureOr<SmallVector<Value>> yielded = epilogue.emit(arguments, {at.front(), column});
    if (failed(yielded)) {
      failed_ = true;
      return;
    }
    if (op.getRotary()) {
      yielded->front() = rotate(yielded->front(), at.front(), column);
    }
    for (size_t r = 0; r < results.size(); ++r) {
      storeVector(b, (*yielded)[r], results[r], at);
    }
  };
  emitLoop(b, from, to, index(1), [&](Value i) {
    if (!domain.getAxis()) { // invalid rows have no readers
      emitRow(i);
      return;
    }
    Value valid = emitAnyValid(b, domain, lengths, validRows, addIndex(b, first, i), index(1));
    emitIf(b, valid, [&] { emitRow(i); });
  });
}

/// Accepts f32 and bf16, the identity map, and the accesses that the op's description lists.
static LogicalResult check(dispatch::ContractOp op) {
  using dispatch::AccessKind;
  size_t schedules = op.getDomain().getScheduled() ? 1 : 0;
  auto operands = llvm::to_vector(llvm::drop_end(op->getOperandTypes(), schedules));
  operands.erase(&operands[1]); // the verifier accepts more types of a weight
  for (Type type : llvm::concat<const Type>(operands, llvm::to_vector(op->getResultTypes()))) {
    if (!dispatch::isStorageType(cast<RankedTensorType>(type).getElementType())) {
      return op.emitOpError("expected tensors of f32 or bf16, found ") << type;
    }
  }
  for (Attribute attribute : op.getAccesses()) {
    auto access = cast<dispatch::AccessAttr>(attribute);
    bool fits = access.isIdentity() || access.getKind() == AccessKind::Vector ||
                access.getKind() == AccessKind::Scalar;
    bool isTable = op.getRotary() && access.getKind() == AccessKind::Table;
    if (!fits && !isTable) {
      return op.emitOpError("expected extra operands with access row (identity map), vector or "
                            "scalar, found ")
             << attribute;
    }
  }
  for (Attribute attribute : op.getResultAccesses()) {
    auto access = cast<dispatch::AccessAttr>(attribute);
    if (!access.isIdentity()) {
      return op.emitOpError("expected results with access row (identity map), found ") << attribute;
    }
  }
  return success();
}

FailureOr<Kernel> cpu::generateContract(dispatch::ContractOp op, ModuleOp module, StringRef name,
                                        const Target &target) {
  if (failed(check(op))) {
    return failure();
  }
  if (op.getDomain().getScheduled()) {
    return generateSkinnyContract(op, module, name, target);
  }
  ArrayRef<int64_t> weight = cast<RankedTensorType>(op.getWeight().getType()).getShape();
  int64_t inner = weight[op.getByInput() ? 0 : 1], columns = weight[op.getByInput() ? 1 : 0];
  int64_t rows = op.getDomain().getLaunchRows();
  auto isHalf = [](Value tensor) { return getElementTypeOrSelf(tensor.getType()).isBF16(); };
  bool pairs = target.bf16Dots && isHalf(op.getInput()) && isHalf(op.getWeight()) && inner % 2 == 0;
  ContractSchedule schedule(target, rows, inner, columns, pairs);
  ContractEmitter emitter(op, module, name, target, schedule);
  if (failed(emitter.emit())) {
    return failure();
  }
  auto bytesEach = [](Type type) {
    return cast<RankedTensorType>(type).getElementTypeBitWidth() / 8;
  };
  double bytes =
      (double(rows) * inner + double(inner) * columns) * bytesEach(op.getWeight().getType());
  for (Type type : llvm::concat<const Type>(llvm::to_vector(op.getExtras().getTypes()),
                                            llvm::to_vector(op->getResultTypes()))) {
    auto shaped = cast<RankedTensorType>(type);
    double elements = shaped.getRank() == 3 ? double(rows) * columns : shaped.getNumElements();
    bytes += elements * bytesEach(type);
  }
  return Kernel{emitter.function(),           schedule.items(),
                emitter.scratchBytes(),       "matmul",
                2.0 * rows * inner * columns, bytes};
}
