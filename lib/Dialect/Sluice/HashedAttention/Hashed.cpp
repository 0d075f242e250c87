// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements LSH attention: verifiers, positions, work and backward. Reference:
// Reference/Hashed.cpp; lowering: HashedLowering.cpp.
#include "sluice/Dialect/Sluice/Hashed.h"
#include "../Cost.h"
#include "../Scales/Windows.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Dialect/Sluice/Step.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/HashedOps.cpp.inc"

/// Operands: queries; keys, which are the same sequence; values; buckets.
constexpr unsigned queries = 0, values = 2;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// Rejects operands that LSH attention does not support: rows of a given axis, and rows of
/// segments.
template <typename Op> static LogicalResult verifyAxis(Op op, SequenceType rows) {
  if (isGiven(op, rows) || isSegmented(op, rows)) {
    return op.emitOpError("S-115: expected rows of the tokens that are predicted for LSH "
                          "attention, found rows of @")
           << getAxisName(op, rows);
  }
  return success();
}

LogicalResult HashedBucketsOp::verify() {
  auto table = cast<RankedTensorType>(getRotations().getType());
  SequenceType input = getInput().getType(), type = getResult().getType();
  int64_t hashes = type.getWidth();
  if (table.getRank() != 2 || table.getDimSize(1) != input.getWidth() || hashes < 1 ||
      table.getDimSize(0) < hashes || table.getDimSize(0) % hashes != 0) {
    return emitOpError("S-112: expected for each hash as many rotations, of ")
           << input.getWidth() << " columns, found " << table << " for " << hashes;
  }
  if (input.getScale() != type.getScale() || !type.getElement().isF32()) {
    return emitOpError("S-140: expected buckets of f32 on the scale of their rows, found ")
           << input << " and " << type;
  }
  return verifyAxis(*this, input);
}

/// Returns true if keys are the queries' sequence, or its rows in a state.
static bool isSame(Value query, Value key) {
  auto kept = key.getDefiningOp<KeepOp>();
  return query == key || (kept && kept.getValue() == query);
}

LogicalResult HashedAttentionOp::verify() {
  auto heads = static_cast<int64_t>(getHeads()), size = static_cast<int64_t>(getHeadSize());
  auto count = static_cast<int64_t>(getBucketCount()), chunk = static_cast<int64_t>(getChunk());
  if (heads < 1 || size < 1 || count < 2 || chunk < 1 || !llvm::isPowerOf2_64(getChunk())) {
    return emitOpError("S-110: expected heads and a head size of at least 1, 2 buckets or more, "
                       "and a chunk of a power of two rows, found ")
           << heads << ", " << size << ", " << count << " and " << chunk;
  }
  SequenceType query = getQuery().getType(), value = getValue().getType();
  if (!isSame(getQuery(), getKey()) || query.getScale() != value.getScale() ||
      query.getWidth() != heads * size || value.getWidth() != heads * size ||
      query.getScale() != getOutput().getType().getScale()) {
    return emitOpError("S-111: expected queries that are the keys, and values, of ")
           << heads * size << " columns on one scale, found " << query << ", " << getKey().getType()
           << " and " << value;
  }
  SequenceType buckets = getBuckets().getType();
  if (buckets.getScale() != query.getScale() || buckets.getWidth() < 1 ||
      !buckets.getElement().isF32()) {
    return emitOpError("S-141: expected one bucket per hash, f32 on the scale of ")
           << query << ", found " << buckets;
  }
  return verifyAxis(*this, query);
}

//===----------------------------------------------------------------------===//
// Positions, cost
//===----------------------------------------------------------------------===//

std::optional<IntegerSet> HashedBucketsOp::getRelation(unsigned operand) {
  if (operand > 0) {
    return std::nullopt;
  }
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  return IntegerSet::get(2, 1, {q - p}, {true});
}

AffineExpr HashedBucketsOp::getLatest(unsigned) { return getAffineDimExpr(0, getContext()); }
std::string HashedBucketsOp::getNeutralName(unsigned) { return "map"; }

/// Reason against bursts: a dispatch of the decode step has one row per batch row.
constexpr StringLiteral burstRefusal =
    "one token makes several rows due, and LSH attention has a step of one; shift what it reads";
StringRef HashedBucketsOp::getBurstRefusal() { return burstRefusal; }
StringRef HashedAttentionOp::getBurstRefusal() { return burstRefusal; }

/// Relation of queries: their own row. Relation of keys, values and buckets: all rows up to p, in
/// any bucket, or every row if sorted.
std::optional<IntegerSet> HashedAttentionOp::getRelation(unsigned operand) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  if (operand == queries) {
    return IntegerSet::get(2, 1, {q - p}, {true});
  }
  AffineExpr n = getAffineSymbolExpr(0, getContext());
  SmallVector<AffineExpr> constraints{q, n - 1 - q};
  if (!getSorted()) {
    constraints.insert(constraints.begin(), p - q);
  }
  return IntegerSet::get(2, 1, constraints, SmallVector<bool>(constraints.size(), false));
}

AffineExpr HashedAttentionOp::getLatest(unsigned operand) {
  bool isAny = getSorted() && operand != queries;
  return isAny ? AffineExpr() : getAffineDimExpr(0, getContext());
}

OpRemedy HashedAttentionOp::getRemedy() {
  if (!getSorted()) {
    return {};
  }
  return {"later rows decide the positions of rows that are sorted by hashes; leave out "
          "\"causal\": false",
          "sorted",
          {}};
}

/// A row's gradient comes from later rows, whose hashes may select it.
std::optional<SmallVector<RowRead>> HashedAttentionBackwardOp::getRowReads(unsigned) {
  SmallVector<RowRead> reads;
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    if (isa<SequenceType>(operand.get().getType())) {
      reads.push_back(RowRead::whole(operand.getOperandNumber()));
    }
  }
  return reads;
}

/// Returns an upper bound of the pairs that a batch's heads score: two chunks per row and hash.
template <typename Op> static double countSlotPairs(Op op) {
  return 2.0 * static_cast<double>(getBatch(op)) *
         static_cast<double>(getPositions(op, op.getQuery().getType())) *
         static_cast<double>(int64_t(op.getHeads() * op.getChunk()) * op.getHashes());
}

/// One product of all columns per rotation.
Cost HashedBucketsOp::getCost() {
  auto rotations = cast<RankedTensorType>(getRotations().getType()).getDimSize(0);
  return facts::cost(*this, 2.0 * facts::elements(*this, getInput()) * double(rotations));
}

/// Per pair, as for attention.
Cost HashedAttentionOp::getCost() {
  double each = 4.0 * static_cast<double>(getHeadSize()) + 3;
  return facts::cost(*this, each * countSlotPairs(*this),
                     {getQuery(), getValue(), getOutput(), getLse()});
}

Cost HashedAttentionBackwardOp::getCost() {
  double each = 10.0 * static_cast<double>(getHeadSize()) + 5;
  return facts::cost(*this, each * countSlotPairs(*this));
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

LogicalResult HashedBucketsOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return success();
}

/// Queries and keys are one sequence, so they have one gradient.
LogicalResult HashedAttentionOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                               MutableArrayRef<Value> operands) {
  Value gradient = convertSequence(b, getLoc(), facts::withinLength(b, getLoc(), results[0]),
                                   getOutput().getType().getElement());
  auto backward = HashedAttentionBackwardOp::create(
      b, getLoc(), getQuery().getType(), getValue().getType(), getQuery(), getValue(), getOutput(),
      getLse(), gradient, getBuckets(), getHeads(), getHeadSize(), getBucketCount(), getChunk(),
      getSorted());
  operands[queries] = backward.getQueryGradient();
  operands[values] = backward.getValueGradient();
  return success();
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

std::vector<float> sluice::drawRotations(ParameterOp parameter) {
  auto seed = getFact<SluiceDialect::SeedAttrHelper>(parameter->getParentOfType<ModuleOp>());
  uint32_t stream = 2166136261U; // FNV-1a of the name
  for (char letter : parameter.getSymName()) {
    stream = (stream ^ static_cast<unsigned char>(letter)) * 16777619U;
  }
  std::vector<float> values(cast<RankedTensorType>(parameter.getType()).getNumElements());
  for (size_t i = 0; i < values.size(); ++i) { // Box and Muller
    auto draw = [&](uint64_t element) {
      return reference::uniform(seed ? seed.getInt() : 0, 0, stream, element);
    };
    double radius = std::sqrt(-2 * std::log(1 - draw(2 * i)));
    double number = radius * std::cos(2 * std::numbers::pi * draw(2 * i + 1));
    values[i] = static_cast<float>(reference::roundToBf16(number)); // one factor in either type
  }
  return values;
}
