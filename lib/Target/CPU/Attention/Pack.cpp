// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between rows of tensors and block layouts: packing, transposition, and unpacking of
// gradients with the inverse rotation.
#include "../Contract/Epilogue.h"
#include "Attention.h"

using namespace mlir;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

void attention::emitPack(Emitter &e, const AttentionShape &shape, Value source,
                         const RowRange &range, Value column, Value packed) {
  Value last = e.add(range.limit, -1);
  e.loop(e.index(0), range.count, 1, [&](Value i) {
    Value position = e.min(e.add(range.first, i), last);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      int64_t lane0 = j * e.lanes;
      int64_t valid = shape.head - lane0;
      Value value = e.load(source, {e.add(range.base, position), e.add(column, lane0)}, valid);
      e.store(value, packed, {i, e.index(lane0)});
    }
  });
}

void attention::emitTransposeBlock(Emitter &e, const AttentionShape &shape, Value packed,
                                   Value first, Value transposed, Value row0) {
  e.loop(e.index(0), e.index(shape.queryBlock), e.lanes, [&](Value p) {
    for (int64_t c = 0; c < shape.head; c += e.lanes) {
      Values square;
      for (int64_t i = 0; i < e.lanes; ++i) {
        square.push_back(e.load(packed, {e.add(first, e.add(p, i)), e.index(c)}));
      }
      e.transpose(square);
      for (int64_t i = 0; i < std::min(e.lanes, shape.head - c); ++i) {
        e.store(square[i], transposed, {e.add(row0, c + i), p});
      }
    }
  });
}

void attention::emitTransposeBack(Emitter &e, const AttentionShape &shape, Value transposed,
                                  Value row0, Value scale, Value packed) {
  e.loop(e.index(0), e.index(shape.queryBlock), e.lanes, [&](Value p) {
    Value factor = scale ? e.load(scale, {p}) : Value();
    for (int64_t c = 0; c < shape.head; c += e.lanes) {
      Values square;
      for (int64_t i = 0; i < e.lanes; ++i) {
        // Columns after the head read an arbitrary row; their results are unused.
        int64_t row = std::min(c + i, shape.head - 1);
        Value value = e.load(transposed, {e.add(row0, row), p});
        square.push_back(factor ? e.mulf(value, factor) : value);
      }
      e.transpose(square);
      for (int64_t i = 0; i < e.lanes; ++i) {
        e.store(square[i], packed, {e.add(p, i), e.index(c)});
      }
    }
  });
}

void attention::emitUnpack(Emitter &e, const AttentionShape &shape, Value packed, Value from,
                           Value first, Value count, Value rotary, Value target, Value base,
                           Value column) {
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value position = e.add(first, i);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      int64_t lane0 = j * e.lanes;
      int64_t valid = shape.head - lane0;
      Value value = e.load(packed, {e.add(from, i), e.index(lane0)});
      if (rotary) {
        Value angles = e.load(rotary, {position, e.index(lane0)}, valid);
        value = emitRotation(e.b, value, angles, /*back=*/true);
      }
      e.store(value, target, {e.add(base, position), e.add(column, lane0)}, valid);
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
