// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward: dQ, and the two statistics of each query that dK and dV also need.
#include "Backward.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

/// Computes dQ of 64 queries.
class QueryStage : BackwardStage {
public:
  QueryStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape, ModuleOp module,
             StringRef name);
  KernelStage generate();

private:
  Values emitTile(Value number, Value offset, ValueRange carried);
  Value read(unsigned operand, Value row, Value column, int64_t count);
  Value addProducts(Value row, Value column, int64_t count, Value sum);
  Value addColumns(Value row);
  Value addChunks(Value row);
  void formStatistics();
  void loadTerms(Value offset, Value q0);
  Values addShares(const Values &gradients, const Values &columns, Value from, ValueRange before);
  void storeShares(ArrayRef<Value> sums);
  size_t shares() const { return (shape.biasRows > 0 ? 2 : 0) + (shape.hasFarther() ? 2 : 0); }

  const int64_t keys;
  Tile queryTile, gradientTile, positionTile, keyTile, valueTile, bandTile;
  int64_t biasByte;
  std::optional<Band> band;
  Value head, p0;
  Values rows, logSums, deltas; ///< one per query of the thread
  Value extreme;                ///< i1: one of `logSums` is extreme
  Fixed queries, gradients, positionQueries;
};

} // namespace

QueryStage::QueryStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                       ModuleOp module, StringRef name)
    : BackwardStage(op, shape, module, name), keys(chooseRows(shape, shape.hasRows ? 2 : 1)),
      queryTile{fixedRows, shape.width, 0}, gradientTile{fixedRows, shape.width, queryTile.end()},
      positionTile{shape.hasRows ? fixedRows : 0, shape.width, gradientTile.end()},
      keyTile{keys, shape.width, positionTile.end()}, valueTile{keys, shape.width, keyTile.end()},
      bandTile{shape.hasRows ? fixedRows + keys : 0, shape.width, valueTile.end()},
      biasByte(bandTile.end()) {
  if (shape.hasTerms()) {
    band.emplace(f, keys, Band::Slope::FixedMinusStreamed);
  }
}

/// Loads vector<count x f32> from `column` in a row of O or dO.
Value QueryStage::read(unsigned operand, Value row, Value column, int64_t count) {
  Value memory = f.frame.buffer(operand);
  Type element = cast<MemRefType>(memory.getType()).getElementType();
  int64_t bytes = count * element.getIntOrFloatBitWidth() / 8;
  Value numbers = f.core.load(VectorType::get({count}, element),
                              f.core.global(memory, {row, column}), std::min(bytes, chunkBytes));
  auto wide = VectorType::get({count}, b.getF32Type());
  return element.isF32() ? numbers : Value(arith::ExtFOp::create(b, wide, numbers));
}

/// Adds the products of `count` columns of O and dO to `sum`, in order.
Value QueryStage::addProducts(Value row, Value column, int64_t count, Value sum) {
  Value at = e.add(e.mul(head, shape.head), column);
  Value output = read(Output, row, at, count), gradient = read(OutputGradient, row, at, count);
  for (int64_t i = 0; i < count; ++i) {
    sum = e.fma(vector::ExtractOp::create(b, output, ArrayRef<int64_t>{i}),
                vector::ExtractOp::create(b, gradient, ArrayRef<int64_t>{i}), sum);
  }
  return sum;
}

/// Sums dO O over every fourth column; for heads whose chunks are not aligned.
Value QueryStage::addColumns(Value row) {
  auto loop = scf::ForOp::create(b, f.quad, e.index(shape.head), e.index(4), ValueRange(f.f32(0)));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value sum = addProducts(row, loop.getInductionVar(), 1, loop.getRegionIterArg(0));
  scf::YieldOp::create(b, sum);
  return loop.getResult(0);
}

/// Sums dO O over every fourth chunk of the wider type, with all loads in flight at once.
Value QueryStage::addChunks(Value row) {
  bool isWide = cast<RankedTensorType>(op.getOutput().getType()).getElementType().isF32();
  int64_t columns = isWide ? chunkElements / 2 : chunkElements; // at most 16 bytes
  Value total = f.f32(0), last = e.index(shape.head - columns);
  for (int64_t i = 0; i < shape.head; i += 4 * columns) {
    Value column = e.add(e.mul(f.quad, columns), i);
    Value sum = addProducts(row, e.min(column, last), columns, total);
    bool isWhole = i + 4 * columns <= shape.head;
    total = isWhole ? sum : e.select(e.less(column, e.index(shape.head)), sum, total);
  }
  return total;
}

/// Computes log-sum-exps and deltas of the thread's rows, over all columns of the head, including
/// the columns that another block sums. The four lanes of a row share the columns and add in order.
/// The blocks of the first part store the results in the workspace. Queries that are invalid or
/// have no key get a log-sum-exp of +inf: their P is 2^-inf = 0 without a mask.
void QueryStage::formStatistics() {
  auto isZero = [&](Value x) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, e.index(0));
  };
  for (Value row : rows) {
    Value position = arith::IndexCastOp::create(b, b.getIndexType(), row);
    Value at = e.add(f.queries.base, f.existingRow(f.queries, position));
    Value isValid = e.less(position, f.queries.length);
    Value logSum = e.loadScalar(f.frame.buffer(Lse), {at, head});
    Value empty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, logSum, f.f32(-infinity));
    Value none = e.select(isValid, empty, arith::ConstantIntOp::create(b, b.getI1Type(), 1));
    logSums.push_back(e.select(none, f.f32(infinity), loadStatistic(logSum)));
    Value partial = shape.head % chunkElements == 0 ? addChunks(at) : addColumns(at);
    Value delta = reduceAcrossQuad(f, partial, [&](Value x, Value y) { return e.addf(x, y); });
    deltas.push_back(e.select(isValid, delta, f.f32(0)));
    e.when(e.both(isZero(f.quad), isZero(f.part)), [&] {
      Value slot = computeSlot(position);
      e.store(logSums.back(), statistics(), {statisticsRow(0, head), slot});
      e.store(deltas.back(), statistics(), {statisticsRow(1, head), slot});
    });
  }
  extreme = arith::OrIOp::create(b, isExtreme(logSums[0]), isExtreme(logSums[1]));
}

Values QueryStage::emitTile(Value number, Value offset, ValueRange carried) {
  Value q0 = f.getFirstRow(number, keys, f.keys.step), h = e.toInteger(head);
  Values columns = computeColumnNumbers(f, q0, keys, f.keys.step);
  auto positions = [&](const ElementPlace &at) {
    return std::pair<Value, Value>(rows[at.row()], columns[at.getFirstColumn()]);
  };
  Values raw = multiplyByRows(f, queries, 1, keyTile, offset), byDistance;
  if (shape.hasRows) {
    byDistance = band->multiplyFixed(positionQueries, bandTile, offset);
  }
  Products products = computeProducts(f, raw, byDistance);
  auto bias = [&](const ElementPlace &at) { return band->bias(biasByte, offset, at); };
  Values probability = probabilities(
      products, keys, h, classifyTile(f, p0, fixedRows, q0, keys).full, extreme,
      /*bounded=*/!shape.boundsKeys, positions,
      [&](const ElementPlace &at) { return logSums[at.row()]; }, bias);
  if (shape.dropout > 0) {
    probability =
        markDropped(f, probability, keys, KeyDimension::Columns, [&](const ElementPlace &at) {
          return computeElementNumber(f, head, rows[at.row()], columns[at.getFirstColumn()]);
        });
  }
  Values change = multiplyByRows(f, gradients, 1, valueTile, offset);
  Gradients of = scoreGradients(
      products, probability, change, keys, h, positions,
      [&](const ElementPlace &at) { return deltas[at.row()]; }, bias);
  size_t count = size_t(shape.partWidth / 2);
  Values sums = accumulateProduct(f, of.scores, 1, keyTile, e.add(offset, e.mul(f.part, 2)),
                                  shape.partWidth, Values(carried.take_front(count)));
  if (shape.hasRows) {
    sums.append(band->multiplyWeights(of.byDistance, bandTile, offset,
                                      Values(carried.slice(count, count))));
  }
  ValueRange before = carried.take_back(shares());
  if (shape.biasRows > 0) {
    Value last = e.integer(shape.biasRows - 1);
    sums.append(addShares(of.biases, columns, last, before.take_front(2)));
  }
  if (shape.hasFarther()) {
    Value rows = e.toInteger(f.distances.length);
    sums.append(addShares(of.byDistance, columns, rows, before.take_back(2)));
  }
  return sums;
}

/// Sums, per row of the thread, the gradients of scores whose distance is at least `from`: the
/// distances that the last row of a table, or the last row by distance, serves.
Values QueryStage::addShares(const Values &gradients, const Values &columns, Value from,
                             ValueRange before) {
  Values sums(before);
  mapScores(gradients, keys, [&](Value gradient, const ElementPlace &at) {
    Value distance = emitDistance(e, shape.distance, rows[at.row()], columns[at.getFirstColumn()]);
    Value isFar = e.atLeast(distance, from);
    return sums[at.row()] = e.addf(sums[at.row()], e.select(isFar, gradient, f.f32(0)));
  });
  return sums;
}

void QueryStage::storeShares(ArrayRef<Value> sums) {
  auto isZero = [&](Value x) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, e.index(0));
  };
  Value isMine = e.both(isZero(f.quad), isZero(f.part));
  for (auto [i, partial] : llvm::enumerate(sums)) {
    Value sum = reduceAcrossQuad(f, partial, [&](Value x, Value y) { return e.addf(x, y); });
    Value slot = computeSlot(arith::IndexCastOp::create(b, b.getIndexType(), rows[i % 2]));
    e.when(isMine, [&, which = int64_t(2 + i / 2)] {
      e.store(sum, statistics(), {statisticsRow(which, head), slot});
    });
  }
}

void QueryStage::loadTerms(Value offset, Value q0) {
  if (shape.hasRows) {
    loadTile(f, bandTile, offset, sourceOfTerm(f, 1, head), band->firstDistance(p0, q0));
  }
  if (shape.biasRows > 0) {
    band->loadBiases(biasByte, offset, biasTable(), head, band->firstDistance(p0, q0));
  }
}

KernelStage QueryStage::generate() {
  int64_t tiles = shape.queryTiles(fixedRows);
  auto [headOf, fromEnd] = f.place(shape.heads, tiles);
  head = headOf;
  p0 = f.getFirstRow(e.sub(e.index(tiles - 1), fromEnd), fixedRows, f.queries.step);
  Value keyHead = e.floorDiv(head, shape.group);
  Source query = source(Query, head, shape.queryColumn), gradient = source(OutputGradient, head, 0),
         key = source(Key, keyHead, shape.keyColumn),
         value = source(ValueRows, keyHead, shape.valueColumn);
  loadTile(f, queryTile, nullptr, query, p0);
  loadTile(f, gradientTile, nullptr, gradient, p0);
  if (shape.hasRows) {
    loadTile(f, positionTile, nullptr, sourceOfTerm(f, 0, head), p0);
  }
  f.core.commit();
  rows = computeRowNumbers(f, p0, 1, f.queries.step);
  TileStream stream;
  stream.count = e.index(shape.keyTiles(keys));
  stream.buffers = getBuffers(shape);
  stream.bytes = biasByte + (shape.biasRows > 0 ? band->biasBytes() : 0) - keyTile.byte;
  auto first = [&](Value number) { return f.getFirstRow(number, keys, f.keys.step); };
  stream.some = [&](Value number) {
    return classifyTile(f, p0, fixedRows, first(number), keys).some;
  };
  stream.load = [&](Value number, Value offset) {
    loadTile(f, keyTile, offset, key, first(number));
    loadTile(f, valueTile, offset, value, first(number));
    loadTerms(offset, first(number));
  };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(number, offset, carried);
  };
  Values sums = streamTiles(f, stream, [&] {
    formStatistics();
    f.core.wait(1);
    f.core.barrier();
    queries = keepFixed(f, queryTile, 1, widestKept);
    gradients = keepFixed(f, gradientTile, 1, widestKept);
    if (shape.hasRows) {
      positionQueries = keepFixed(f, positionTile, 1, widestKept);
    }
    return f.core.zeros(shape.partWidth / 2 * (shape.hasRows ? 2 : 1) + int64_t(shares()));
  });
  size_t count = size_t(shape.partWidth / 2);
  storeShares(ArrayRef<Value>(sums).take_back(shares()));
  // The sums of invalid queries are zeros.
  Values factor = scale(shape.gradientFactor.value_or(1));
  storeRows(f, Values(ArrayRef<Value>(sums).take_front(count)), factor,
            getOperandGradient(Query, head, shape.queryColumn), p0, 1, Padding::Summed);
  if (shape.hasRows) {
    storeRows(f, Values(ArrayRef<Value>(sums).slice(count, count)),
              shape.addsRows ? factor : Values(), gradientOfTerm(0, head), p0, 1, Padding::Summed);
  }
  return finish(shape.batch * shape.heads * tiles * shape.parts,
                keyTile.byte + stream.buffers * stream.bytes);
}

KernelStage attention::makeQueryStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                                      ModuleOp module, StringRef name) {
  return QueryStage(op, shape, module, name).generate();
}
