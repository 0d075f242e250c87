// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception Lowers the ops of Attend.cpp to row passes of a softmax. Each row
// of a segment gathers the query of its segment, and a segment sums over its rows, as for a mean.
// So the work grows with the sequence length only, for any lengths of segments. In a decode step at
// most one segment per batch row ends: the passes then run only over its rows, and load the
// segment's values from row 0.
#include "../Fusion/RowPass.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::lowering;

namespace {

/// A row pass over rows of `heads` heads of `size` columns each.
class HeadPass : public RowPass {
public:
  HeadPass(DispatchEmitter &emitter, int64_t heads, int64_t columns)
      : RowPass(emitter), count(heads), size(columns / heads) {}

  /// Returns the row as D rows of H heads, or as it is if heads have one column.
  Value read(Value tensor, int64_t factor) {
    return size > 1 ? heads(tensor, factor, count) : row(tensor, factor);
  }
  /// Returns row 0 of a tensor [B, 1, d] in the same form.
  Value readFirst(Value tensor) {
    return size > 1 ? firstHeads(tensor, count) : first(tensor, count);
  }
  /// Broadcasts one number per head to each column of the head.
  Value every(Value ofHeads) {
    auto type = cast<RankedTensorType>(ofHeads.getType());
    auto rows = RankedTensorType::get({size, count}, type.getElementType());
    return size > 1 ? Value(dispatch::SpreadOp::create(b, rows, ofHeads)) : ofHeads;
  }
  Value sum(Value rows) {
    auto type = RankedTensorType::get({count}, b.getF32Type());
    return size > 1
               ? Value(dispatch::ReduceGroupOp::create(b, type, dispatch::ReduceKind::Add, rows))
               : rows;
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  /// Returns exp(x - y).
  Value chance(Value x, Value y) { return math::ExpOp::create(b, sub(x, y)); }
  /// Returns the scaled products of queries and keys, one number per head.
  Value scores(Value query, Value key) {
    auto type = RankedTensorType::get({count}, b.getF32Type());
    float scale = 1 / std::sqrt(static_cast<float>(size));
    Value factor = arith::ConstantOp::create(b, DenseElementsAttr::get(type, scale));
    return mul(sum(mul(query, key)), factor);
  }
  /// Returns the gradient of the products of queries and keys, from the probabilities and their
  /// gradients.
  Value scoreGradient(Value chance, Value ofChance, Value mean) {
    auto type = cast<RankedTensorType>(chance.getType());
    float scale = 1 / std::sqrt(static_cast<float>(size));
    Value factor = arith::ConstantOp::create(b, DenseElementsAttr::get(type, scale));
    return mul(mul(chance, factor), sub(ofChance, mean));
  }

  const int64_t count, size;
};

/// The two scales of an op on segments, and the bounds of a segment's rows.
template <typename Op> struct Scales {
  Scales(Op op, DispatchEmitter &emitter)
      : op(op), emitter(emitter), heads(static_cast<int64_t>(op.getHeads())),
        columns(getSequenceWidth(op.getQuery())), fine(emitter.getRowDomain(op.getKey())),
        coarse(emitter.getRowDomain(op.getQuery())),
        fineFactor(emitter.getScaleFactor(op.getKey())),
        coarseFactor(emitter.getScaleFactor(op.getQuery())), isStep(emitter.isStep(op)) {}

  HeadPass pass() const { return {emitter, heads, columns}; }
  /// Returns the type of rows of a scale, f32.
  RankedTensorType rows(Value like, int64_t width) const {
    auto type = emitter.getTensorType(like);
    return RankedTensorType::get({type.getDimSize(0), type.getDimSize(1), width},
                                 emitter.b.getF32Type());
  }
  /// Returns, for a row of the finer scale, the number of its segment and whether the segment is
  /// closed.
  std::pair<Value, Value> getSegmentBounds(RowPass &pass) const {
    Op own = op;
    Value index = pass.count(own.getCounts(), -1), last = pass.end(own.getEnds(), index, 0);
    return {index, isClosedSegment(pass.b, last, countPositions(own.getCounts(), emitter))};
  }
  /// Returns, for a segment, the end before it, its own end, and whether it is closed.
  std::tuple<Value, Value, Value> getSegmentEnds(RowPass &pass) const {
    Op own = op;
    Value before = pass.end(own.getEnds(), -1), last = pass.end(own.getEnds(), 0);
    return {before, last, isClosedSegment(pass.b, last, countPositions(own.getCounts(), emitter))};
  }

  /// Returns the values of the segment of a row of the finer scale, from rows of segments.
  Value ofSegment(RowPass &pass, Value tensor, int64_t width) const {
    return isStep ? pass.first(tensor, width)
                  : pass.gather(tensor, pass.count(Op(op).getCounts(), -1), 0);
  }
  /// Finishes rows of the finer scale: in a step, the rows of the segment that ends.
  Value finishFine(HeadPass &pass, Value row, int64_t width) const {
    Value made = pass.finish(row, rows(Op(op).getKey(), width), fine);
    if (isStep) {
      emitter.setExtent(made.getDefiningOp(), StepValues::DispatchExtent::Members);
    }
    return made;
  }
  /// Finishes rows of segments, f32.
  Value finishCoarse(RowPass &pass, Value row, int64_t width) const {
    RankedTensorType type = rows(Op(op).getQuery(), width);
    type = isStep ? RankedTensorType::get({type.getDimSize(0), 1, width}, type.getElementType())
                  : type;
    return pass.finish(row, type, coarse);
  }

  Op op;
  DispatchEmitter &emitter;
  int64_t heads, columns;
  dispatch::DomainAttr fine, coarse;
  int64_t fineFactor, coarseFactor;
  bool isStep;
};

} // namespace

/// Repeats rows of segments at the rows of their segments.
template <typename Op>
static SmallVector<Value> spread(const Scales<Op> &scales, ArrayRef<Value> tensors) {
  RowPass pass(scales.emitter);
  Value index = pass.count(Op(scales.op).getCounts(), -1);
  SmallVector<Value> rows;
  SmallVector<RankedTensorType> types;
  for (Value tensor : tensors) {
    rows.push_back(pass.gather(tensor, index, 0));
    types.push_back(scales.rows(Op(scales.op).getKey(), scales.columns));
  }
  return pass.finish(rows, types, scales.fine);
}

/// Computes scores [B, T, H]. The query is repeated at its segment's rows; in a step, it is copied.
static Value computeScores(const Scales<AttendSegmentsOp> &scales) {
  AttendSegmentsOp op = scales.op;
  DispatchEmitter &emitter = scales.emitter;
  Value query;
  if (scales.isStep) {
    RowPass copy(emitter);
    query = scales.finishCoarse(copy, copy.row(op.getQuery()), scales.columns);
  } else {
    query = spread(scales, {emitter.get(op.getQuery())}).front();
  }
  HeadPass pass = scales.pass();
  Value own = scales.isStep ? pass.readFirst(query) : pass.read(query, scales.fineFactor);
  Value product = pass.scores(own, pass.read(emitter.get(op.getKey()), scales.fineFactor));
  return scales.finishFine(pass, product, scales.heads);
}

/// Returns the logarithm of the sum of each head's exponentials, [B, S, H], from scores [B, T, H];
/// zeros for segments that are not closed.
static Value sumExponentials(const Scales<AttendSegmentsOp> &scales, Value scores) {
  HeadPass most = scales.pass();
  auto [before, last, isClosed] = scales.getSegmentEnds(most);
  Value greatest = scales.finishCoarse(
      most, most.over(scores, scales.fineFactor, before, last, 1, /*isGreatest=*/true),
      scales.heads);
  HeadPass weigh = scales.pass();
  Value ofSegment = scales.ofSegment(weigh, greatest, scales.heads);
  Value weights = scales.finishFine(
      weigh, weigh.chance(weigh.row(scores, scales.fineFactor), ofSegment), scales.heads);
  HeadPass add = scales.pass();
  auto [first, end, isThere] = scales.getSegmentEnds(add);
  Value sum = add.over(weights, scales.fineFactor, first, end, 1, /*isGreatest=*/false);
  Value lse = add.add(add.row(greatest, scales.coarseFactor), math::LogOp::create(add.b, sum));
  return scales.finishCoarse(add, selectRow(add.b, isThere, lse), scales.heads);
}

LogicalResult AttendSegmentsOp::emitDispatches(DispatchEmitter &emitter) {
  Scales<AttendSegmentsOp> scales(*this, emitter);
  Value scores = computeScores(scales), lse = sumExponentials(scales, scores);
  HeadPass mix = scales.pass();
  Value ofSegment = scales.ofSegment(mix, lse, scales.heads);
  Value chance = mix.chance(mix.row(scores, scales.fineFactor), ofSegment);
  Value share = mix.mul(mix.every(chance), mix.read(emitter.get(getValue()), scales.fineFactor));
  Value shares = scales.finishFine(mix, share, scales.columns);
  HeadPass add = scales.pass();
  auto [before, last, isClosed] = scales.getSegmentEnds(add);
  Value sum = add.over(shares, scales.fineFactor, before, last, 1, /*isGreatest=*/false);
  emitter.set(getLse(), lse);
  return add.finish(selectRow(add.b, isClosed, sum), getOutput());
}

/// Each row computes its probability from the sums of exponentials, and its part of the query's
/// gradient, which the segment adds up.
LogicalResult AttendSegmentsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  Scales<AttendSegmentsBackwardOp> scales(*this, emitter);
  int64_t factor = scales.fineFactor;
  HeadPass mean = scales.pass();
  Value means =
      mean.finish(mean.sum(mean.mul(mean.read(emitter.get(getGradient()), scales.coarseFactor),
                                    mean.read(emitter.get(getOutput()), scales.coarseFactor))),
                  scales.rows(getQuery(), scales.heads), scales.coarse);
  SmallVector<Value> here = spread(scales, {emitter.get(getQuery()), emitter.get(getGradient())});
  HeadPass pass = scales.pass();
  auto [index, isClosed] = scales.getSegmentBounds(pass);
  Value lse = pass.gather(emitter.get(getLse()), index, 0), own = pass.gather(means, index, 0);
  Value query = pass.read(here[0], factor), gradient = pass.read(here[1], factor),
        key = pass.read(emitter.get(getKey()), factor),
        value = pass.read(emitter.get(getValue()), factor);
  Value chance = pass.chance(pass.scores(query, key), lse);
  Value score = pass.every(pass.scoreGradient(chance, pass.sum(pass.mul(gradient, value)), own));
  SmallVector<Value> made = pass.finish(
      {selectRow(pass.b, isClosed, pass.mul(score, query)),
       selectRow(pass.b, isClosed, pass.mul(pass.every(chance), gradient)),
       selectRow(pass.b, isClosed, pass.mul(score, key))},
      {emitter.getTensorType(getKeyGradient()), emitter.getTensorType(getValueGradient()),
       scales.rows(getKey(), scales.columns)},
      scales.fine);
  emitter.set(getKeyGradient(), made[0]);
  emitter.set(getValueGradient(), made[1]);
  HeadPass add = scales.pass();
  auto [before, last, isThere] = scales.getSegmentEnds(add);
  Value sum = add.over(made[2], factor, before, last, 1, /*isGreatest=*/false);
  return add.finish(selectRow(add.b, isThere, sum), getQueryGradient());
}

//===----------------------------------------------------------------------===//
// Keys next to the row
//===----------------------------------------------------------------------===//

/// Returns the probabilities of a row's keys, one number per head and key.
static SmallVector<Value> computeProbabilities(HeadPass &pass, Value query, ArrayRef<Value> keys) {
  SmallVector<Value> chances;
  Value greatest, sum;
  for (Value key : keys) {
    chances.push_back(pass.scores(query, key));
    greatest = greatest ? Value(arith::MaximumFOp::create(pass.b, greatest, chances.back()))
                        : chances.back();
  }
  for (Value &chance : chances) {
    chance = pass.chance(chance, greatest);
    sum = sum ? pass.add(sum, chance) : chance;
  }
  for (Value &chance : chances) {
    chance = arith::DivFOp::create(pass.b, chance, sum);
  }
  return chances;
}

LogicalResult AttendPartsOp::emitDispatches(DispatchEmitter &emitter) {
  HeadPass pass(emitter, static_cast<int64_t>(getHeads()), getSequenceWidth(getQuery()));
  auto read = [&](Value rows) {
    return pass.read(emitter.get(rows), emitter.getScaleFactor(rows));
  };
  SmallVector<Value> chances =
      computeProbabilities(pass, read(getQuery()), llvm::map_to_vector(getKeys(), read));
  Value sum;
  for (auto [chance, value] : llvm::zip_equal(chances, getValues())) {
    Value share = pass.mul(pass.every(chance), read(value));
    sum = sum ? pass.add(sum, share) : share;
  }
  return pass.finish(sum, getResult());
}

LogicalResult AttendPartsBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  HeadPass pass(emitter, static_cast<int64_t>(getHeads()), getSequenceWidth(getQuery()));
  auto read = [&](Value rows) {
    return pass.read(emitter.get(rows), emitter.getScaleFactor(rows));
  };
  Value query = read(getQuery()), gradient = read(getGradient());
  SmallVector<Value> keys = llvm::map_to_vector(getKeys(), read);
  SmallVector<Value> chances = computeProbabilities(pass, query, keys), ofChances, ofKeys, ofValues;
  Value mean, ofQuery;
  for (auto [chance, value] : llvm::zip_equal(chances, getValues())) {
    ofChances.push_back(pass.sum(pass.mul(gradient, read(value))));
    Value share = pass.mul(chance, ofChances.back());
    mean = mean ? pass.add(mean, share) : share;
    ofValues.push_back(pass.mul(pass.every(chance), gradient));
  }
  for (auto [chance, ofChance, key] : llvm::zip_equal(chances, ofChances, keys)) {
    Value score = pass.every(pass.scoreGradient(chance, ofChance, mean));
    ofKeys.push_back(pass.mul(score, query));
    Value share = pass.mul(score, key);
    ofQuery = ofQuery ? pass.add(ofQuery, share) : share;
  }
  SmallVector<Value> all = {ofQuery};
  llvm::append_range(all, ofKeys);
  llvm::append_range(all, ofValues);
  SmallVector<RankedTensorType> types = llvm::map_to_vector(
      getGradients(), [&](Value gradient) { return emitter.getTensorType(gradient); });
  SmallVector<Value> made = pass.finish(all, types, emitter.getRowDomain(getQuery()));
  for (auto [gradient, tensor] : llvm::zip_equal(getGradients(), made)) {
    emitter.set(gradient, tensor);
  }
  return success();
}
