// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes rows of segments from rows of the stream, and back. Scans over rows, moving averages
// (Hwang et al. 2025) and maxima of segments, are recurrences.
#include "SpecToSluice.h"
#include "sluice/Dialect/Sluice/Recurrence.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

//===----------------------------------------------------------------------===//
// Scans
//===----------------------------------------------------------------------===//

Value spec_to_sluice::createScan(StageContext &c, ValueRange inputs, ScalarJoin join) {
  auto scan = RecurrenceOp::create(c.b, TypeRange{inputs.front().getType()}, inputs,
                                   /*reset=*/Value(), /*weight=*/Value(), /*reversed=*/false,
                                   /*reset_every=*/0, /*reset_at=*/0, /*reset_within=*/0);
  OpBuilder::InsertionGuard guard(c.b);
  Block *cell = c.b.createBlock(&scan.getCell());
  SmallVector<ScalarValue> v;
  for (size_t i = 0; i <= inputs.size(); ++i) {
    v.emplace_back(c.b, cell->addArgument(c.b.getF32Type(), c.b.getLoc()));
  }
  YieldOp::create(c.b, ValueRange{join(v)});
  return scan.getResults().front();
}

using Join = function_ref<ScalarValue(ScalarValue row, ScalarValue part, ScalarValue before)>;

/// Creates a recurrence over rows: row t is `join` of row t of x, of the row's number in `left` and
/// of the row before it, zeros before the first.
static Value createScan(StageContext &c, StringRef what, Value x, Value left, Join join) {
  c.setName((what + ".left.wide").str());
  Value wide = c.createRepeated(left, x);
  c.setName(what);
  return spec_to_sluice::createScan(
      c, {x, wide}, [&](ArrayRef<ScalarValue> v) { return join(v[0], v[1], v[2]); });
}

/// Computes z[m] = P[m] x[m] + (1 - P[m]) z[m - 1] with z[-1] = 0, where P is the probability of
/// the bit at e(m) (equation 5).
static Value createSmoothed(StageContext &c, Value x, const Segmentation &of) {
  auto &b = c.b;
  constexpr double least = 1e-4; // minimum distance of a probability from 0 and 1
  auto scale = cast<SequenceType>(x.getType()).getScale();
  c.setName("chance");
  Value left =
      SelectSegmentsOp::create(b, SequenceType::get(b.getContext(), scale, 1, b.getF32Type()),
                               of.chances, of.counts, of.ends);
  c.setName("number");
  left = c.createColumnSum(left);
  c.setName("left");
  left = c.createMap(left, [](ArrayRef<ScalarValue> v) {
    ScalarValue part = min(max(v[0], least), 1 - least);
    return 1 - part;
  });
  c.setName("left.wide");
  Value wide = c.createRepeated(left, x);
  c.setName("own");
  x = c.createMap({x, wide}, [](ArrayRef<ScalarValue> v) { return v[0] * (1 - v[1]); });
  return createScan(
      c, "smooth", x, left,
      [](ScalarValue row, ScalarValue part, ScalarValue before) { return row + part * before; });
}

/// Creates 1 in rows that continue the segment of the row before, 0 in the others and in the first.
static Value createOpenRows(StageContext &c, const Segmentation &of) {
  c.setName("unset");
  Value unset =
      c.createMap(of.bits, [](ArrayRef<ScalarValue> v) { return selectAbove(v[0], 0.5, 0, 1); });
  c.setName("open"); // a row continues the segment of the row before, unless
                     // that has a bit
  Value open = c.createShift(unset, 1);
  c.setName("left");
  return open;
}

/// Puts each row at its place in its segment, so that the sum over a segment is the concatenation
/// of its rows, with zeros for rows that it lacks.
static Value createPlaced(StageContext &c, Value x, const Segmentation &of, int64_t width) {
  Value open = c.materialize("open.rows", createOpenRows(c, of));
  c.setName("places");
  Value places =
      createScan(c, ValueRange{open}, [](ArrayRef<ScalarValue> v) { return v[0] * (v[1] + 1); });
  c.setName("place.number");
  places = c.createColumnSum(places);
  c.setName("place");
  auto type = cast<SequenceType>(x.getType());
  return PlaceOp::create(
      c.b, SequenceType::get(c.b.getContext(), type.getScale(), width, type.getElement()), x,
      places);
}

/// Computes in row t the maximum, column by column, of the rows of its segment up to t; the last
/// row has the segment's maximum. Among equal rows the earlier one gets the gradient.
static Value createMaxima(StageContext &c, Value x, const Segmentation &of) {
  Value left = c.createColumnSum(createOpenRows(c, of));
  return createScan(c, "greatest", x, left,
                    [](ScalarValue row, ScalarValue part, ScalarValue before) {
                      ScalarValue greater = max(row, before); // ties count as the second
                      return selectAbove(part, part.get(0.5), greater, row);
                    });
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

SequenceType spec_to_sluice::withScale(StageContext &c, Value rows, Value scale) {
  auto type = cast<SequenceType>(rows.getType());
  return SequenceType::get(c.b.getContext(), cast<SequenceType>(scale.getType()).getScale(),
                           type.getWidth(), type.getElement());
}

Value spec_to_sluice::createSegmentSums(StageContext &c, Value x, const Segmentation &of,
                                        bool isMean) {
  return PoolSegmentsOp::create(c.b, withScale(c, x, of.ends), x, of.bits, of.counts, of.ends,
                                /*starts=*/false, /*sum=*/!isMean);
}

Value spec_to_sluice::createSegmentSizes(StageContext &c, const Segmentation &of) {
  c.setName("ones");
  Value ones = c.createConstants(of.bits, 1);
  c.setName("sizes");
  return createSegmentSums(c, ones, of);
}

Value spec_to_sluice::createGatedRows(StageContext &c, Value x, Value numbers,
                                      function_ref<ScalarValue(ScalarValue)> gate) {
  c.setName("gate");
  Value gates = c.createMap(numbers, [&](ArrayRef<ScalarValue> v) { return gate(v[0]); });
  c.setName("gate.number");
  gates = c.createColumnSum(gates);
  c.setName("gate.wide");
  Value wide = c.createRepeated(gates, x);
  c.setName("gated");
  return c.createProduct(x, wide);
}

Value spec_to_sluice::poolSegments(StageContext &c, spec::ShortenOp op) {
  using spec::ShortenMethod;
  bool isMaximum = op.getMethod() == ShortenMethod::max;
  bool isSelection =
      op.getMethod() == ShortenMethod::first || op.getMethod() == ShortenMethod::last;
  Value x = c.getValue(op.getInput());
  const Segmentation &of = c.getSegmentation(op.getSegments());
  if (of.begins && !isSelection) { // from row e(m - 1) to the row before e(m)
    c.setName("before");
    x = c.createShift(x, 1);
  }
  x = c.materialize("rows", x);
  SequenceType type = c.getSequence(1, c.getWidth(), c.residualType);
  x = isMaximum ? createMaxima(c, x, of) : x;
  if (op.getMethod() == ShortenMethod::stack) {
    x = createPlaced(c, x, of, c.getWidth());
  }
  c.setName("pool");
  if (isSelection || isMaximum) {
    return SelectSegmentsOp::create(c.b, type, x, of.counts, of.ends);
  }
  x = createSegmentSums(c, x, of, op.getMethod() == ShortenMethod::average);
  if (op.getMethod() != ShortenMethod::normalized) {
    return x;
  }
  return createGatedRows(c, x, createSegmentSizes(c, of),
                         [](ScalarValue n) { return 1 / sqrt(max(n, 1)); });
}

//===----------------------------------------------------------------------===//
// Spreading
//===----------------------------------------------------------------------===//

/// Creates a gate that is 1 everywhere, with the derivative of the router's confidence: p at a bit,
/// 1 - p elsewhere (Hwang et al. 2025, equations 6 to 9).
static ScalarValue createSureGate(StageContext &c, ScalarValue chance) {
  ScalarValue one = c.createNumber(1), half = c.createNumber(0.5);
  ScalarValue isSet = isAtLeast(chance, half), sure = select(isSet, chance, one - chance);
  return {c.b, dispatch::StraightThroughOp::create(c.b, c.b.getF32Type(), one, sure)};
}

/// Creates a gate that is 1 at bits and 0 elsewhere, without a gradient.
static ScalarValue createBitGate(StageContext &c, ScalarValue bit) {
  ScalarValue one = c.createNumber(1), half = c.createNumber(0.5);
  return selectAbove(bit, half, one, c.createNumber(0));
}

Value spec_to_sluice::createOwnSegments(StageContext &c, Value x, const Segmentation &of) {
  return SpreadSegmentsOp::create(c.b, withScale(c, x, of.counts), x, of.counts, of.ends, /*by=*/0,
                                  /*own=*/true);
}

/// The first segment begins at 0, as a spread has zeros where it has no row.
SmallVector<Value> spec_to_sluice::createSegmentRange(StageContext &c, const std::string &part,
                                                      const Segmentation &of) {
  c.setName(part + ".next");
  Value next = c.createMap(of.ends, [&](ArrayRef<ScalarValue> v) {
    Value one = arith::ConstantOp::create(c.b, c.b.getI32IntegerAttr(1));
    return arith::AddIOp::create(c.b, v[0], one);
  });
  SmallVector<Value> range;
  for (int64_t by : {1, 0}) {
    c.setName(part + (by == 1 ? ".first" : ".end"));
    range.push_back(SpreadSegmentsOp::create(c.b, of.counts.getType(), next, of.counts, of.ends, by,
                                             /*own=*/true));
  }
  return range;
}

Value spec_to_sluice::spreadSegments(StageContext &c, spec::UpsampleOp op) {
  bool smooths = op.getMethod() == spec::UpsampleMethod::smooth,
       scatters = op.getMethod() == spec::UpsampleMethod::scatter;
  Value x = c.materialize("rows", c.getValue(op.getInput()));
  const Segmentation &of = c.getSegmentation(op.getSegments());
  x = smooths ? createSmoothed(c, x, of) : x;
  c.setName("spread");
  x = SpreadSegmentsOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType), x,
                               of.counts, of.ends, *op.getBy(),
                               op.getMethod() == spec::UpsampleMethod::own);
  if (!scatters && !smooths) {
    return x;
  }
  return createGatedRows(c, x, scatters ? of.bits : of.chances, [&](ScalarValue v) {
    return scatters ? createBitGate(c, v) : createSureGate(c, v);
  });
}
