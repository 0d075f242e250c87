// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward: dQ.
#include "AttentionBackward.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

/// dQ of 64 queries.
class QueryStage : BackwardStage {
public:
  QueryStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module, StringRef name);
  Stage generate();

private:
  Values emitTile(Value number, Value offset, ValueRange carried);

  const int64_t keys;
  Tile queryTile, gradientTile, keyTile, valueTile;
  Value head, p0;
  Values rows, logSums, deltas; ///< of the thread's queries
  Fixed queries, gradients;
};

} // namespace

QueryStage::QueryStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                       StringRef name)
    : BackwardStage(op, shape, module, name), keys(chooseRows(shape, 1)),
      queryTile{fixedRows, shape.width, 0}, gradientTile{fixedRows, shape.width, queryTile.end()},
      keyTile{keys, shape.width, gradientTile.end()}, valueTile{keys, shape.width, keyTile.end()} {}

Values QueryStage::emitTile(Value number, Value offset, ValueRange carried) {
  Value q0 = e.mul(number, keys), h = e.toInteger(head);
  Values columns = f.columnNumbers(q0, keys);
  auto positions = [&](const Place &at) {
    return std::pair<Value, Value>(rows[at.row()], columns[at.columnOf()]);
  };
  Values raw = f.multiplyRows(queries, 1, keyTile, offset);
  Values probability = probabilities(raw, keys, h, f.classify(p0, fixedRows, q0, keys).full,
                                     positions, [&](const Place &at) { return logSums[at.row()]; });
  if (shape.dropout > 0) {
    probability = f.marked(probability, keys, /*adjacent=*/true, [&](const Place &at) {
      return f.elementNumber(head, rows[at.row()], columns[at.columnOf()]);
    });
  }
  Values change = f.multiplyRows(gradients, 1, valueTile, offset);
  Values gradient = scoreGradients(raw, probability, change, keys, h, positions,
                                   [&](const Place &at) { return deltas[at.row()]; });
  return f.multiplyWeights(gradient, 1, keyTile, e.add(offset, e.mul(f.part, 2)), shape.partWidth,
                           Values(carried));
}

Stage QueryStage::generate() {
  int64_t tiles = llvm::divideCeil(shape.positions, fixedRows);
  auto [headOf, fromEnd] = f.place(shape.heads, tiles);
  head = headOf;
  p0 = e.mul(e.sub(e.index(tiles - 1), fromEnd), fixedRows);
  Value keyHead = e.floorDiv(head, shape.group);
  Source query = source(Query, head, shape.queryColumn, true),
         gradient = source(OutputGradient, head, 0, false),
         key = source(Key, keyHead, shape.keyColumn, true),
         value = source(ValueRows, keyHead, shape.valueColumn, false);
  f.load(queryTile, nullptr, query, p0);
  f.load(gradientTile, nullptr, gradient, p0);
  f.core.commit();
  rows = f.rowNumbers(p0, 1);
  for (auto [which, numbers] : {std::pair(0, &logSums), std::pair(1, &deltas)}) {
    for (Value row : rows) {
      Value position = arith::IndexCastOp::create(b, b.getIndexType(), row);
      numbers->push_back(e.loadScalar(statistics(), {statisticsRow(which, head), position}));
    }
  }
  AttentionFrame::Stream stream;
  stream.count = e.index(llvm::divideCeil(shape.positions, keys));
  stream.bytes = valueTile.end() - keyTile.byte;
  stream.some = [&](Value number) {
    return f.classify(p0, fixedRows, e.mul(number, keys), keys).some;
  };
  stream.load = [&](Value number, Value offset) {
    f.load(keyTile, offset, key, e.mul(number, keys));
    f.load(valueTile, offset, value, e.mul(number, keys));
  };
  stream.arrived = [&](Value number, Value offset) {
    f.rotate(keyTile, offset, key, e.mul(number, keys));
  };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(number, offset, carried);
  };
  Values sums = f.stream(stream, [&] {
    f.core.wait(1);
    f.rotate(queryTile, nullptr, query, p0);
    f.core.barrier();
    queries = f.keep(queryTile, 1, widestKept);
    gradients = f.keep(gradientTile, 1, widestKept);
    return f.core.zeros(shape.partWidth / 2);
  });
  f.store(sums, scale(shape.gradientFactor.value_or(1)), result(head, shape.queryColumn, true), p0,
          1, /*zeros=*/true);
  return finish(shape.batch * shape.heads * tiles * shape.parts, keyTile.byte + 2 * stream.bytes);
}

Stage attention::makeQueryStage(dispatch::AttentionBackwardOp op, const Shape &shape,
                                ModuleOp module, StringRef name) {
  return QueryStage(op, shape, module, name).generate();
}
