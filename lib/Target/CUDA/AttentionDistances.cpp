// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward: dR and the gradients of biases. Distance d and key q = p - d of a query
// change places: R's rows are fixed as keys are for dK, and keys and values come as bands.
#include "AttentionBackward.h"
#include "StepKernels.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

/// dR of 64 distances, and the gradients of their biases.
class DistanceStage : StreamedQueries {
public:
  DistanceStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                StringRef name);
  Stage generate();

private:
  Source bandSource(unsigned operand, int64_t column);
  void load(Value p0, Value offset);
  BlockClass classify(Value p0);
  void loadBiases();
  Values emitTile(Value p0, Value offset, ValueRange carried);
  void storeBiases(const Values &sums, Value tile);

  const IntegerSet byDistance; ///< the relation over (p, d)
  const int64_t tiles;
  Tile rowTile, positionTile, queryTile, gradientTile, keyBand, valueBand;
  int64_t bytes; ///< of what is streamed
  Band band;
  Value head, keyHead, d0;
  Values rows, biases; ///< of the thread's distances; numbers as i32
  Fixed distances;
};

} // namespace

static IntegerSet with(IntegerSet mask, AffineExpr atLeast0) {
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  constraints.push_back(atLeast0);
  equalities.push_back(false);
  return IntegerSet::get(2, mask.getNumSymbols(), constraints, equalities);
}

/// Bands reach keys before the first.
static Shape withKeysFrom0(Shape shape) {
  shape.mask = with(shape.mask, getAffineDimExpr(1, shape.mask.getContext()));
  return shape;
}

/// The relation over (p, q) as one over (p, d), q = p - d.
static IntegerSet overDistances(IntegerSet mask) {
  AffineExpr p = getAffineDimExpr(0, mask.getContext()), d = getAffineDimExpr(1, mask.getContext());
  SmallVector<AffineExpr> constraints;
  for (AffineExpr constraint : mask.getConstraints()) {
    AffineExpr replaced = constraint.replaceDims({p, p - d});
    constraints.push_back(simplifyAffineExpr(replaced, 2, mask.getNumSymbols()));
  }
  return IntegerSet::get(2, mask.getNumSymbols(), constraints, mask.getEqFlags());
}

DistanceStage::DistanceStage(dispatch::AttentionBackwardOp op, const Shape &shape, ModuleOp module,
                             StringRef name)
    : StreamedQueries(op, withKeysFrom0(shape), module, name, chooseRows(shape, 2)),
      byDistance(overDistances(BackwardStage::shape.mask)),
      tiles(std::max<int64_t>(
          llvm::divideCeil(std::max(shape.hasRows ? shape.queries : 0, shape.biasRows - 1),
                           fixedRows),
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
    f.load(positionTile, offset, sourceOfTerm(f, shape.firstTerm, head), p0);
  }
  f.load(queryTile, offset, source(Query, head, shape.queryColumn), p0);
  f.load(gradientTile, offset, source(OutputGradient, head, 0), p0);
  Value q0 = band.firstLine(d0, p0);
  f.load(keyBand, offset, bandSource(Key, shape.keyColumn), q0);
  f.load(valueBand, offset, bandSource(ValueRows, shape.valueColumn), q0);
  loadStatistics(offset, head, p0);
}

BlockClass DistanceStage::classify(Value p0) {
  BlockClass result = classifyBlock(e, byDistance, p0, queries, d0, fixedRows,
                                    {f.queries.length, f.queries.length});
  result.some = e.both(result.some, e.less(p0, f.queries.length));
  return result;
}

void DistanceStage::loadBiases() {
  for (Value row : rows) {
    Value distance = arith::IndexCastOp::create(b, b.getIndexType(), row);
    distance = e.min(distance, e.index(shape.biasRows - 1));
    biases.push_back(e.loadScalar(biasTable(), {distance, head}));
  }
}

/// Sums of dR, then of the thread's two biases.
Values DistanceStage::emitTile(Value p0, Value offset, ValueRange carried) {
  Value h = e.toInteger(head);
  Values columns = f.columnNumbers(p0, queries), logSums = readStatistics(0, offset);
  auto positions = [&](const Place &at) {
    Value p = columns[at.columnOf()];
    return std::pair<Value, Value>(p, e.sub(p, rows[at.row()]));
  };
  Values raw = band.multiplyStreamed(keyBand, queryTile, offset);
  if (shape.hasRows) {
    raw = addEach(e, raw, f.multiplyRows(distances, 1, positionTile, offset));
  }
  Values probability = probabilities(
      raw, queries, h, classify(p0).full, anyExtreme(offset), /*bounded=*/false, positions,
      [&](const Place &at) { return logSums[at.columnOf()]; },
      [&](const Place &at) { return biases[at.row()]; });
  if (shape.dropout > 0) {
    probability =
        f.marked(probability, queries, AttentionFrame::Keys::Neither, [&](const Place &at) {
          auto [p, q] = positions(at);
          return f.elementNumber(head, p, q);
        });
  }
  Values change = band.multiplyStreamed(valueBand, gradientTile, offset);
  Values deltas = readStatistics(1, offset), ofBiases;
  Values gradient = scoreGradients(
      raw, probability, change, queries, h, positions,
      [&](const Place &at) { return deltas[at.columnOf()]; }, &ofBiases);
  Values sums(carried);
  if (shape.hasRows) {
    sums = f.multiplyWeights(gradient, 1, positionTile, offset, shape.partWidth,
                             Values(carried.take_front(size_t(shape.partWidth / 2))));
  }
  if (shape.biasRows > 0) {
    Values two(carried.take_back(2));
    f.each(ofBiases, queries, [&](Value more, const Place &at) {
      return two[at.row()] = e.addf(two[at.row()], more);
    });
    sums.truncate(carried.size() - 2);
    sums.append(two);
  }
  return sums;
}

/// The parts of this row of the batch. The table's last row stands for further distances as well.
void DistanceStage::storeBiases(const Values &sums, Value tile) {
  auto isEqual = [&](Value x, int64_t number) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, e.index(number));
  };
  Value parts = f.frame.buffer(op->getNumOperands() + op->getNumResults() - 1);
  Value first = e.mul(f.batchRow, shape.biasRows), last = e.index(shape.biasRows - 1);
  for (auto [row, partial] : llvm::zip_equal(rows, sums)) {
    Value sum = f.acrossQuad(partial, [&](Value x, Value y) { return e.addf(x, y); });
    Value distance = arith::IndexCastOp::create(b, b.getIndexType(), row);
    e.when(e.both(isEqual(f.quad, 0), e.less(distance, last)),
           [&, sum = sum] { e.store(sum, parts, {e.add(first, distance), head}); });
  }
  e.when(e.both(isEqual(tile, tiles - 1), isEqual(f.frame.warp, 0)), [&] {
    auto add = [&](Value p, ValueRange so) {
      return Values{e.addf(so[0], e.loadScalar(statistics(), {statisticsRow(2, head), p}))};
    };
    Values mine =
        e.loop(f.frame.lane, e.index(shape.queries), threadsPerWarp, ValueRange{f.f32(0)}, add);
    Value total = sumOfLanes(f.frame, mine.front(), threadsPerWarp);
    e.when(isEqual(f.frame.lane, 0), [&] { e.store(total, parts, {e.add(first, last), head}); });
  });
}

Stage DistanceStage::generate() {
  auto [headOf, tile] = f.place(shape.heads, tiles);
  head = headOf;
  keyHead = e.floorDiv(head, shape.group);
  d0 = e.mul(tile, fixedRows);
  rows = f.rowNumbers(d0, 1);
  if (shape.hasRows) {
    f.load(rowTile, nullptr, sourceOfTerm(f, shape.firstTerm + 1, head), d0);
  }
  f.core.commit();
  if (shape.biasRows > 0) {
    loadBiases();
  }
  auto first = [&](Value number) { return e.mul(number, queries); };
  AttentionFrame::Stream stream;
  stream.count = e.index(queryTiles);
  stream.bytes = bytes;
  stream.some = [&](Value number) { return classify(first(number)).some; };
  stream.load = [&](Value number, Value offset) { load(first(number), offset); };
  stream.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(first(number), offset, carried);
  };
  int64_t count = shape.hasRows ? shape.partWidth / 2 : 0;
  Values sums = f.stream(stream, [&] {
    f.core.wait(1);
    f.core.barrier();
    if (shape.hasRows) {
      distances = f.keep(rowTile, 1, widestKept);
    }
    return f.core.zeros(count + (shape.biasRows > 0 ? 2 : 0));
  });
  if (shape.hasRows) {
    f.store(Values(ArrayRef<Value>(sums).take_front(size_t(count))),
            scale(shape.gradientFactor.value_or(1)), gradientOfTerm(1, head), d0, 1,
            Padding::Summed);
  }
  if (shape.biasRows > 0) {
    storeBiases(Values(ArrayRef<Value>(sums).take_back(2)), tile);
  }
  return finish(shape.batch * shape.heads * tiles, positionTile.byte + 2 * bytes);
}

Stage attention::makeDistanceStage(dispatch::AttentionBackwardOp op, const Shape &shape,
                                   ModuleOp module, StringRef name) {
  return DistanceStage(op, shape, module, name).generate();
}
