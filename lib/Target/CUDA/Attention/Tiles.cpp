// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of attention: loads of bf16 rows into shared memory, and from there into registers and
// products.
#include "Tiles.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

/// Order of the matrices of a load. Rows: the order of the left factor. Columns and Transposed: b0,
/// b1 of 8 columns of the right factor, then of the next 8; these columns are the streamed rows or,
/// transposed, the columns of the streamed rows.
enum class MatrixOrder { Rows, Columns, Transposed };

} // namespace

// Consecutive threads take consecutive chunks: whole sectors of memory, and different banks.
static void forEachChunk(AttentionFrame &f, const Tile &tile, const Source &source,
                         llvm::function_ref<void(Value, Value)> body) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  int64_t total = tile.rows * tile.chunks();
  if (!source.aligned) {
    auto loop = scf::ForOp::create(b, f.thread, e.index(total), e.index(threadsPerBlock));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    auto [line, chunk] = f.split(loop.getInductionVar(), tile.chunks());
    body(line, chunk);
    return;
  }
  auto [line, chunk] = f.split(f.thread, tile.chunks());
  for (int64_t first = 0; first < total; first += threadsPerBlock) {
    Value number = e.add(f.thread, first), ofLine = e.add(line, first / tile.chunks()),
          ofChunk = chunk;
    if (threadsPerBlock % tile.chunks() != 0) {
      std::tie(ofLine, ofChunk) = f.split(number, tile.chunks());
    }
    if (first + threadsPerBlock <= total) {
      body(ofLine, ofChunk);
    } else {
      e.when(e.less(number, e.index(total)), [&] { body(ofLine, ofChunk); });
    }
  }
}

static Value computeChunkAddress(AttentionFrame &f, const Tile &tile, Value offset, Value line,
                                 Value chunk) {
  Emitter &e = f.e;
  TensorCore &core = f.core;
  Value byte = tile.swizzled() ? core.swizzled(line, chunk, tile.lineBytes())
                               : e.add(e.mul(line, tile.lineBytes()), e.mul(chunk, chunkBytes));
  return core.shared(offset ? e.add(offset, byte) : byte, tile.byte);
}

/// Loads an unaligned chunk element by element, for heads whose size is not a multiple of 8.
static void loadChunkElements(AttentionFrame &f, const Source &source, Value to, Value position,
                              Value chunk) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  Type word = b.getI32Type();
  Value existing = f.existingRow(source.rows, position);
  existing = source.before ? e.max(existing, e.index(0)) : existing;
  Value row = e.add(source.rows.base, existing);
  Value last = e.add(source.columns, -1), isValid = e.less(position, source.rows.length),
        none = e.integer(0);
  isValid = source.before ? e.both(isValid, e.atLeast(position, e.index(0))) : isValid;
  Values words;
  for (int64_t i = 0; i < chunkElements; ++i) {
    Value column = e.add(e.mul(chunk, chunkElements), i);
    Value element = e.loadScalar(source.memory, {row, e.add(source.column, e.min(column, last))});
    Value bits =
        arith::ExtUIOp::create(b, word, arith::BitcastOp::create(b, b.getI16Type(), element));
    bits = e.select(e.both(isValid, e.less(column, source.columns)), bits, none);
    if (i % 2 == 0) {
      words.push_back(bits);
    } else {
      Value high = arith::ShLIOp::create(b, bits, e.integer(16));
      words.back() = arith::OrIOp::create(b, words.back(), high);
    }
  }
  Value all = vector::FromElementsOp::create(b, VectorType::get({4}, word), words);
  f.core.store(all, to, chunkBytes);
}

void attention::loadTile(AttentionFrame &f, const Tile &tile, Value offset, const Source &source,
                         Value first) {
  Emitter &e = f.e;
  TensorCore &core = f.core;
  forEachChunk(f, tile, source, [&](Value line, Value chunk) {
    Value to = computeChunkAddress(f, tile, offset, line, chunk);
    Value position = e.add(first, f.scaled(line, source.rows.step));
    if (source.firstDistance) {
      position = emitDistanceRow(e, e.add(position, -*source.firstDistance), source.rows.length);
    }
    if (source.repeatsLast) {
      position = e.min(position, e.add(source.rows.length, -1));
    }
    if (!source.aligned) {
      loadChunkElements(f, source, to, position, chunk);
      return;
    }
    Value column = e.mul(chunk, chunkElements);
    Value existing = source.before ? e.max(position, e.index(0)) : position;
    Value from = core.global(source.memory,
                             {e.add(source.rows.base, existing), e.add(source.column, column)});
    Value inside = e.both(e.less(position, source.rows.length), e.less(column, source.columns));
    inside = source.before ? e.both(inside, e.atLeast(position, e.index(0))) : inside;
    core.copy(to, from, chunkBytes, e.select(inside, e.index(chunkBytes), e.index(0)));
  });
}

// Loads four matrices from lines [line, line + 16) and columns [column, column + 16).
//
// Lane l provides the address of a line of matrix l / 8. In row order the matrices are the upper
// and the lower lines, then the same of the next columns; in column order the left and the right
// columns of the upper lines, then of the lower lines. The registers of the right factor of one
// product must be consecutive, otherwise they are moved.
static Values loadTileMatrices(AttentionFrame &f, const Tile &tile, Value offset, int64_t line,
                               int64_t column, MatrixOrder order = MatrixOrder::Rows) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  TensorCore &core = f.core;
  auto [half, ofLine] = f.split(f.frame.lane, fragmentRows);
  if (order == MatrixOrder::Columns) {
    auto [matrix, inMatrix] = f.split(f.frame.lane, 8);
    auto [lower, right] = f.split(matrix, 2);
    half = right;
    ofLine = e.add(e.mul(lower, 8), inMatrix);
  }
  int64_t chunk = column / chunkElements;
  Value place;
  if (tile.swizzled()) {
    Value exchanged = arith::XOrIOp::create(b, half, core.exchange(ofLine, tile.lineBytes()));
    place = chunk == 0 ? exchanged : arith::XOrIOp::create(b, exchanged, e.index(chunk));
  } else {
    place = e.add(half, chunk);
  }
  Value byte = e.add(e.mul(ofLine, tile.lineBytes()), e.mul(place, chunkBytes));
  byte = offset ? e.add(offset, byte) : byte;
  return core.loadMatrices(core.shared(byte, tile.byte + line * tile.lineBytes()),
                           order == MatrixOrder::Transposed);
}

Value attention::computeWarpOffset(AttentionFrame &f, const Tile &tile, int64_t fragments) {
  return f.e.mul(f.frame.warp, fragments * fragmentRows * tile.lineBytes());
}

Fixed attention::keepFixed(AttentionFrame &f, const Tile &tile, int64_t fragments, int64_t widest) {
  Fixed fixed{tile, {}};
  for (int64_t k = 0; k < tile.columns && tile.columns <= widest; k += fragmentInner) {
    for (int64_t i = 0; i < fragments; ++i) {
      llvm::append_range(
          fixed.registers,
          loadTileMatrices(f, tile, computeWarpOffset(f, tile, fragments), i * fragmentRows, k));
    }
  }
  return fixed;
}

Values attention::multiplyByRows(AttentionFrame &f, const Fixed &fixed, int64_t fragments,
                                 const Tile &streamed, Value offset) {
  TensorCore &core = f.core;
  int64_t columns = streamed.rows / fragmentColumns;
  Values sums = core.zeros(fragments * columns * sumsPerFragment);
  auto add = [&](ValueRange left, Value first, Value second, int64_t fragment, int64_t column) {
    MutableArrayRef<Value> at = MutableArrayRef<Value>(sums).slice(
        (fragment * columns + column) * sumsPerFragment, sumsPerFragment);
    llvm::copy(core.multiply(left, {first, second}, at), at.begin());
  };
  // If registers are short, both factors use the same addresses, at the cost of moves.
  MatrixOrder order =
      f.shape.heavy && fixed.registers.empty() ? MatrixOrder::Rows : MatrixOrder::Columns;
  for (int64_t k = 0; k < streamed.columns; k += fragmentInner) {
    SmallVector<Values> left;
    for (int64_t i = 0; i < fragments; ++i) {
      size_t kept = size_t(k / fragmentInner * fragments + i) * 4;
      left.push_back(fixed.registers.empty()
                         ? loadTileMatrices(f, fixed.tile,
                                            fixed.offset
                                                ? fixed.offset
                                                : computeWarpOffset(f, fixed.tile, fragments),
                                            i * fragmentRows, k)
                         : Values(ArrayRef<Value>(fixed.registers).slice(kept, 4)));
    }
    for (int64_t row = 0; row < streamed.rows; row += fragmentRows) {
      Values right = loadTileMatrices(f, streamed, offset, row, k, order);
      if (order == MatrixOrder::Rows) {
        std::swap(right[1], right[2]);
      }
      for (int64_t i = 0; i < fragments; ++i) {
        add(left[i], right[0], right[1], i, row / fragmentColumns);
        add(left[i], right[2], right[3], i, row / fragmentColumns + 1);
      }
    }
  }
  return sums;
}

Values attention::accumulateProduct(AttentionFrame &f, const Values &weights, int64_t fragments,
                                    const Tile &streamed, Value offset, int64_t columns,
                                    Values sums) {
  TensorCore &core = f.core;
  int64_t perRow = streamed.rows / fragmentColumns, perSum = columns / fragmentColumns;
  auto packed = [&](int64_t fragment, int64_t row) {
    ArrayRef<Value> from = ArrayRef<Value>(weights).slice(
        (fragment * perRow + row / fragmentColumns) * sumsPerFragment, 2 * sumsPerFragment);
    Values left;
    for (size_t i = 0; i < 2 * sumsPerFragment; i += 2) {
      left.push_back(core.pack(from[i], from[i + 1]));
    }
    return left;
  };
  auto add = [&](ValueRange left, Value first, Value second, int64_t fragment, int64_t column) {
    MutableArrayRef<Value> at = MutableArrayRef<Value>(sums).slice(
        (fragment * perSum + column) * sumsPerFragment, sumsPerFragment);
    llvm::copy(core.multiply(left, {first, second}, at), at.begin());
  };
  for (int64_t row = 0; row < streamed.rows; row += fragmentInner) {
    SmallVector<Values> left;
    for (int64_t i = 0; i < fragments; ++i) {
      left.push_back(packed(i, row));
    }
    for (int64_t column = 0; column < columns; column += fragmentRows) {
      Values right = loadTileMatrices(f, streamed, offset, row, column, MatrixOrder::Transposed);
      for (int64_t i = 0; i < fragments; ++i) {
        add(left[i], right[0], right[1], i, column / fragmentColumns);
        add(left[i], right[2], right[3], i, column / fragmentColumns + 1);
      }
    }
  }
  return sums;
}

// One barrier per tile: after it the tile has arrived for all threads, and no thread reads the
// other buffer any more, so the next tile is copied there while this one is processed. A single
// buffer needs another barrier after its last read, and its copies are not overlapped.
Values attention::streamTiles(AttentionFrame &f, const TileStream &stream,
                              llvm::function_ref<Values()> prepare) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  TensorCore &core = f.core;
  auto from = [&](Value number) -> Value {
    auto loop = scf::WhileOp::create(
        b, TypeRange(b.getIndexType()), ValueRange(number),
        [&](OpBuilder &, Location, ValueRange now) {
          Value more = e.less(now[0], stream.count);
          Value none = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, stream.some(now[0]),
                                             arith::ConstantIntOp::create(b, b.getI1Type(), 0));
          scf::ConditionOp::create(b, e.both(more, none), now);
        },
        [&](OpBuilder &, Location, ValueRange now) {
          scf::YieldOp::create(b, ValueRange(e.add(now[0], 1)));
        });
    return loop.getResult(0);
  };
  auto request = [&](Value number, Value offset) {
    e.when(e.less(number, stream.count), [&] { stream.load(number, offset); });
    core.commit();
  };
  Value first = from(e.index(0));
  request(first, e.index(0));
  Values carried = prepare();
  carried.insert(carried.begin(), {first, e.index(0)});
  auto loop = scf::WhileOp::create(
      b, ValueRange(carried).getTypes(), carried,
      [&](OpBuilder &, Location, ValueRange now) {
        scf::ConditionOp::create(b, e.less(now[0], stream.count), now);
      },
      [&](OpBuilder &, Location, ValueRange now) {
        Value number = now[0], offset = now[1];
        core.wait(0);
        core.barrier();
        bool isSingle = stream.buffers == 1;
        Value next = from(e.add(number, 1));
        Value other = isSingle ? offset : e.sub(e.index(stream.bytes), offset);
        if (!isSingle) {
          request(next, other);
        }
        Values results = stream.body(number, offset, now.drop_front(2));
        if (isSingle) {
          core.barrier();
          request(next, other);
        }
        results.insert(results.begin(), {next, other});
        scf::YieldOp::create(b, results);
      });
  return Values(loop.getResults().drop_front(2));
}
