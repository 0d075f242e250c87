// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward: dR and the gradients of biases. Distance d and key q = p - d of a query
// exchange roles: rows of R are fixed as keys are for dK, and keys and values are streamed as
// bands. Between scales the distances of a block are a b apart, so queries that are b apart use
// keys that are a apart.
#include "../Frame/Lanes.h"
#include "Backward.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

/// Computes dR of 64 distances, and the gradients of their biases.
class DistanceStage : StreamedQueries {
public:
  DistanceStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape, ModuleOp module,
                StringRef name);
  KernelStage generate();

private:
  Source bandSource(unsigned operand, int64_t column);
  void load(Value p0, Value offset);
  BlockClass classify(Value p0);
  void loadBiases();
  Value queryClass();
  Value computeFirstKey(Value p0);
  Values computeKeys(Value p0, const Values &columns);
  Values emitTile(Value p0, Value offset, ValueRange carried);
  Values addFarther(Values sums);
  void storeBiases(const Values &sums, Value tile);

  const IntegerSet byDistance; ///< the mask over (p, d)
  const int64_t tiles;
  Tile rowTile, positionTile, queryTile, gradientTile, keyBand, valueBand;
  int64_t bytes; ///< size of a streamed buffer
  Band band;
  Value head, keyHead, d0;
  Values rows, biases; ///< distances of the thread; statistics as i32
  Fixed distances;
};

} // namespace

/// Returns the key of query `p0` at distance `d0`.
Value DistanceStage::computeFirstKey(Value p0) {
  if (shape.distance == dispatch::Distance()) {
    return e.sub(p0, d0);
  }
  const dispatch::Distance &distance = shape.distance;
  Value ahead = e.sub(e.add(f.scaled(p0, distance.query), distance.offset), d0);
  return arith::DivSIOp::create(b, ahead, e.index(distance.key)); // exact division
}

/// The only class of queries for which the distances of the block give integer keys: p with a p = d
/// - c modulo b.
Value DistanceStage::queryClass() {
  const dispatch::Distance &distance = shape.distance;
  if (distance.key == 1) {
    return e.index(0);
  }
  int64_t inverse = 1;
  while (inverse * distance.query % distance.key != 1) {
    ++inverse;
  }
  int64_t before =
      int64_t(llvm::alignTo(uint64_t(std::abs(distance.offset)), uint64_t(distance.key))) -
      distance.offset;
  return f.split(e.mul(e.add(d0, before), inverse), distance.key).second;
}

static IntegerSet with(IntegerSet mask, AffineExpr atLeast0) {
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  constraints.push_back(atLeast0);
  equalities.push_back(false);
  return IntegerSet::get(2, mask.getNumSymbols(), constraints, equalities);
}

/// Adds q >= 0 to the mask, because bands reach keys before the first.
static AttentionShape withKeysFrom0(AttentionShape shape) {
  shape.mask = with(shape.mask, getAffineDimExpr(1, shape.mask.getContext()));
  return shape;
}

/// Rewrites the mask over (p, q) as a mask over (p, d), with q = p - d.
static IntegerSet overDistances(IntegerSet mask) {
  AffineExpr p = getAffineDimExpr(0, mask.getContext()), d = getAffineDimExpr(1, mask.getContext());
  SmallVector<AffineExpr> constraints;
  for (AffineExpr constraint : mask.getConstraints()) {
    AffineExpr replaced = constraint.replaceDims({p, p - d});
    constraints.push_back(simplifyAffineExpr(replaced, 2, mask.getNumSymbols()));
  }
  return IntegerSet::get(2, mask.getNumSymbols(), constraints, mask.getEqFlags());
}

DistanceStage::DistanceStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                             ModuleOp module, StringRef name)
    : StreamedQueries(op, withKeysFrom0(shape), module, name, chooseRows(shape, 2)),
      byDistance(overDistances(BackwardStage::shape.mask)),
      tiles(std::max<int64_t>(shape.stride() *
                                  llvm::divideCeil(std::max(shape.distances, shape.biasRows - 1),
                                                   shape.stride() * fixedRows),
                              1)),
      rowTile{shape.hasRows ? fixedRows : 0, shape.width, 0},
      positionTile{shape.hasRows ? queries : 0, shape.width, rowTile.end()},
      queryTile{queries, shape.width, positionTile.end()},
      gradientTile{queries, shape.width, queryTile.end()},
      keyBand{fixedRows + queries, shape.width, gradientTile.end()},
      valueBand{fixedRows + queries, shape.width, keyBand.end()},
      band(f, queries, Band::Slope::StreamedMinusFixed) {
  numbersByte = valueBand.end();
  bytes = numbersByte + numberBytes() - positionTile.byte;
}

Source DistanceStage::bandSource(unsigned operand, int64_t column) {
  Source keys = source(operand, keyHead, column);
  keys.before = true;
  return keys;
}

void DistanceStage::load(Value p0, Value offset) {
  if (shape.hasRows) {
    loadTile(f, positionTile, offset, sourceOfTerm(f, 0, head), p0);
  }
  loadTile(f, queryTile, offset, source(Query, head, shape.queryColumn), p0);
  loadTile(f, gradientTile, offset, source(OutputGradient, head, 0), p0);
  Value q0 = e.add(computeFirstKey(p0), -band.linesBefore() * f.keys.step);
  loadTile(f, keyBand, offset, bandSource(Key, shape.keyColumn), q0);
  loadTile(f, valueBand, offset, bandSource(ValueRows, shape.valueColumn), q0);
  loadStatistics(offset, head, p0);
}

BlockClass DistanceStage::classify(Value p0) {
  BlockClass result;
  if (shape.distance == dispatch::Distance() && shape.isOneDomain()) {
    result = classifyBlock(e, byDistance, p0, queries, d0, fixedRows,
                           {f.queries.length, f.queries.length});
  } else {
    Value q0 = e.add(computeFirstKey(p0), -band.linesBefore() * f.keys.step);
    int64_t keys = (queries - 1 + band.linesBefore()) * f.keys.step + 1;
    result = classifyBlock(e, shape.mask, p0, (queries - 1) * f.queries.step + 1, q0, keys,
                           {f.queries.length, f.keys.length});
  }
  result.some = e.both(result.some, e.less(p0, f.queries.length));
  return result;
}

void DistanceStage::loadBiases() {
  for (Value row : rows) {
    Value distance = arith::IndexCastOp::create(b, b.getIndexType(), row);
    biases.push_back(e.loadScalar(biasTable(), {emitBiasRow(f, distance), head}));
  }
}

/// Returns the keys of the thread's scores at its distances, element by element.
Values DistanceStage::computeKeys(Value p0, const Values &columns) {
  Values keys, firsts = computeColumnNumbers(f, computeFirstKey(p0), queries, f.keys.step),
               further = computeRowNumbers(f, e.index(0), 1, f.keys.step);
  for (auto [i, column] : llvm::enumerate(columns)) {
    for (auto [row, distance] : llvm::zip_equal(rows, further)) {
      bool isOneScale = shape.distance == dispatch::Distance();
      keys.push_back(isOneScale ? e.sub(column, row) : e.sub(firsts[i], distance));
    }
  }
  return keys;
}

/// Accumulates dR, then the two biases of the thread.
Values DistanceStage::emitTile(Value p0, Value offset, ValueRange carried) {
  Value h = e.toInteger(head);
  Values columns = computeColumnNumbers(f, p0, queries, f.queries.step),
         logSums = readStatistics(0, offset), keys = computeKeys(p0, columns);
  auto positions = [&](const ElementPlace &at) {
    return std::pair<Value, Value>(columns[at.getFirstColumn()],
                                   keys[2 * at.getFirstColumn() + at.row()]);
  };
  Values raw = band.multiplyStreamed(keyBand, queryTile, offset), byDistance;
  if (shape.hasRows) {
    byDistance = multiplyByRows(f, distances, 1, positionTile, offset);
  }
  Products products = computeProducts(f, raw, byDistance);
  auto bias = [&](const ElementPlace &at) { return biases[at.row()]; };
  Values probability = probabilities(
      products, queries, h, classify(p0).full, anyExtreme(offset), /*bounded=*/!shape.boundsKeys,
      positions, [&](const ElementPlace &at) { return logSums[at.getFirstColumn()]; }, bias);
  if (shape.dropout > 0) {
    probability =
        markDropped(f, probability, queries, KeyDimension::Neither, [&](const ElementPlace &at) {
          auto [p, q] = positions(at);
          return computeElementNumber(f, head, p, q);
        });
  }
  Values change = band.multiplyStreamed(valueBand, gradientTile, offset);
  Values deltas = readStatistics(1, offset);
  Gradients gradient = scoreGradients(
      products, probability, change, queries, h, positions,
      [&](const ElementPlace &at) { return deltas[at.getFirstColumn()]; }, bias);
  Values sums(carried);
  if (shape.hasRows) {
    sums =
        accumulateProduct(f, gradient.byDistance, 1, positionTile, e.add(offset, e.mul(f.part, 2)),
                          shape.partWidth, Values(carried.take_front(size_t(shape.partWidth / 2))));
  }
  if (shape.biasRows > 0) {
    Values two(carried.take_back(2));
    mapScores(gradient.biases, queries, [&](Value more, const ElementPlace &at) {
      return two[at.row()] = e.addf(two[at.row()], more);
    });
    sums.truncate(carried.size() - 2);
    sums.append(two);
  }
  return sums;
}

/// Adds the contributions that query blocks stored for the last valid row, which serves all farther
/// distances.
Values DistanceStage::addFarther(Values sums) {
  Value last = e.add(f.distances.length, -1), number = e.toInteger(last);
  SmallVector<Value> isLast;
  for (Value row : rows) {
    isLast.push_back(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, row, number));
  }
  Value some = arith::OrIOp::create(b, isLast[0], isLast[1]);
  Value reached = e.floorDiv(e.add(last, -shape.distance.offset), shape.distance.query);
  Value first = e.max(e.add(reached, 1), e.index(0));
  Source source = sourceOfTerm(f, 0, head);
  auto add = [&](Value p, ValueRange so) {
    Values result(so);
    Value share =
        e.loadScalar(statistics(), {statisticsRow(2 + (shape.biasRows > 0), head), computeSlot(p)});
    for (auto [i, sum] : llvm::enumerate(result)) {
      Value column = e.add(e.add(f.part, e.mul(f.quad, 2)),
                           int64_t(i) / sumsPerFragment * fragmentColumns + int64_t(i) % 2);
      column = e.add(source.column, e.min(column, e.index(shape.head - 1)));
      Value query = e.loadScalar(source.memory, {e.add(source.rows.base, p), column});
      query = arith::ExtFOp::create(b, b.getF32Type(), query);
      Value own = e.select(isLast[i % sumsPerFragment / 2], share, f.f32(0));
      sum = e.fma(own, query, sum);
    }
    return result;
  };
  return e.loop(e.select(some, first, f.queries.length), f.queries.length, 1, sums, add);
}

/// Stores the partial sums of this row of the batch. The last row of the table also serves farther
/// distances.
void DistanceStage::storeBiases(const Values &sums, Value tile) {
  auto isEqual = [&](Value x, int64_t number) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, e.index(number));
  };
  Value parts = f.frame.buffer(op->getNumOperands() + op->getNumResults() - 1);
  Value first = e.mul(f.batchRow, shape.biasRows), last = e.index(shape.biasRows - 1);
  for (auto [row, partial] : llvm::zip_equal(rows, sums)) {
    Value sum = reduceAcrossQuad(f, partial, [&](Value x, Value y) { return e.addf(x, y); });
    Value distance = arith::IndexCastOp::create(b, b.getIndexType(), row);
    e.when(e.both(e.both(isEqual(f.quad, 0), isEqual(f.part, 0)), e.less(distance, last)),
           [&, sum = sum] { e.store(sum, parts, {e.add(first, distance), head}); });
  }
  Value isFirstPart = e.both(isEqual(f.part, 0), isEqual(f.frame.warp, 0));
  e.when(e.both(isEqual(tile, tiles - 1), isFirstPart), [&] {
    auto add = [&](Value p, ValueRange so) {
      return Values{e.addf(so[0], e.loadScalar(statistics(), {statisticsRow(2, head), p}))};
    };
    Values mine =
        e.loop(f.frame.lane, e.index(roundedPositions), threadsPerWarp, ValueRange{f.f32(0)}, add);
    Value total = sumOfLanes(f.frame, mine.front(), threadsPerWarp);
    e.when(isEqual(f.frame.lane, 0), [&] { e.store(total, parts, {e.add(first, last), head}); });
  });
}

KernelStage DistanceStage::generate() {
  auto [headOf, tile] = f.place(shape.heads, tiles);
  head = headOf;
  keyHead = e.floorDiv(head, shape.group);
  d0 = f.getFirstRow(tile, fixedRows, shape.stride());
  rows = computeRowNumbers(f, d0, 1, shape.stride());
  if (shape.hasRows) {
    loadTile(f, rowTile, nullptr, sourceOfTerm(f, 1, head), d0);
  }
  f.core.commit();
  if (shape.biasRows > 0) {
    loadBiases();
  }
  Value ofClass = queryClass();
  auto first = [&](Value number) {
    return e.add(f.scaled(e.mul(number, queries), f.queries.step), ofClass);
  };
  TileStream stream;
  stream.count = e.index(queryTiles / f.queries.step);
  stream.bytes = bytes;
  stream.buffers = getBuffers(shape);
  stream.some = [&](Value number) { return classify(first(number)).some; };
  stream.load = [&](Value number, Value offset) { load(first(number), offset); };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(first(number), offset, carried);
  };
  int64_t count = shape.hasRows ? shape.partWidth / 2 : 0;
  Values sums = streamTiles(f, stream, [&] {
    f.core.wait(1);
    f.core.barrier();
    if (shape.hasRows) {
      distances = keepFixed(f, rowTile, 1, widestKept);
    }
    return f.core.zeros(count + (shape.biasRows > 0 ? 2 : 0));
  });
  if (shape.hasRows) {
    Values ofRows(ArrayRef<Value>(sums).take_front(size_t(count)));
    ofRows = shape.hasFarther() ? addFarther(ofRows) : ofRows;
    float factor = shape.addsRows ? shape.gradientFactor.value_or(1) : 1;
    storeRows(f, ofRows, scale(factor), gradientOfTerm(1, head), d0, 1,
              shape.hasFarther() ? Padding::Zeros : Padding::Summed);
  }
  if (shape.biasRows > 0) {
    storeBiases(Values(ArrayRef<Value>(sums).take_back(2)), tile);
  }
  return finish(shape.batch * shape.heads * tiles * shape.parts,
                positionTile.byte + stream.buffers * bytes);
}

KernelStage attention::makeDistanceStage(dispatch::AttentionBackwardOp op,
                                         const AttentionShape &shape, ModuleOp module,
                                         StringRef name) {
  return DistanceStage(op, shape, module, name).generate();
}
