// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward: dK and dV.
#include "Backward.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

/// Computes dK and dV of 64 keys.
class KeyStage : StreamedQueries {
public:
  KeyStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape, ModuleOp module,
           StringRef name);
  KernelStage generate();

private:
  void load(Value number, Value offset);
  Values emitTile(Value number, Value offset, ValueRange carried);
  std::pair<Value, Value> locate(Value number); ///< query head and first query

  Tile keyTile, valueTile, queryTile, gradientTile, positionTile, bandTile;
  int64_t biasByte, bytes; ///< `bytes`: size of a streamed buffer
  std::optional<Band> band;
  Value keyHead, q0;
  Values rows; ///< i32: keys of the thread
  Fixed keys, values;
};

} // namespace

KeyStage::KeyStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape, ModuleOp module,
                   StringRef name)
    : StreamedQueries(op, shape, module, name, chooseRows(shape, 2)),
      keyTile{fixedRows, shape.width, 0}, valueTile{fixedRows, shape.width, keyTile.end()},
      queryTile{queries, shape.width, valueTile.end()},
      gradientTile{queries, shape.width, queryTile.end()} {
  numbersByte = gradientTile.end();
  positionTile = {shape.hasRows ? queries : 0, shape.width, numbersByte + numberBytes()};
  bandTile = {shape.hasRows ? fixedRows + queries : 0, shape.width, positionTile.end()};
  biasByte = bandTile.end();
  if (shape.hasTerms()) {
    band.emplace(f, queries, Band::Slope::StreamedMinusFixed);
  }
  bytes = biasByte + (shape.biasRows > 0 ? band->biasBytes() : 0) - queryTile.byte;
}

std::pair<Value, Value> KeyStage::locate(Value number) {
  auto [member, tile] = f.split(number, queryTiles);
  return {e.add(e.mul(keyHead, shape.group), member), f.getFirstRow(tile, queries, f.queries.step)};
}

void KeyStage::load(Value number, Value offset) {
  auto [head, p0] = locate(number);
  loadTile(f, queryTile, offset, source(Query, head, shape.queryColumn), p0);
  loadTile(f, gradientTile, offset, source(OutputGradient, head, 0), p0);
  loadStatistics(offset, head, p0);
  if (shape.hasRows) {
    loadTile(f, positionTile, offset, sourceOfTerm(f, 0, head), p0);
    loadTile(f, bandTile, offset, sourceOfTerm(f, 1, head), band->firstDistance(p0, q0));
  }
  if (shape.biasRows > 0) {
    band->loadBiases(biasByte, offset, biasTable(), head, band->firstDistance(p0, q0));
  }
}

Values KeyStage::emitTile(Value number, Value offset, ValueRange carried) {
  auto [headIndex, p0] = locate(number);
  Value head = e.toInteger(headIndex), partOffset = e.add(offset, e.mul(f.part, 2));
  Values columns = computeColumnNumbers(f, p0, queries, f.queries.step);
  Values logSums = readStatistics(0, offset);
  auto positions = [&](const ElementPlace &at) {
    return std::pair<Value, Value>(columns[at.getFirstColumn()], rows[at.row()]);
  };
  Values raw = multiplyByRows(f, keys, 1, queryTile, offset), byDistance;
  if (shape.hasRows) {
    byDistance = band->multiplyStreamed(bandTile, positionTile, offset);
  }
  Products products = computeProducts(f, raw, byDistance);
  auto bias = [&](const ElementPlace &at) { return band->bias(biasByte, offset, at); };
  // Sums of invalid keys only affect their own rows, which are replaced by zeros at the end.
  Values probability = probabilities(
      products, queries, head, classifyTile(f, p0, queries, q0, fixedRows).full, anyExtreme(offset),
      /*bounded=*/false, positions,
      [&](const ElementPlace &at) { return logSums[at.getFirstColumn()]; }, bias);
  Values dropped = probability;
  if (shape.dropout > 0) {
    probability = markDropped(
        f, probability, queries, KeyDimension::Rows, [&, h = headIndex](const ElementPlace &at) {
          return computeElementNumber(f, h, columns[at.getFirstColumn()], rows[at.row()]);
        });
    dropped = clearDropped(f, probability);
  }
  size_t half = carried.size() / 2;
  Values valueSums = accumulateProduct(f, dropped, 1, gradientTile, partOffset, shape.partWidth,
                                       Values(carried.drop_front(half)));
  Values change = multiplyByRows(f, values, 1, gradientTile, offset);
  Values deltas = readStatistics(1, offset);
  Values gradient = scoreGradients(
                        products, probability, change, queries, head, positions,
                        [&](const ElementPlace &at) { return deltas[at.getFirstColumn()]; }, bias)
                        .scores;
  Values sums = accumulateProduct(f, gradient, 1, queryTile, partOffset, shape.partWidth,
                                  Values(carried.take_front(half)));
  sums.append(valueSums);
  return sums;
}

KernelStage KeyStage::generate() {
  int64_t tiles = shape.keyTiles(fixedRows);
  auto [head, tile] = f.place(shape.kvHeads, tiles);
  keyHead = head;
  q0 = f.getFirstRow(tile, fixedRows, f.keys.step);
  Source key = source(Key, keyHead, shape.keyColumn),
         value = source(ValueRows, keyHead, shape.valueColumn);
  loadTile(f, keyTile, nullptr, key, q0);
  loadTile(f, valueTile, nullptr, value, q0);
  f.core.commit();
  rows = computeRowNumbers(f, q0, 1, f.keys.step);
  TileStream stream;
  stream.count = e.index(shape.group * queryTiles);
  stream.bytes = bytes;
  stream.buffers = getBuffers(shape);
  stream.some = [&](Value number) {
    return classifyTile(f, locate(number).second, queries, q0, fixedRows).some;
  };
  stream.load = [&](Value number, Value offset) { load(number, offset); };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(number, offset, carried);
  };
  int64_t count = shape.partWidth / 2;
  Values sums = streamTiles(f, stream, [&] {
    f.core.wait(1);
    f.core.barrier();
    keys = keepFixed(f, keyTile, 1, widestKept);
    values = keepFixed(f, valueTile, 1, widestKept);
    return f.core.zeros(2 * count);
  });
  Values keyScale = scale(shape.gradientFactor.value_or(1)),
         valueScale = scale(1 / (1 - shape.dropout));
  Padding padding = shape.boundsKeys ? Padding::Summed : Padding::Zeros;
  storeRows(f, Values(ArrayRef<Value>(sums).take_front(count)), keyScale,
            getOperandGradient(Key, keyHead, shape.keyColumn), q0, 1, padding);
  storeRows(f, Values(ArrayRef<Value>(sums).drop_front(count)), valueScale,
            getOperandGradient(ValueRows, keyHead, shape.valueColumn), q0, 1, padding);
  return finish(shape.batch * shape.kvHeads * tiles * shape.parts,
                queryTile.byte + stream.buffers * bytes);
}

KernelStage attention::makeKeyStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                                    ModuleOp module, StringRef name) {
  return KeyStage(op, shape, module, name).generate();
}
