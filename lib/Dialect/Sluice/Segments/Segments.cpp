// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the ops that move between a scale and its segments, and the sums that losses on
// boundaries need: verifiers, positions, work and backward. Reference: Reference/Segments.cpp;
// lowering: SegmentsLowering.cpp.
#include "../Cost.h"
#include "../Scales/Windows.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;
using dispatch::RowReadList;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static SequenceType getTensorType(Value value) { return cast<SequenceType>(value.getType()); }

static ScaleOp findScale(Operation *op, Value sequence) {
  return SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, getTensorType(sequence).getScale());
}

static AxisOp findSequenceAxis(Operation *op, Value sequence) {
  ScaleOp scale = findScale(op, sequence);
  return scale ? SymbolTable::lookupNearestSymbolFrom<AxisOp>(op, scale.getAxisAttr()) : AxisOp();
}

static LogicalResult verifyWholeNumbers(Operation *op, Value sequence, StringRef what) {
  SequenceType type = getTensorType(sequence);
  if (type.getWidth() != 0 || !type.getElement().isInteger(32)) {
    return op->emitOpError("S-061: expected ")
           << what << " of one i32 per position, found " << type;
  }
  return success();
}

/// Verifies that `counts` and `ends` are a segmentation: ends are on an axis of segments of the
/// counts' scale.
static LogicalResult verifySegmentation(Operation *op, Value counts, Value ends) {
  if (failed(verifyWholeNumbers(op, counts, "counts")) ||
      failed(verifyWholeNumbers(op, ends, "ends"))) {
    return failure();
  }
  AxisOp axis = findSequenceAxis(op, ends);
  if (!axis || axis.getSegmentsAttr() != getTensorType(counts).getScale() ||
      findScale(op, ends).getFactor() != 1) {
    return op->emitOpError(
               "S-060: expected ends on the scale of factor 1 of an axis of segments of ")
           << getTensorType(counts).getScale() << ", found " << getTensorType(ends);
  }
  return success();
}

/// Verifies that rows of `fine` are on the counts' scale and rows of `coarse` on the ends' scale,
/// with the same number of columns.
static LogicalResult verifyRows(Operation *op, Value fine, Value coarse, Value counts, Value ends) {
  if (failed(verifySegmentation(op, counts, ends))) {
    return failure();
  }
  if (getTensorType(fine).getScale() != getTensorType(counts).getScale() ||
      getTensorType(coarse).getScale() != getTensorType(ends).getScale() ||
      getTensorType(fine).getWidth() != getTensorType(coarse).getWidth()) {
    return op->emitOpError("S-062: expected rows on ")
           << getTensorType(counts).getScale() << " and on " << getTensorType(ends).getScale()
           << " of as many columns, found " << fine.getType() << " and " << coarse.getType();
  }
  return success();
}

/// Verifies that bits are one number per position of the segmented scale.
static LogicalResult verifyBits(Operation *op, Value bits, Value counts) {
  SequenceType type = getTensorType(bits);
  if (type.getScale() != getTensorType(counts).getScale() || type.getWidth() > 1 ||
      !type.getElement().isF32()) {
    return op->emitOpError("S-063: expected bits of one f32 per position on ")
           << getTensorType(counts).getScale() << ", found " << type;
  }
  return success();
}

LogicalResult SegmentOp::verify() {
  if (failed(verifySegmentation(*this, getCounts(), getEnds()))) {
    return failure();
  }
  return verifyBits(*this, getBits(), getCounts());
}

LogicalResult PoolSegmentsOp::verify() {
  if (failed(verifyRows(*this, getInput(), getResult(), getCounts(), getEnds()))) {
    return failure();
  }
  return verifyBits(*this, getBits(), getCounts());
}

LogicalResult SelectSegmentsOp::verify() {
  return verifyRows(*this, getInput(), getResult(), getCounts(), getEnds());
}

LogicalResult SpreadSegmentsOp::verify() {
  return verifyRows(*this, getResult(), getInput(), getCounts(), getEnds());
}

/// Verifies sequences of one scale with `from` and `to` columns per row: 0 and 1 both mean one
/// number.
static LogicalResult verifyColumns(Operation *op, bool fits) {
  SequenceType from = getTensorType(op->getOperand(0)), to = getTensorType(op->getResult(0));
  if (from.getScale() != to.getScale() || !fits) {
    return op->emitOpError("S-064: expected sequences of one scale, and columns as the op makes "
                           "them, found ")
           << from << " and " << to;
  }
  return success();
}

LogicalResult TotalOp::verify() {
  return verifyColumns(*this, getInput().getType().getWidth() == getResult().getType().getWidth());
}
LogicalResult ClearPaddingOp::verify() {
  if (getInput().getType() != getResult().getType() || !isGiven(*this, getInput().getType())) {
    return emitOpError("S-152: expected an input and a result of one type, on a given axis, found ")
           << getInput().getType() << " and " << getResult().getType();
  }
  return success();
}
LogicalResult SumColumnsOp::verify() {
  return verifyColumns(*this, getResult().getType().getWidth() == 0);
}
LogicalResult RepeatColumnsOp::verify() {
  return verifyColumns(*this, getInput().getType().getWidth() == 0);
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

namespace {
/// The names p and q in a relation, and the unknowns of its terms.
struct Unknowns {
  explicit Unknowns(Operation *op)
      : context(op->getContext()), p(getAffineDimExpr(0, context)),
        q(getAffineDimExpr(1, context)) {}
  /// Returns term i of the relation.
  AffineExpr term(unsigned i) const { return getAffineSymbolExpr(1 + i, context); }
  /// Returns the set in which every constraint is at least 0.
  IntegerSet where(ArrayRef<AffineExpr> constraints, unsigned terms = 0) const {
    return IntegerSet::get(2, 1 + terms, constraints, SmallVector<bool>(constraints.size(), false));
  }
  IntegerSet is(AffineExpr source, unsigned terms = 0) const {
    return IntegerSet::get(2, 1 + terms, {q - source}, {true});
  }
  MLIRContext *context;
  AffineExpr p, q;
};

constexpr auto endTerm = SegmentTerm::End, countTerm = SegmentTerm::Count;
} // namespace

/// c(p) counts bits up to p.
std::optional<IntegerSet> SegmentOp::getRelation(unsigned) {
  Unknowns of(*this);
  return of.where({of.p - of.q, of.q});
}
AffineExpr SegmentOp::getLatest(unsigned) { return Unknowns(*this).p; }

/// e(p) depends on the bits up to it.
PositionReads SegmentOp::getReads(unsigned result, unsigned operand) {
  if (result == 0) { // the counts
    return {getRelation(operand), getLatest(operand), {}};
  }
  Unknowns of(*this);
  return {of.where({of.term(0) - of.q, of.q}, 1), of.term(0), {{endTerm, getEnds(), of.p}}};
}

/// An end is a position of the segmented scale.
Value SegmentOp::getNamedPositions(unsigned result) { return result == 0 ? Value() : getCounts(); }

std::string SegmentOp::getNeutralName(unsigned result) {
  return result == 0 ? "segment_counts" : "segment_ends";
}

/// Depends on rows and bits of a segment, and on its two ends. Counts are determined by ends.
std::optional<IntegerSet> PoolSegmentsOp::getRelation(unsigned operand) {
  Unknowns of(*this);
  int64_t first = getStarts() ? 0 : 1;
  if (operand == getEndsMutable().getOperandNumber()) {
    return of.where({of.q - of.p + first, of.p + 1 - first - of.q});
  }
  if (operand == getCountsMutable().getOperandNumber()) {
    return std::nullopt;
  }
  return of.where({of.q - of.term(0) - first, of.term(1) - (1 - first) - of.q}, 2);
}

AffineExpr PoolSegmentsOp::getLatest(unsigned operand) {
  Unknowns of(*this);
  bool isEnds = operand == getEndsMutable().getOperandNumber();
  return isEnds ? of.p + (getStarts() ? 1 : 0) : of.term(1) - (getStarts() ? 1 : 0);
}

/// Returns e(p - 1) and e(p) or, if bits begin segments, e(p) and e(p + 1).
SegmentTerms PoolSegmentsOp::getSegmentTerms(unsigned operand) {
  if (operand >= getCountsMutable().getOperandNumber()) {
    return {};
  }
  AffineExpr first = Unknowns(*this).p - (getStarts() ? 0 : 1);
  return {{endTerm, getEnds(), first}, {endTerm, getEnds(), first + 1}};
}

std::optional<IntegerSet> SelectSegmentsOp::getRelation(unsigned operand) {
  Unknowns of(*this);
  if (operand == getCountsMutable().getOperandNumber()) {
    return std::nullopt;
  }
  bool isEnds = operand == getEndsMutable().getOperandNumber();
  return isEnds ? of.is(of.p) : of.is(of.term(0), 1);
}

AffineExpr SelectSegmentsOp::getLatest(unsigned operand) {
  Unknowns of(*this);
  return operand == getEndsMutable().getOperandNumber() ? of.p : of.term(0);
}

SegmentTerms SelectSegmentsOp::getSegmentTerms(unsigned operand) {
  bool isInput = operand == getInputMutable().getOperandNumber();
  return isInput ? SegmentTerms{{endTerm, getEnds(), Unknowns(*this).p}} : SegmentTerms{};
}

std::optional<IntegerSet> SpreadSegmentsOp::getRelation(unsigned operand) {
  Unknowns of(*this);
  if (operand == getEndsMutable().getOperandNumber()) {
    return std::nullopt;
  }
  bool isCounts = operand == getCountsMutable().getOperandNumber();
  return isCounts ? of.is(of.p - (getOwn() ? 1 : 0))
                  : of.is(of.term(0) - static_cast<int64_t>(getBy()), 1);
}

AffineExpr SpreadSegmentsOp::getLatest(unsigned operand) {
  Unknowns of(*this);
  bool isCounts = operand == getCountsMutable().getOperandNumber();
  return isCounts ? of.p - (getOwn() ? 1 : 0) : of.term(0) - static_cast<int64_t>(getBy());
}

SegmentTerms SpreadSegmentsOp::getSegmentTerms(unsigned operand) {
  bool isInput = operand == getInputMutable().getOperandNumber();
  AffineExpr at = Unknowns(*this).p - (getOwn() ? 1 : 0);
  return isInput ? SegmentTerms{{countTerm, getCounts(), at}} : SegmentTerms{};
}

std::string SpreadSegmentsOp::getNeutralName(unsigned) {
  return getOwn() ? "own_segments" : "spread_segments";
}

std::optional<IntegerSet> TotalOp::getRelation(unsigned) {
  Unknowns of(*this);
  return of.where({of.q, getAffineSymbolExpr(0, getContext()) - 1 - of.q});
}
AffineExpr TotalOp::getLatest(unsigned) { return {}; }

std::optional<IntegerSet> ClearPaddingOp::getRelation(unsigned) {
  return Unknowns(*this).is(Unknowns(*this).p);
}
AffineExpr ClearPaddingOp::getLatest(unsigned) { return Unknowns(*this).p; }
std::string ClearPaddingOp::getNeutralName(unsigned) { return "map"; }

std::optional<IntegerSet> SumColumnsOp::getRelation(unsigned) {
  return Unknowns(*this).is(Unknowns(*this).p);
}
AffineExpr SumColumnsOp::getLatest(unsigned) { return Unknowns(*this).p; }
std::optional<IntegerSet> RepeatColumnsOp::getRelation(unsigned) {
  return Unknowns(*this).is(Unknowns(*this).p);
}
AffineExpr RepeatColumnsOp::getLatest(unsigned) { return Unknowns(*this).p; }
/// Each row depends only on itself, as for a map.
std::string SumColumnsOp::getNeutralName(unsigned) { return "map"; }
std::string RepeatColumnsOp::getNeutralName(unsigned) { return "map"; }

/// Accesses operands on the result's scale at the row itself, and any row of the others.
static std::optional<RowReadList> readsSegments(Operation *op) {
  auto scale = getTensorType(op->getResult(0)).getScale();
  SmallVector<RowRead> reads;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    reads.push_back(getTensorType(operand.get()).getScale() == scale
                        ? RowRead::itself(number, op->getContext())
                        : RowRead::whole(number));
  }
  return reads;
}

std::optional<RowReadList> PoolSegmentsBackwardOp::getRowReads(unsigned) {
  return readsSegments(*this);
}
std::optional<RowReadList> SelectSegmentsBackwardOp::getRowReads(unsigned) {
  return readsSegments(*this);
}

/// Accesses any row of each operand: rows of the segment that contains the bit, and rows that a
/// segment moves to.
static std::optional<RowReadList> readsAll(Operation *op) {
  return llvm::map_to_vector(llvm::seq<unsigned>(0, op->getNumOperands()), RowRead::whole);
}
std::optional<RowReadList> PoolSegmentsBitsBackwardOp::getRowReads(unsigned) {
  return readsAll(*this);
}
std::optional<RowReadList> SpreadSegmentsBackwardOp::getRowReads(unsigned) {
  return readsAll(*this);
}

//===----------------------------------------------------------------------===//
// Operations: one addition per element, and a mean's product
//===----------------------------------------------------------------------===//

Cost SegmentOp::getCost() { return facts::cost(*this, facts::elements(*this, getBits())); }

Cost PoolSegmentsOp::getCost() {
  return facts::cost(*this,
                     facts::elements(*this, getInput()) + facts::elements(*this, getResult()),
                     {getInput(), getResult(), getCounts(), getEnds()});
}
Cost PoolSegmentsBackwardOp::getCost() {
  return facts::cost(*this, facts::elements(*this, getResult()));
}
/// Per element: a difference, a product and a sum.
Cost PoolSegmentsBitsBackwardOp::getCost() {
  return facts::cost(*this, 3 * facts::elements(*this, getInput()));
}
Cost SelectSegmentsOp::getCost() { return facts::cost(*this, 0, {getCounts(), getEnds()}); }
Cost SelectSegmentsBackwardOp::getCost() { return facts::cost(*this, 0); }
Cost SpreadSegmentsOp::getCost() { return facts::cost(*this, 0, {getCounts(), getEnds()}); }
Cost SpreadSegmentsBackwardOp::getCost() {
  return facts::cost(*this, facts::elements(*this, getGradient()));
}
Cost TotalOp::getCost() { return facts::cost(*this, facts::elements(*this, getInput())); }
Cost ClearPaddingOp::getCost() { return facts::cost(*this, 0); }
Cost SumColumnsOp::getCost() { return facts::cost(*this, facts::elements(*this, getInput())); }
Cost RepeatColumnsOp::getCost() { return facts::cost(*this, 0); }

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Integers have no gradient.
LogicalResult SegmentOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return success();
}

LogicalResult PoolSegmentsOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                            MutableArrayRef<Value> operands) {
  operands[0] = PoolSegmentsBackwardOp::create(b, getLoc(), getInput().getType(), results[0],
                                               getCounts(), getEnds(), getStarts(), getSum());
  if (getSum()) {
    return success();
  }
  operands[1] =
      PoolSegmentsBitsBackwardOp::create(b, getLoc(), getBits().getType(), getInput(), getResult(),
                                         results[0], getCounts(), getEnds(), getStarts());
  return success();
}

LogicalResult SelectSegmentsOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                              MutableArrayRef<Value> operands) {
  operands[0] = SelectSegmentsBackwardOp::create(b, getLoc(), getInput().getType(), results[0],
                                                 getCounts(), getEnds());
  return success();
}

LogicalResult SpreadSegmentsOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                              MutableArrayRef<Value> operands) {
  Value gradient = facts::withinLength(b, getLoc(), results[0]);
  operands[0] = SpreadSegmentsBackwardOp::create(b, getLoc(), getInput().getType(), gradient,
                                                 getCounts(), getEnds(), getBy(), getOwn());
  return success();
}

LogicalResult TotalOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                     MutableArrayRef<Value> operands) {
  operands[0] = TotalOp::create(b, getLoc(), getInput().getType(),
                                facts::withinLength(b, getLoc(), results[0]));
  return success();
}

LogicalResult ClearPaddingOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                            MutableArrayRef<Value> operands) {
  operands[0] =
      ClearPaddingOp::create(b, getLoc(), getInput().getType(),
                             facts::withinLength(b, getLoc(), results[0]), b.getF32FloatAttr(0));
  return success();
}

LogicalResult SumColumnsOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                          MutableArrayRef<Value> operands) {
  operands[0] = RepeatColumnsOp::create(b, getLoc(), getInput().getType(), results[0]);
  return success();
}

LogicalResult RepeatColumnsOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                             MutableArrayRef<Value> operands) {
  operands[0] = SumColumnsOp::create(b, getLoc(), getInput().getType(), results[0]);
  return success();
}
