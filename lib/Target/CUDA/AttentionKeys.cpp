// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward: dK and dV.
#include "AttentionBackward.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

/// dK and dV of 64 keys.
class KeyStage : BackwardStage {
public:
  KeyStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module, StringRef name);
  Stage generate();

private:
  void load(Value number, Value offset);
  Values emitTile(Value number, Value offset, ValueRange carried);
  std::pair<Value, Value> locate(Value number); ///< query head and first query
  Values readStatistics(int64_t which, Value offset);
  Value anyExtreme(Value offset);

  const int64_t queries, queryTiles;
  Tile keyTile, valueTile, queryTile, gradientTile;
  int64_t numbersByte, bytes;
  Value keyHead, q0;
  Values rows; ///< i32: the thread's keys
  Fixed keys, values;
};

} // namespace

KeyStage::KeyStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                   StringRef name)
    : BackwardStage(op, shape, module, name), queries(chooseRows(shape, 2)),
      queryTiles(llvm::divideCeil(shape.queries, queries)), keyTile{fixedRows, shape.width, 0},
      valueTile{fixedRows, shape.width, keyTile.end()},
      queryTile{queries, shape.width, valueTile.end()},
      gradientTile{queries, shape.width, queryTile.end()}, numbersByte(gradientTile.end()),
      bytes(numbersByte - queryTile.byte + 2 * queries * 4) {}

std::pair<Value, Value> KeyStage::locate(Value number) {
  auto [member, tile] = f.split(number, queryTiles);
  return {e.add(e.mul(keyHead, shape.group), member), e.mul(tile, queries)};
}

void KeyStage::load(Value number, Value offset) {
  auto [head, p0] = locate(number);
  f.load(queryTile, offset, source(Query, head, shape.queryColumn), p0);
  f.load(gradientTile, offset, source(OutputGradient, head, 0), p0);
  // The queries' numbers: log-sum-exps by the first threads, deltas by the next.
  int64_t chunks = queries * 4 / chunkBytes;
  e.when(e.less(f.thread, e.index(2 * chunks)), [&, head = head, p0 = p0] {
    auto [which, chunk] = f.split(f.thread, chunks);
    Value row = e.add(statisticsRow(0, head), e.mul(which, shape.batch * shape.heads));
    Value from = f.core.global(statistics(), {row, e.add(p0, e.mul(chunk, 4))});
    f.core.copy(f.core.shared(e.add(offset, e.mul(f.thread, chunkBytes)), numbersByte), from);
  });
}

/// Of the thread's columns, two by two.
Values KeyStage::readStatistics(int64_t which, Value offset) {
  Value at = e.add(offset, e.mul(f.quad, 8));
  Values numbers;
  for (int64_t i = 0; i < queries; i += fragmentColumns) {
    Value two = f.core.load(VectorType::get({2}, b.getF32Type()),
                            f.core.shared(at, numbersByte + (which * queries + i) * 4), 8);
    for (int64_t j : {0, 1}) {
      numbers.push_back(vector::ExtractOp::create(b, two, ArrayRef<int64_t>{j}));
    }
  }
  return numbers;
}

/// i1, the same in a warp: whether one of the tile's log-sum-exps is extreme. Each lane looks at
/// two of 64.
Value KeyStage::anyExtreme(Value offset) {
  Value lane = f.frame.lane, extreme;
  if (queries < threadsPerWarp) {
    lane = f.split(lane, queries).second;
  }
  Value at = e.add(offset, e.mul(lane, 4));
  for (int64_t i = 0; i < queries; i += threadsPerWarp) {
    Value is = isExtreme(f.core.load(b.getF32Type(), f.core.shared(at, numbersByte + i * 4), 4));
    extreme = extreme ? Value(arith::OrIOp::create(b, extreme, is)) : is;
  }
  return NVVM::VoteSyncOp::create(b, b.getI1Type(), e.integer(-1), extreme,
                                  NVVM::VoteSyncKind::any);
}

Values KeyStage::emitTile(Value number, Value offset, ValueRange carried) {
  auto [headIndex, p0] = locate(number);
  Value head = e.toInteger(headIndex), partOffset = e.add(offset, e.mul(f.part, 2));
  Values columns = f.columnNumbers(p0, queries);
  Values logSums = readStatistics(0, offset);
  auto positions = [&](const Place &at) {
    return std::pair<Value, Value>(columns[at.columnOf()], rows[at.row()]);
  };
  Values raw = f.multiplyRows(keys, 1, queryTile, offset);
  // Sums of keys that are not valid are their own rows': zeros replace them in the end.
  Values probability = probabilities(
      raw, queries, head, f.classify(p0, queries, q0, fixedRows).full, anyExtreme(offset),
      /*bounded=*/false, positions, [&](const Place &at) { return logSums[at.columnOf()]; });
  Values dropped = probability;
  if (shape.dropout > 0) {
    probability =
        f.marked(probability, queries, /*adjacent=*/false, [&, h = headIndex](const Place &at) {
          return f.elementNumber(h, columns[at.columnOf()], rows[at.row()]);
        });
    dropped = f.positive(probability);
  }
  size_t half = carried.size() / 2;
  Values valueSums = f.multiplyWeights(dropped, 1, gradientTile, partOffset, shape.partWidth,
                                       Values(carried.drop_front(half)));
  Values change = f.multiplyRows(values, 1, gradientTile, offset);
  Values deltas = readStatistics(1, offset);
  Values gradient = scoreGradients(raw, probability, change, queries, head, positions,
                                   [&](const Place &at) { return deltas[at.columnOf()]; });
  Values sums = f.multiplyWeights(gradient, 1, queryTile, partOffset, shape.partWidth,
                                  Values(carried.take_front(half)));
  sums.append(valueSums);
  return sums;
}

Stage KeyStage::generate() {
  int64_t tiles = llvm::divideCeil(shape.keys, fixedRows);
  auto [head, tile] = f.place(shape.kvHeads, tiles);
  keyHead = head;
  q0 = e.mul(tile, fixedRows);
  Source key = source(Key, keyHead, shape.keyColumn),
         value = source(ValueRows, keyHead, shape.valueColumn);
  f.load(keyTile, nullptr, key, q0);
  f.load(valueTile, nullptr, value, q0);
  f.core.commit();
  rows = f.rowNumbers(q0, 1);
  AttentionFrame::Stream stream;
  stream.count = e.index(shape.group * queryTiles);
  stream.bytes = bytes;
  stream.some = [&](Value number) {
    return f.classify(locate(number).second, queries, q0, fixedRows).some;
  };
  stream.load = [&](Value number, Value offset) { load(number, offset); };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(number, offset, carried);
  };
  int64_t count = shape.partWidth / 2;
  Values sums = f.stream(stream, [&] {
    f.core.wait(1);
    f.core.barrier();
    keys = f.keep(keyTile, 1, widestKept);
    values = f.keep(valueTile, 1, widestKept);
    return f.core.zeros(2 * count);
  });
  Values keyScale = scale(shape.gradientFactor.value_or(1)),
         valueScale = scale(1 / (1 - shape.dropout));
  Padding padding = shape.boundsKeys ? Padding::Summed : Padding::Zeros;
  f.store(Values(ArrayRef<Value>(sums).take_front(count)), keyScale,
          gradientOf(Key, keyHead, shape.keyColumn), q0, 1, padding);
  f.store(Values(ArrayRef<Value>(sums).drop_front(count)), valueScale,
          gradientOf(ValueRows, keyHead, shape.valueColumn), q0, 1, padding);
  return finish(shape.batch * shape.kvHeads * tiles * shape.parts, queryTile.byte + 2 * bytes);
}

Stage attention::makeKeyStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                              StringRef name) {
  return KeyStage(op, shape, module, name).generate();
}
