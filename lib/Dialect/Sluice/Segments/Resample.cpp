// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements rows of a text from rows of its segments by their numbers alone, and the adjoint.
#include "../Cost.h"
#include "../Fusion/RowPass.h"
#include "../Reference/Reference.h"
#include "../Scales/Windows.h"
#include "sluice/Dialect/Plan/Plan.h"

#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::lowering;
using namespace sluice::reference;

//===----------------------------------------------------------------------===//
// Verifier, positions, operations, backward
//===----------------------------------------------------------------------===//

LogicalResult ResampleOp::verify() {
  auto fine = cast<SequenceType>(getFine().getType()),
       coarse = cast<SequenceType>(getCoarse().getType());
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(*this, coarse.getScale());
  AxisOp axis =
      scale ? SymbolTable::lookupNearestSymbolFrom<AxisOp>(*this, scale.getAxisAttr()) : AxisOp();
  if (!axis || axis.getSegmentsAttr() != fine.getScale() || scale.getFactor() != 1 ||
      !isGiven(*this, fine) || fine.getWidth() != coarse.getWidth() ||
      !dispatch::isStorageType(fine.getElement()) ||
      !dispatch::isStorageType(coarse.getElement())) {
    return emitOpError("S-164: expected rows of a given axis and rows of its segments, of as many "
                       "columns, found ")
           << fine << " and " << coarse;
  }
  return success();
}

/// Numbers of rows decide which rows are read: any of the other scale.
std::optional<IntegerSet> ResampleOp::getRelation(unsigned) {
  AffineExpr q = getAffineDimExpr(1, getContext()), n = getAffineSymbolExpr(0, getContext());
  return IntegerSet::get(2, 1, {q, n - 1 - q}, {false, false});
}
AffineExpr ResampleOp::getLatest(unsigned) { return {}; }

/// Per element of the text at most two products and two sums.
Cost ResampleOp::getCost() {
  return facts::cost(*this, (getLinear() ? 4 : 1) * facts::elements(*this, getFine()));
}

LogicalResult ResampleOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                        MutableArrayRef<Value> operands) {
  UnitAttr other = getTransposed() ? UnitAttr() : b.getUnitAttr();
  operands[0] =
      ResampleOp::create(b, getLoc(), getInput().getType(),
                         facts::withinLength(b, getLoc(), results[0]), getLinearAttr(), other);
  return success();
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

namespace {

/// Returns the number of valid rows, an i64.
Value loadRowCount(RowPass &pass, Value sequence, DispatchEmitter &emitter) {
  Value counts = emitter.getCounts(cast<SequenceType>(sequence.getType()));
  int64_t batch = cast<RankedTensorType>(counts.getType()).getDimSize(0);
  auto column = RankedTensorType::get({batch, 1}, emitter.b.getI64Type());
  return pass.first(plan::ViewOp::create(emitter.b, column, counts), 0);
}

/// Integer arithmetic on the numbers of rows L and of segments U of a text, i64. Products fit, as
/// texts have fewer than 2^31 rows.
class RowNumbers {
public:
  RowNumbers(ResampleOp op, RowPass &pass, DispatchEmitter &emitter)
      : b(pass.b), rows(maximum(loadRowCount(pass, op.getFine(), emitter), 1)),
        segments(maximum(loadRowCount(pass, op.getCoarse(), emitter), 1)),
        position(arith::ExtSIOp::create(b, b.getI64Type(),
                                        dispatch::PositionOp::create(b, b.getI32Type()))) {}

  Value constant(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value subtract(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value multiply(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value twice(Value x) { return multiply(x, constant(2)); }
  Value divide(Value x, Value y) { return arith::DivSIOp::create(b, x, y); }
  Value minimum(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
  Value maximum(Value x, int64_t y) { return arith::MaxSIOp::create(b, x, constant(y)); }
  Value narrow(Value x) { return arith::TruncIOp::create(b, b.getI32Type(), x); }
  Value convert(Value x) { return arith::SIToFPOp::create(b, b.getF32Type(), x); }

  /// Returns the segment of the position's row: floor(p U / L).
  Value findNearest() { return narrow(divide(multiply(position, segments), rows)); }

  /// Returns m, m + 1, 1 - f and f for the position's row; m + 1 is limited to the last segment.
  SmallVector<Value> findNeighbours() {
    Value odd = add(twice(position), constant(1)), whole = twice(rows);
    Value scaled = maximum(subtract(multiply(odd, segments), rows), 0);
    Value first = divide(scaled, whole), last = subtract(segments, constant(1));
    Value left = subtract(scaled, multiply(first, whole));
    Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, first, last);
    left = arith::SelectOp::create(b, isLast, constant(0), left);
    Value share = arith::DivFOp::create(b, convert(left), convert(whole));
    Value rest = arith::DivFOp::create(b, convert(subtract(whole, left)), convert(whole));
    Value next = minimum(add(first, constant(1)), last);
    return {narrow(minimum(first, last)), narrow(next), rest, share};
  }

  /// Returns the first row of segment p + `offset`: the minimum i with floor(i U / L) >= u or, if
  /// `isLinear`, with m >= u. It is L after the last segment.
  Value findFirst(int64_t offset, bool isLinear) {
    Value u = add(position, constant(offset));
    Value least = isLinear ? subtract(multiply(rows, add(twice(u), constant(1))), segments)
                           : multiply(rows, u);
    Value step = isLinear ? twice(segments) : segments;
    Value first = divide(add(least, subtract(step, constant(1))), step);
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, u, constant(0));
    return narrow(minimum(arith::SelectOp::create(b, isInside, first, constant(0)), rows));
  }

private:
  ImplicitLocOpBuilder &b;
  Value rows, segments, position;
};

/// Creates a pass over the rows of `sequence` whose results are numbers.
template <typename Compute>
SmallVector<Value> createNumbers(ResampleOp op, Value sequence, DispatchEmitter &emitter,
                                 Compute compute) {
  RowPass pass(emitter);
  RowNumbers numbers(op, pass, emitter);
  SmallVector<Value> yielded = compute(numbers);
  ArrayRef<int64_t> shape = emitter.getTensorType(sequence).getShape();
  SmallVector<RankedTensorType> types;
  for (Value number : yielded) {
    types.push_back(RankedTensorType::get(shape.take_front(2), number.getType()));
  }
  return pass.finish(yielded, types, emitter.getRowDomain(sequence));
}

/// Creates m, m + 1, 1 - f and f of each row of the text, or the nearest segment alone.
SmallVector<Value> createPlaces(ResampleOp op, DispatchEmitter &emitter) {
  return createNumbers(op, op.getFine(), emitter, [&](RowNumbers &numbers) {
    return op.getLinear() ? numbers.findNeighbours() : SmallVector<Value>{numbers.findNearest()};
  });
}

LogicalResult spreadRows(ResampleOp op, DispatchEmitter &emitter) {
  SmallVector<Value> places = createPlaces(op, emitter);
  RowPass pass(emitter);
  SmallVector<Value> own;
  for (Value place : places) {
    own.push_back(pass.element(place, AccessKind::Row));
  }
  Value row = pass.gather(op.getInput(), own[0], 0, /*whole=*/true);
  if (op.getLinear()) {
    Value next = pass.gather(op.getInput(), own[1], 0, /*whole=*/true);
    row = arith::AddFOp::create(pass.b, scaleRow(pass.b, row, own[2]),
                                scaleRow(pass.b, next, own[3]));
  }
  // Sums over rows of a gradient include rows past the last valid one.
  Value position = dispatch::PositionOp::create(pass.b, pass.b.getI32Type()),
        count = arith::TruncIOp::create(pass.b, pass.b.getI32Type(),
                                        loadRowCount(pass, op.getFine(), emitter));
  Value isValid = arith::CmpIOp::create(pass.b, arith::CmpIPredicate::slt, position, count);
  return pass.finish(selectRow(pass.b, isValid, row), op.getResult());
}

/// Sums rows by segment m, and by segment m + 1 with the other weights.
LogicalResult sumRows(ResampleOp op, DispatchEmitter &emitter) {
  bool isLinear = op.getLinear();
  SmallVector<Value> places = isLinear ? createPlaces(op, emitter) : SmallVector<Value>();
  SmallVector<Value> bounds = createNumbers(op, op.getCoarse(), emitter, [&](RowNumbers &numbers) {
    SmallVector<Value> firsts;
    for (int64_t offset = isLinear ? -1 : 0; offset <= 1; ++offset) {
      firsts.push_back(numbers.findFirst(offset, isLinear));
    }
    return firsts;
  });
  RowPass pass(emitter);
  SmallVector<Value> first;
  for (Value bound : bounds) {
    first.push_back(pass.element(bound, AccessKind::Row));
  }
  if (!isLinear) {
    return pass.finish(pass.sum(op.getInput(), first[0], first[1], 0), op.getResult());
  }
  Value rest = pass.element(places[2], AccessKind::Row),
        share = pass.element(places[3], AccessKind::Row);
  Value own = pass.sum(op.getInput(), first[1], first[2], 0, rest),
        before = pass.sum(op.getInput(), first[0], first[1], 0, share);
  return pass.finish(arith::AddFOp::create(pass.b, own, before), op.getResult());
}

} // namespace

LogicalResult ResampleOp::emitDispatches(DispatchEmitter &emitter) {
  return getTransposed() ? sumRows(*this, emitter) : spreadRows(*this, emitter);
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

/// Returns the entries of row p of T, by segment.
template <typename T>
static SmallVector<std::pair<int64_t, T>> getEntries(ResampleOp op, int64_t p, int64_t rows,
                                                     int64_t segments) {
  if (!op.getLinear()) {
    return {{p * segments / rows, T(1)}};
  }
  T place = (static_cast<T>(p) + T(0.5)) * static_cast<T>(segments) / static_cast<T>(rows) - T(0.5);
  place = std::clamp(place, T(0), static_cast<T>(segments - 1));
  auto first = static_cast<int64_t>(std::floor(place));
  T share = place - static_cast<T>(first);
  return {{first, 1 - share}, {std::min(first + 1, segments - 1), share}};
}

template <typename T> static void evaluate(ResampleOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t position) {
    int64_t rows = evaluator.getCount(op.getFine(), b),
            segments = evaluator.getCount(op.getCoarse(), b);
    std::vector<T> y(static_cast<size_t>(reference::getColumns(op.getResult())));
    auto addRow = [&](int64_t q, T weight) {
      for (size_t c = 0; c < y.size(); ++c) {
        y[c] += weight * evaluator.at(op.getInput(), b, q, static_cast<int64_t>(c));
      }
    };
    bool isValid = position < (op.getTransposed() ? segments : rows);
    for (int64_t p = 0; p < rows && isValid; ++p) {
      for (auto [segment, weight] : getEntries<T>(op, p, rows, segments)) {
        if (op.getTransposed() ? segment == position : p == position) {
          addRow(op.getTransposed() ? p : segment, weight);
        }
      }
    }
    return y;
  });
}

SLUICE_REFERENCE(ResampleOp)
