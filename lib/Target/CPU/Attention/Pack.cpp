// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between rows of tensors and block layouts: packing, transposition, and unpacking of
// gradients with the inverse rotation.
#include "../../Common/Storage.h"
#include "../Contract/Epilogue.h"
#include "../Contract/Tile.h"
#include "Attention.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

void attention::emitPrefetchRow(Emitter &e, const AttentionShape &shape, Value memory, Value row,
                                Value column) {
  constexpr int64_t rowsAhead = 16;
  Value last = e.index(cast<MemRefType>(memory.getType()).getDimSize(0) - 1);
  Value later = e.min(e.add(row, rowsAhead), last);
  for (int64_t c = 0; c < shape.head; c += lineElements(memory)) {
    emitPrefetch(e.b, memory, {later, e.add(column, c)}, CacheLevel::L1);
  }
}

void attention::emitPack(Emitter &e, const AttentionShape &shape, Value source,
                         const RowRange &range, Value column, Value packed) {
  Value last = e.add(range.limit, -1);
  e.loop(e.index(0), range.count, 1, [&](Value i) {
    Value position = e.min(e.add(range.first, i), last);
    Value row = e.add(range.base, position);
    emitPrefetchRow(e, shape, source, row, column);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      int64_t lane0 = j * e.lanes;
      int64_t valid = shape.head - lane0;
      Value value = e.load(source, {row, e.add(column, lane0)}, valid);
      e.store(value, packed, {i, e.index(lane0)});
    }
  });
}

/// Loads the bits of `count` elements, of which the first `valid` exist and the rest are zeros.
static Value loadFirst(Emitter &e, int64_t count, Value source, ValueRange at, int64_t valid) {
  if (valid >= count) {
    return loadBits(e.b, count, source, at);
  }
  auto type = VectorType::get({count}, e.b.getI1Type());
  return loadBits(e.b, count, source, at,
                  vector::ConstantMaskOp::create(e.b, type, ArrayRef{valid}));
}

void attention::emitPackPairs(Emitter &e, const AttentionShape &shape, Value source,
                              const RowRange &range, Value column, Value packed) {
  Value last = e.add(range.limit, -1);
  e.loop(e.index(0), range.count, 1, [&](Value i) {
    Value row = e.add(range.base, e.min(e.add(range.first, i), last));
    emitPrefetchRow(e, shape, source, row, column);
    for (int64_t pair = 0; pair < shape.pairColumns; pair += e.lanes) {
      Value bits =
          loadFirst(e, 2 * e.lanes, source, {row, e.add(column, 2 * pair)}, shape.head - 2 * pair);
      Value pairs = vector::BitCastOp::create(e.b, e.integers, bits);
      vector::StoreOp::create(e.b, pairs, packed, ValueRange{i, e.index(pair)});
    }
  });
}

void attention::emitPackRowPairs(Emitter &e, const AttentionShape &shape, Value source,
                                 const RowRange &range, Value column, Value packed) {
  Value last = e.add(range.limit, -1);
  e.loop(e.index(0), range.count, 2, [&](Value i) {
    Value position = e.add(range.first, i);
    Value low = e.add(range.base, e.min(position, last));
    Value high = e.add(range.base, e.min(e.add(position, 1), last));
    emitPrefetchRow(e, shape, source, low, column);
    emitPrefetchRow(e, shape, source, high, column);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      int64_t lane0 = j * e.lanes;
      auto load = [&](Value row) {
        return loadFirst(e, e.lanes, source, {row, e.add(column, lane0)}, shape.head - lane0);
      };
      vector::StoreOp::create(e.b, emitPairs(e.b, load(low), load(high)), packed,
                              ValueRange{e.floorDiv(i, 2), e.index(lane0)});
    }
  });
}

void attention::emitPackTransposedPairs(Emitter &e, const AttentionShape &shape, Value source,
                                        const RowRange &range, Value column, Value packed) {
  Value last = e.add(range.limit, -1);
  e.loop(e.index(0), range.count, tileDepth, [&](Value i) {
    Values rows;
    for (int64_t r = 0; r < tileDepth; ++r) {
      rows.push_back(e.add(range.base, e.min(e.add(e.add(range.first, i), r), last)));
      emitPrefetchRow(e, shape, source, rows.back(), column);
    }
    Value block = e.floorDiv(i, shape.keyBlock);
    Value pair = e.floorDiv(e.sub(i, e.mul(block, shape.keyBlock)), 2);
    for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
      auto load = [&](Value row) {
        return loadFirst(e, e.lanes, source, {row, e.add(column, lane0)}, shape.head - lane0);
      };
      Values square;
      for (int64_t r = 0; r < tileDepth; r += 2) {
        square.push_back(emitPairs(e.b, load(rows[r]), load(rows[r + 1])));
      }
      Value row0 = e.add(e.mul(block, shape.headWidth), lane0);
      for (auto [c, line] : llvm::enumerate(emitTranspose(e.b, square))) {
        e.store(line, packed, {e.add(row0, int64_t(c)), pair});
      }
    }
  });
}

/// Returns the bits of a vector of f32 rounded to bf16; subnormal numbers become zeros.
static Value roundToBits(Emitter &e, Value numbers) {
  auto type = VectorType::get({e.lanes}, e.b.getBF16Type());
  Value rounded =
      LLVM::CallIntrinsicOp::create(
          e.b, type, e.b.getStringAttr("llvm.x86.avx512bf16.cvtneps2bf16.512"), ValueRange{numbers})
          .getResult(0);
  return vector::BitCastOp::create(e.b, type.clone(e.b.getI16Type()), rounded);
}

void attention::emitRoundBlock(Emitter &e, const AttentionShape &shape, Value block, Value valid,
                               Value rowPairs, Value columnPairs) {
  auto half = VectorType::get({e.lanes / 2}, e.b.getI32Type());
  e.loop(e.index(0), valid, 2, [&](Value q) {
    Value next = e.add(q, 1);
    Value exists = e.less(next, valid);
    for (int64_t j = 0; j < shape.queryVectors; ++j) {
      Value column = e.index(j * e.lanes);
      Value low = roundToBits(e, e.load(block, {q, column}));
      Value high = roundToBits(e, e.load(block, {next, column}));
      if (columnPairs) {
        for (auto [row, bits] : {std::pair{q, low}, {next, high}}) {
          vector::StoreOp::create(e.b, vector::BitCastOp::create(e.b, half, bits), columnPairs,
                                  ValueRange{row, e.index(j * e.lanes / 2)});
        }
      }
      if (rowPairs) {
        Value zeros = arith::ConstantOp::create(e.b, e.b.getZeroAttr(high.getType()));
        vector::StoreOp::create(e.b, emitPairs(e.b, low, e.select(exists, high, zeros)), rowPairs,
                                ValueRange{e.floorDiv(q, 2), column});
      }
    }
  });
  if (rowPairs && shape.tiles) {
    Value zeros = arith::ConstantOp::create(e.b, e.b.getZeroAttr(e.integers));
    Value pairs = e.floorDiv(e.add(valid, 1), 2);
    e.loop(pairs, e.roundUp(pairs, tileSide), 1, [&](Value pair) {
      for (int64_t j = 0; j < shape.queryVectors; ++j) {
        vector::StoreOp::create(e.b, zeros, rowPairs, ValueRange{pair, e.index(j * e.lanes)});
      }
    });
  }
}

void attention::emitTransposeBlock(Emitter &e, const AttentionShape &shape, Value packed,
                                   Value first, Value transposed, Value row0) {
  int64_t depth = shape.getDepth(shape.head), rest = depth % 4;
  e.loop(e.index(0), e.index(shape.queryBlock), e.lanes, [&](Value p) {
    auto emitColumns = [&](Value c, int64_t count) {
      auto place = [&](int64_t i) { return Values{e.add(first, e.add(p, i)), c}; };
      Values columns = loadTransposed(e.b, e.lanes, packed, place);
      for (int64_t i = 0; i < count; ++i) {
        e.store(columns[i], transposed, {e.add(row0, e.add(c, i)), p});
      }
    };
    e.loop(e.index(0), e.index(depth - rest), 4, [&](Value c) { emitColumns(c, 4); });
    if (rest != 0) {
      emitColumns(e.index(depth - rest), rest);
    }
  });
}

void attention::emitTransposeBack(Emitter &e, const AttentionShape &shape, Value transposed,
                                  Value row0, Value scale, Value packed) {
  int64_t rest = shape.head % e.lanes, whole = shape.head - rest;
  e.loop(e.index(0), e.index(shape.queryBlock), 4, [&](Value p) {
    auto emitRows = [&](Value c, int64_t count) {
      // Columns after the head repeat the last one; their results are unused.
      auto place = [&](int64_t i) {
        return Values{e.add(row0, e.add(c, std::min(i, count - 1))), p};
      };
      for (auto [i, row] : llvm::enumerate(loadTransposed(e.b, e.lanes, transposed, place))) {
        Value at = e.add(p, int64_t(i));
        Value scaled = scale ? e.mulf(row, e.broadcast(e.loadScalar(scale, {at}))) : row;
        e.store(scaled, packed, {at, c});
      }
    };
    e.loop(e.index(0), e.index(whole), e.lanes, [&](Value c) { emitRows(c, e.lanes); });
    if (rest != 0) {
      emitRows(e.index(whole), rest);
    }
  });
}

void attention::emitUnpack(Emitter &e, const AttentionShape &shape, Value packed, Value from,
                           Value first, Value count, Value rotary, Value target, Value base,
                           Value column) {
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value position = e.add(first, i);
    Value row = e.add(base, position);
    emitPrefetchRow(e, shape, target, row, column);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      int64_t lane0 = j * e.lanes;
      int64_t valid = shape.head - lane0;
      Value value = e.load(packed, {e.add(from, i), e.index(lane0)});
      if (rotary) {
        Value angles = e.load(rotary, {position, e.index(lane0)}, valid);
        value = emitRotation(e.b, value, angles, /*back=*/true);
      }
      e.store(value, target, {row, e.add(column, lane0)}, valid);
    }
  });
}

void attention::emitZeroRows(Emitter &e, const AttentionShape &shape, Value target, Value base,
                             Value from, Value to, Value column) {
  e.loop(from, to, 1, [&](Value p) {
    for (int64_t lane0 = 0; lane0 < shape.head; lane0 += e.lanes) {
      e.store(e.splat(0), target, {e.add(base, p), e.add(column, lane0)}, shape.head - lane0);
    }
  });
}

void attention::emitFill(Emitter &e, Value memory, float value) {
  auto type = cast<MemRefType>(memory.getType());
  Value filler = e.splat(value);
  e.loop(e.index(0), e.index(type.getDimSize(0)), 1, [&](Value row) {
    for (int64_t column = 0; column < type.getDimSize(1); column += e.lanes) {
      e.store(filler, memory, {row, e.index(column)});
    }
  });
}
