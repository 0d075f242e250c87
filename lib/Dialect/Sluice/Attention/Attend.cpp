// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention between a scale and its segments: verifiers, positions, work and backward. Reference:
// Reference/Attend.cpp; lowering: AttendLowering.cpp.
#include "../Cost.h"
#include "../Scales/Windows.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;
using dispatch::RowReadList;

static SequenceType toSequenceType(Value value) { return cast<SequenceType>(value.getType()); }

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// Verifies rows of complete heads: the columns of `like`, on `scale`.
static LogicalResult verifyHeads(Operation *op, ValueRange rows, Value like, int64_t heads) {
  int64_t width = toSequenceType(like).getWidth();
  bool fits = heads >= 1 && width >= 1 && width % heads == 0 && llvm::all_of(rows, [&](Value row) {
                return toSequenceType(row).getWidth() == width;
              });
  if (!fits) {
    return op->emitOpError("S-129: expected queries, keys, values and results of as many columns, "
                           "equally many for each of ")
           << heads << " heads, found " << like.getType() << " and " << rows.front().getType();
  }
  return success();
}

LogicalResult AttendSegmentsOp::verify() {
  auto heads = static_cast<int64_t>(getHeads());
  if (failed(verifyHeads(*this, {getKey(), getValue(), getOutput()}, getQuery(), heads))) {
    return failure();
  }
  auto fine = toSequenceType(getCounts()).getScale(), coarse = toSequenceType(getEnds()).getScale();
  SequenceType lse = toSequenceType(getLse());
  auto scale = SymbolTable::lookupNearestSymbolFrom<ScaleOp>(*this, coarse);
  auto axis =
      scale ? SymbolTable::lookupNearestSymbolFrom<AxisOp>(*this, scale.getAxisAttr()) : AxisOp();
  bool areSegments = axis && axis.getSegmentsAttr() == fine && scale.getFactor() == 1;
  if (!areSegments || toSequenceType(getKey()).getScale() != fine ||
      toSequenceType(getValue()).getScale() != fine ||
      toSequenceType(getQuery()).getScale() != coarse ||
      toSequenceType(getOutput()).getScale() != coarse || lse.getScale() != coarse ||
      lse.getWidth() != heads || !lse.getElement().isF32()) {
    return emitOpError("S-147: expected keys and values on the counts' scale ")
           << fine
           << ", and on the scale of its segments queries, results and sums of f32 per head, "
           << "found " << getKey().getType() << ", " << getValue().getType() << ", "
           << getQuery().getType() << ", " << getOutput().getType() << " and " << lse;
  }
  return success();
}

LogicalResult AttendPartsOp::verify() {
  auto heads = static_cast<int64_t>(getHeads());
  SmallVector<Value> rows(getKeys());
  llvm::append_range(rows, getValues());
  rows.push_back(getResult());
  bool areBeside = llvm::all_of(rows, [&](Value row) {
    return toSequenceType(row).getScale() == toSequenceType(getQuery()).getScale();
  });
  if (getKeys().empty() || getKeys().size() != getValues().size() || !areBeside) {
    return emitOpError("S-148: expected one or more keys on the query's scale, and as many values, "
                       "found ")
           << getKeys().size() << " keys and " << getValues().size() << " values";
  }
  return verifyHeads(*this, rows, getQuery(), heads);
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// Relation of the query: its own row; of keys and values: e(p - 1) < q <= e(p), bounded by two
/// terms.
std::optional<IntegerSet> AttendSegmentsOp::getRelation(unsigned operand) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  if (operand == getQueryMutable().getOperandNumber()) {
    return IntegerSet::get(2, 1, {q - p}, {true});
  }
  if (operand == getCountsMutable().getOperandNumber()) {
    return std::nullopt;
  }
  if (operand == getEndsMutable().getOperandNumber()) {
    return IntegerSet::get(2, 1, {q - p + 1, p - q}, {false, false});
  }
  AffineExpr before = getAffineSymbolExpr(1, getContext()),
             last = getAffineSymbolExpr(2, getContext());
  return IntegerSet::get(2, 3, {q - before - 1, last - q}, {false, false});
}

AffineExpr AttendSegmentsOp::getLatest(unsigned operand) {
  bool isMoved = operand == getKeyMutable().getOperandNumber() ||
                 operand == getValueMutable().getOperandNumber();
  return isMoved ? getAffineSymbolExpr(2, getContext()) : getAffineDimExpr(0, getContext());
}

SegmentTerms AttendSegmentsOp::getSegmentTerms(unsigned operand) {
  if (operand != getKeyMutable().getOperandNumber() &&
      operand != getValueMutable().getOperandNumber()) {
    return {};
  }
  AffineExpr p = getAffineDimExpr(0, getContext());
  return {{SegmentTerm::End, getEnds(), p - 1}, {SegmentTerm::End, getEnds(), p}};
}

/// Reason against bursts: a dispatch of its step has one row per batch row.
StringRef AttendSegmentsOp::getBurstRefusal() {
  return "one token makes several rows due, and attention of segments over their rows has a step "
         "of one; shift what it reads";
}

std::optional<IntegerSet> AttendPartsOp::getRelation(unsigned) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  return IntegerSet::get(2, 1, {q - p}, {true});
}
AffineExpr AttendPartsOp::getLatest(unsigned) { return getAffineDimExpr(0, getContext()); }
/// Each row depends only on itself, as for a map.
std::string AttendPartsOp::getNeutralName(unsigned) { return "map"; }

/// Accesses operands on the result's scale at the row itself, and any row of other operands, ends
/// and counts.
std::optional<RowReadList> AttendSegmentsBackwardOp::getRowReads(unsigned result) {
  auto scale = toSequenceType(getOperation()->getResult(result)).getScale();
  SmallVector<RowRead> reads;
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    bool isItself = toSequenceType(operand.get()).getScale() == scale &&
                    operand.get() != getCounts() && operand.get() != getEnds();
    reads.push_back(isItself ? RowRead::itself(number, getContext()) : RowRead::whole(number));
  }
  return reads;
}

std::optional<RowReadList> AttendPartsBackwardOp::getRowReads(unsigned) {
  return llvm::map_to_vector(llvm::seq<unsigned>(0, getOperation()->getNumOperands()),
                             [&](unsigned i) { return RowRead::itself(i, getContext()); });
}

//===----------------------------------------------------------------------===//
// Work: products and sums of a key's and of a value's element
//===----------------------------------------------------------------------===//

Cost AttendSegmentsOp::getCost() {
  return facts::cost(*this, 4 * facts::elements(*this, getKey()),
                     {getQuery(), getKey(), getValue(), getOutput(), getLse()});
}
Cost AttendSegmentsBackwardOp::getCost() {
  return facts::cost(*this, 10 * facts::elements(*this, getKey()));
}
Cost AttendPartsOp::getCost() {
  double elements = facts::elements(*this, getQuery()) * static_cast<double>(getKeys().size());
  return facts::cost(*this, 4 * elements, getOperation()->getOperands());
}
Cost AttendPartsBackwardOp::getCost() {
  double elements = facts::elements(*this, getQuery()) * static_cast<double>(getKeys().size());
  return facts::cost(*this, 10 * elements);
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

LogicalResult AttendSegmentsOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                              MutableArrayRef<Value> operands) {
  auto made = AttendSegmentsBackwardOp::create(
      b, getLoc(), getQuery().getType(), getKey().getType(), getValue().getType(), getQuery(),
      getKey(), getValue(), getOutput(), getLse(), results[0], getCounts(), getEnds(), getHeads());
  for (unsigned i = 0; i < 3; ++i) {
    operands[i] = made->getResult(i);
  }
  return success();
}

LogicalResult AttendPartsOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                           MutableArrayRef<Value> operands) {
  Value gradient = facts::withinLength(b, getLoc(), results[0]);
  auto made =
      AttendPartsBackwardOp::create(b, getLoc(), getOperation()->getOperandTypes(), getQuery(),
                                    getKeys(), getValues(), gradient, getHeads());
  for (auto [operand, result] : llvm::zip_equal(operands, made.getGradients())) {
    operand = result;
  }
  return success();
}
