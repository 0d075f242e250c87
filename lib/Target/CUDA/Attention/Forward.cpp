// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward (Dao, FlashAttention-2, 2023). A block owns 64 or 128 queries of one head; each
// of its four warps holds 16 or 32 of them in registers. Keys and values are streamed in tiles of
// 64, and tiles that the mask excludes are skipped. Each warp keeps the maxima, sums and outputs of
// its queries; exponentials are base 2.
#include "Terms.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

namespace {

constexpr int64_t widestKept = 128;     ///< widest head whose queries stay in registers
constexpr int64_t widestPositions = 64; ///< the same limit for position queries
constexpr float ln2 = 0.693147181f;
/// Enough blocks to fill a large GPU; with fewer, blocks own half the queries.
constexpr int64_t manyBlocks = 132;

class Forward {
public:
  Forward(dispatch::AttentionOp op, const AttentionShape &shape, ModuleOp module, StringRef name);
  Kernel generate();

private:
  Source source(unsigned operand, Value headIndex, int64_t column);
  void loadTerms(Value offset, Value q0);
  Values emitTile(Value number, Value offset, ValueRange carried);
  Values maskedScores(Value number, Value offset);
  Values largest(const Values &scores, Values maxima);
  Values rescale(Values &scores, const Values &before, const Values &maxima);
  void emitResults(const Values &carried);
  /// Part `which` of the loop-carried values: maxima of scores, sums of exponentials, outputs.
  Values part(ValueRange carried, int64_t which) const {
    size_t rows = size_t(2 * fragments);
    return Values(which == 2 ? carried.drop_front(2 * rows)
                             : carried.slice(size_t(which) * rows, rows));
  }

  dispatch::AttentionOp op;
  const AttentionShape shape;
  AttentionFrame f;
  Emitter &e;
  ImplicitLocOpBuilder &b;
  int64_t fragments, queries, tiles;
  const int64_t keysPerTile;
  Tile queryTile, positionTile, keyTile, valueTile, bandTile;
  int64_t biasByte;
  std::optional<Band> band;
  Value head, p0;
  Values rows; ///< i32: queries of the thread
  Fixed fixed, positions;
};

} // namespace

// Two fragments per warp halve the shared memory traffic. Heads of 64 columns lack registers for
// them on some chips (ptxas spills for sm_80), as do expensive scores.
static int64_t chooseFragments(const AttentionShape &shape) {
  int64_t blocks = shape.batch * shape.heads * llvm::divideCeil(shape.queries, 128);
  bool fits = shape.width < 64 && !shape.heavy;
  return fits && shape.queries > 64 && blocks >= manyBlocks ? 2 : 1;
}

// Each thread keeps the source addresses of its chunks of a tile in registers; wide heads and bands
// have many.
static int64_t chooseKeys(const AttentionShape &shape) {
  return shape.heavy && shape.width > (shape.hasRows ? 64 : 128) ? 32 : 64;
}

Forward::Forward(dispatch::AttentionOp op, const AttentionShape &shape, ModuleOp module,
                 StringRef name)
    : op(op), shape(shape), f(op, op.getDomain(), shape, module, name), e(f.e), b(f.b),
      fragments(chooseFragments(shape)), queries(fragments * fragmentRows * warps),
      tiles(shape.queryTiles(queries)), keysPerTile(chooseKeys(shape)),
      queryTile{queries, shape.width, 0},
      positionTile{shape.hasRows ? queries : 0, shape.width, queryTile.end()},
      keyTile{keysPerTile, shape.width, positionTile.end()},
      valueTile{keysPerTile, shape.partWidth, keyTile.end()},
      bandTile{shape.hasRows ? fixedRows + keysPerTile : 0, shape.width, valueTile.end()},
      biasByte(bandTile.end()) {
  if (shape.hasTerms()) {
    band.emplace(f, keysPerTile, Band::Slope::FixedMinusStreamed);
  }
}

Source Forward::source(unsigned operand, Value headIndex, int64_t column) {
  bool aligned = shape.head % chunkElements == 0 && column % chunkElements == 0;
  bool isOfKeys = operand == 1 || operand == 2;
  return {isOfKeys ? f.keys : f.queries, f.frame.buffer(operand),
          e.add(e.mul(headIndex, shape.head), column), e.index(shape.head), aligned};
}

Kernel Forward::generate() {
  auto [headOf, fromEnd] = f.place(shape.heads, tiles);
  head = headOf;
  // Under a causal mask the last queries have the most keys, so they start first.
  p0 = f.getFirstRow(e.sub(e.index(tiles - 1), fromEnd), queries, f.queries.step);
  Value keyHead = e.floorDiv(head, shape.group);
  Source query = source(0, head, shape.queryColumn), key = source(1, keyHead, shape.keyColumn),
         value = source(2, keyHead, shape.valueColumn);
  value.column = e.add(value.column, f.part);
  value.columns = e.sub(value.columns, f.part);
  auto first = [&](Value number) { return f.getFirstRow(number, keysPerTile, f.keys.step); };
  TileStream keys;
  keys.count = e.index(shape.keyTiles(keysPerTile));
  keys.buffers = getBuffers(shape);
  keys.bytes = biasByte + (shape.biasRows > 0 ? band->biasBytes() : 0) - keyTile.byte;
  keys.some = [&](Value number) {
    return classifyTile(f, p0, queries, first(number), keysPerTile).some;
  };
  keys.load = [&](Value number, Value offset) {
    loadTile(f, keyTile, offset, key, first(number));
    loadTile(f, valueTile, offset, value, first(number));
    loadTerms(offset, first(number));
  };
  keys.body = [&](Value number, Value offset, ValueRange carried) {
    return emitTile(number, offset, carried);
  };
  e.when(e.less(p0, f.queries.length), [&] {
    loadTile(f, queryTile, nullptr, query, p0);
    if (shape.hasRows) {
      loadTile(f, positionTile, nullptr, sourceOfTerm(f, 0, head), p0);
    }
    f.core.commit();
    rows = computeRowNumbers(f, p0, fragments, f.queries.step);
    emitResults(streamTiles(f, keys, [&] {
      f.core.wait(1);
      f.core.barrier();
      fixed = keepFixed(f, queryTile, fragments, widestKept);
      if (shape.hasRows) {
        positions = keepFixed(f, positionTile, fragments, widestPositions);
      }
      Values carried(size_t(2 * fragments), f.f32(-infinity));
      carried.append(f.core.zeros(2 * fragments + fragments * shape.partWidth / 2));
      return carried;
    }));
  });
  double pairs =
      double(shape.batch * shape.heads) * countPairs(shape.queries, shape.keys, op.getMask());
  int64_t blocks = shape.batch * shape.heads * tiles * shape.parts;
  Kernel kernel = *f.frame.finish(
      f.frame.kernel(blocks, "attention", (shape.hasRows ? 6 : 4) * double(shape.head) * pairs,
                     keyTile.byte + keys.buffers * keys.bytes));
  kernel.bytes = headBytes(shape, op.getQuery(), shape.heads) +
                 headBytes(shape, op.getKey(), shape.kvHeads) +
                 headBytes(shape, op.getValue(), shape.kvHeads) +
                 headBytes(shape, op.getOutput(), shape.heads) +
                 (op.getLse() ? double(shape.batch * shape.queries * shape.heads * 4) : 0) +
                 termBytes(shape, op.getTerms());
  return kernel;
}

/// Starts copying the relative position terms of the tile of keys from `q0`.
void Forward::loadTerms(Value offset, Value q0) {
  if (shape.hasRows) {
    loadTile(f, bandTile, offset, sourceOfTerm(f, 1, head), band->firstDistance(p0, q0));
  }
  if (shape.biasRows > 0) {
    Value table = f.frame.buffer(shape.firstTerm + (shape.hasRows ? 2 : 0));
    band->loadBiases(biasByte, offset, table, head, band->firstDistance(p0, q0));
  }
}

Values Forward::maskedScores(Value number, Value offset) {
  Value q0 = f.getFirstRow(number, keysPerTile, f.keys.step), h = e.toInteger(head);
  Values columns = computeColumnNumbers(f, q0, keysPerTile, f.keys.step);
  Values raw = multiplyByRows(f, fixed, fragments, keyTile, offset), byDistance;
  if (shape.hasRows) {
    byDistance = band->multiplyFixed(positions, bandTile, offset);
  }
  Products products = computeProducts(f, raw, byDistance);
  size_t i = 0;
  Values scores = mapScores(products.raw, keysPerTile, [&](Value score, const ElementPlace &at) {
    Value bias = shape.biasRows > 0 ? band->bias(biasByte, offset, at) : Value();
    Value place[] = {score, rows[at.row()], columns[at.getFirstColumn()], h};
    return emitScore(f, op.getScore(), withTerms(place, {products.at(i++), bias}));
  });
  Value full = classifyTile(f, p0, queries, q0, keysPerTile).full;
  return maskScores(f, scores, keysPerTile, full, -infinity, [&](const ElementPlace &at) {
    return emitMaskAt(f, rows[at.row()], columns[at.getFirstColumn()],
                      /*bounded=*/!shape.boundsKeys);
  });
}

Values Forward::largest(const Values &scores, Values maxima) {
  auto larger = [&](Value x, Value y) { return emitMax(f, x, y); };
  Values best(maxima.size());
  mapScores(scores, keysPerTile, [&](Value score, const ElementPlace &at) {
    Value &most = best[at.row()];
    return most = most ? larger(most, score) : score;
  });
  for (auto [row, most] : llvm::enumerate(best)) {
    maxima[row] = larger(maxima[row], reduceAcrossQuad(f, most, larger));
  }
  return maxima;
}

/// Turns scores into base-2 exponents that are at most about 0. Returns the exponents of the
/// factors that rescale earlier sums, exactly 0 where the maximum is unchanged.
Values Forward::rescale(Values &scores, const Values &before, const Values &maxima) {
  Value exponent = f.f32(f.exponentFactor()), some;
  Values references, shifts, changes, extreme;
  for (auto [row, maximum] : llvm::enumerate(maxima)) {
    // A query without any key so far has maximum -inf; subtracting 0 instead makes its terms 2^-inf
    // = 0, not NaN.
    Value none = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, maximum, f.f32(-infinity));
    references.push_back(e.select(none, f.f32(0), maximum));
    shifts.push_back(e.mulf(references[row], exponent));
    changes.push_back(e.subf(e.mulf(before[row], exponent), shifts[row]));
    extreme.push_back(isLarger(f, shifts[row], largestExponent));
    some = some ? Value(arith::OrIOp::create(b, some, extreme[row])) : extreme[row];
  }
  auto differences = [&] {
    Values results = mapScores(scores, keysPerTile, [&](Value score, const ElementPlace &at) {
      return e.select(extreme[at.row()], e.subf(score, references[at.row()]), score);
    });
    for (auto [row, shift] : llvm::enumerate(shifts)) {
      results.push_back(e.select(extreme[row], f.f32(0), shift));
    }
    for (auto [row, change] : llvm::enumerate(changes)) {
      Value difference = e.mulf(e.subf(before[row], references[row]), exponent);
      results.push_back(e.select(extreme[row], difference, change));
    }
    return results;
  };
  Values asTheyAre = scores;
  asTheyAre.append(shifts);
  asTheyAre.append(changes);
  Values settled = emitEither(f, some, asTheyAre.size(), differences, [&] { return asTheyAre; });
  Values rest(ArrayRef<Value>(settled).drop_front(scores.size()));
  settled.truncate(scores.size());
  scores = mapScores(settled, keysPerTile, [&](Value score, const ElementPlace &at) {
    Value negative = arith::NegFOp::create(b, rest[at.row()]);
    return e.fma(score, exponent, negative);
  });
  return Values(ArrayRef<Value>(rest).drop_front(shifts.size()));
}

/// Processes one tile of keys: computes scores and new maxima, rescales sums and outputs, and adds
/// the tile's contribution.
Values Forward::emitTile(Value number, Value offset, ValueRange carried) {
  int64_t step = f.keys.step;
  Values columns =
      computeColumnNumbers(f, f.getFirstRow(number, keysPerTile, step), keysPerTile, step);
  Values scores = maskedScores(number, offset);
  Values before = part(carried, 0), maxima = largest(scores, before), factors;
  Values totals = part(carried, 1), outputs = part(carried, 2);
  for (auto [row, change] : llvm::enumerate(rescale(scores, before, maxima))) {
    factors.push_back(emitExp2(f, change));
    totals[row] = e.mulf(totals[row], factors[row]);
  }
  Values terms = mapScores(scores, keysPerTile, [&](Value exponent, const ElementPlace &) {
    return emitExp2(f, exponent);
  });
  mapScores(terms, keysPerTile, [&](Value term, const ElementPlace &at) {
    return totals[at.row()] = e.addf(totals[at.row()], term);
  });
  if (shape.dropout > 0) {
    terms = clearDropped(
        f, markDropped(f, terms, keysPerTile, KeyDimension::Columns, [&](const ElementPlace &at) {
          return computeElementNumber(f, head, rows[at.row()], columns[at.getFirstColumn()]);
        }));
  }
  outputs = mapScores(outputs, shape.partWidth, [&](Value output, const ElementPlace &at) {
    return e.mulf(output, factors[at.row()]);
  });
  outputs = accumulateProduct(f, terms, fragments, valueTile, offset, shape.partWidth, outputs);
  Values results(maxima);
  results.append(totals);
  results.append(outputs);
  return results;
}

/// Divides by the sums and stores outputs and log-sum-exps of the valid queries.
void Forward::emitResults(const Values &carried) {
  Values maxima = part(carried, 0), totals = part(carried, 1), scale, logarithms;
  auto sum = [&](Value x, Value y) { return e.addf(x, y); };
  for (auto [row, partial] : llvm::enumerate(totals)) {
    Value total = reduceAcrossQuad(f, partial, sum);
    Value some = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, total, f.f32(0));
    Value divisor = e.select(some, total, f.f32(1));
    scale.push_back(arith::DivFOp::create(b, f.f32(1 / (1 - shape.dropout)), divisor));
    Value logarithm = math::LogOp::create(b, divisor);
    Value shift = e.mulf(maxima[row], f.f32(f.exponentFactor()));
    logarithm = e.select(isLarger(f, shift, largestExponent),
                         e.addf(emitExactScore(f, maxima[row]), logarithm),
                         e.fma(shift, f.f32(ln2), logarithm));
    logarithms.push_back(e.select(some, logarithm, f.f32(-infinity)));
  }
  unsigned operands = op->getNumOperands();
  Source target = source(operands, head, 0);
  target.together = columnsTogether(shape, 0);
  storeRows(f, part(carried, 2), scale, target, p0, fragments, Padding::Left);
  Value lse = f.frame.buffer(operands + 1);
  auto isZero = [&](Value x) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, e.index(0));
  };
  Value mine = e.both(isZero(f.quad), isZero(f.part));
  for (auto [row, logarithm] : llvm::enumerate(logarithms)) {
    Value position = arith::IndexCastOp::create(b, b.getIndexType(), rows[row]);
    e.when(e.both(mine, e.less(position, f.queries.length)), [&, logarithm = logarithm] {
      e.store(logarithm, lse, {e.add(f.queries.base, position), head});
    });
  }
}

FailureOr<Kernel> cuda::generateAttention(dispatch::AttentionOp op, ModuleOp module,
                                          StringRef name) {
  FailureOr<AttentionShape> shape = makeShape(op);
  if (failed(shape)) {
    return failure();
  }
  return op.getDomain().getScheduled() ? generateStepAttention(op, module, name)
                                       : Forward(op, *shape, module, name).generate();
}
