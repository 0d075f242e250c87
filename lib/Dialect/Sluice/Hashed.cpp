// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by hashes: verifiers, positions, work and backward. Reference: Reference/Hashed.cpp;
// lowering: HashedLowering.cpp.
#include "sluice/Dialect/Sluice/Hashed.h"
#include "OpFacts.h"
#include "sluice/Dialect/Sluice/Reference.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/HashedOps.cpp.inc"

/// Operands: queries, keys, which are the same sequence, and values.
constexpr unsigned queries = 0, values = 2;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult HashedAttentionOp::verify() {
  auto heads = static_cast<int64_t>(getHeads()), size = static_cast<int64_t>(getHeadSize());
  auto hashes = static_cast<int64_t>(getHashes()), chunk = static_cast<int64_t>(getChunk());
  if (heads < 1 || size < 1 || hashes < 1 || chunk < 1 || !llvm::isPowerOf2_64(getChunk())) {
    return emitOpError("S-110: expected heads, a head size and hashes of at least 1, and a chunk "
                       "of a power of two rows, found ")
           << heads << ", " << size << ", " << hashes << " and " << chunk;
  }
  SequenceType query = getQuery().getType(), value = getValue().getType();
  if (getQuery() != getKey() || query.getScale() != value.getScale() ||
      query.getWidth() != heads * size || value.getWidth() != heads * size ||
      query.getScale() != getOutput().getType().getScale()) {
    return emitOpError("S-111: expected queries that are the keys, and values, of ")
           << heads * size << " columns on one scale, found " << query << ", " << getKey().getType()
           << " and " << value;
  }
  auto table = cast<RankedTensorType>(getRotations().getType());
  if (table.getRank() != 2 || table.getDimSize(1) != heads * size || table.getDimSize(0) < hashes ||
      table.getDimSize(0) % hashes != 0) {
    return emitOpError("S-112: expected for each hash as many rotations, of ")
           << heads * size << " columns, found " << table << " for " << hashes;
  }
  if (isGiven(*this, query) || isSegmented(*this, query)) {
    return emitOpError("S-115: expected rows of the tokens that are predicted for attention by "
                       "hashes, found rows of @")
           << axisNameOf(*this, query);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Positions, cost
//===----------------------------------------------------------------------===//

/// Queries: their own row. Keys and values: rows up to it, or, sorted, every row.
std::optional<IntegerSet> HashedAttentionOp::getRelation(unsigned operand) {
  if (operand > values) {
    return std::nullopt;
  }
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

/// It is proved as if it read every earlier row.
std::string HashedAttentionOp::getNeutralName(unsigned) { return "attention"; }

StringRef HashedAttentionOp::getStepRefusal() {
  return "attention by hashes has no step yet: ranks are counted from the first row on";
}

/// A row's gradient is that of rows behind it, wherever their hashes put them.
std::optional<SmallVector<RowRead>> HashedAttentionBackwardOp::getRowReads(unsigned) {
  SmallVector<RowRead> reads;
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    if (isa<SequenceType>(operand.get().getType())) {
      reads.push_back(RowRead::whole(operand.getOperandNumber()));
    }
  }
  return reads;
}

/// Pairs that a batch's heads score at most: each row has two chunks a hash.
template <typename Op> static double pairsOf(Op op) {
  return 2.0 * static_cast<double>(getBatch(op)) *
         static_cast<double>(getPositions(op, op.getQuery().getType())) *
         static_cast<double>(op.getHeads() * op.getHashes() * op.getChunk());
}

/// Rotations, a product of all columns for each.
template <typename Op> static double workOfHashes(Op op) {
  return 2.0 * facts::elements(op, op.getQuery()) *
         static_cast<double>(cast<RankedTensorType>(op.getRotations().getType()).getDimSize(0));
}

/// As attention's, a pair.
Cost HashedAttentionOp::getCost() {
  double each = 4.0 * static_cast<double>(getHeadSize()) + 3;
  return facts::cost(*this, workOfHashes(*this) + each * pairsOf(*this),
                     {getQuery(), getValue(), getOutput(), getLse()});
}

Cost HashedAttentionBackwardOp::getCost() {
  double each = 10.0 * static_cast<double>(getHeadSize()) + 5;
  return facts::cost(*this, workOfHashes(*this) + each * pairsOf(*this));
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// The one gradient of what are queries and keys.
LogicalResult HashedAttentionOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                               MutableArrayRef<Value> operands) {
  Value gradient = convertSequence(b, getLoc(), facts::withinLength(b, getLoc(), results[0]),
                                   getOutput().getType().getElement());
  auto backward = HashedAttentionBackwardOp::create(
      b, getLoc(), getQuery().getType(), getValue().getType(), getQuery(), getValue(), getOutput(),
      getLse(), gradient, getRotations(), getHeads(), getHeadSize(), getHashes(), getChunk(),
      getSorted());
  operands[queries] = backward.getQueryGradient();
  operands[values] = backward.getValueGradient();
  return success();
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

std::vector<float> sluice::drawRotations(ParameterOp parameter) {
  auto seed = parameter->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>("sluice.seed");
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
