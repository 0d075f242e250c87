// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Computes the work of each op for the module's whole batch at full length.
//
// Floating-point operations: a multiply-add counts as two; any other arithmetic or math function as
// one. Bytes: each sequence and tensor that the op reads or writes, once. An op that is only a map
// of positions (shift, upsample, unfold, last) costs nothing: its consumer's bytes include it.
// Saved bytes: operands and results that the op's backward op reads.
#include "Cost.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sluice;
using facts::cost, facts::elements;

/// Returns the number of positions of a whole batch.
static double countBatchRows(Operation *op, Value sequence) {
  return static_cast<double>(getBatch(op) *
                             getPositions(op, cast<SequenceType>(sequence.getType())));
}

static double width(Value sequence) {
  return static_cast<double>(
      std::max<int64_t>(1, cast<SequenceType>(sequence.getType()).getWidth()));
}

double facts::elements(Operation *op, Value value) {
  if (isa<SequenceType>(value.getType())) {
    return countBatchRows(op, value) * width(value);
  }
  return static_cast<double>(cast<RankedTensorType>(value.getType()).getNumElements());
}

static double countBytes(Operation *op, Value value) {
  Type element = isa<SequenceType>(value.getType())
                     ? cast<SequenceType>(value.getType()).getElement()
                     : cast<RankedTensorType>(value.getType()).getElementType();
  return elements(op, value) * element.getIntOrFloatBitWidth() / 8;
}

/// Counts the bytes of each different value once.
static double countBytes(Operation *op, ValueRange values) {
  llvm::SetVector<Value> different(values.begin(), values.end());
  double bytes = 0;
  for (Value value : different) {
    bytes += countBytes(op, value);
  }
  return bytes;
}

Cost facts::cost(Operation *op, double flops, ValueRange saved) {
  double bytes = countBytes(op, op->getOperands()) + countBytes(op, op->getResults());
  return {flops, bytes, saved.empty() ? 0 : countBytes(op, saved)};
}

/// Counts rows of a table where they are used: at most the table once, and at most one row per
/// position.
static Cost gatherCost(Operation *op, Value table, Value result) {
  double tableBytes = countBytes(op, table);
  Cost whole = cost(op, 0);
  whole.bytes += std::min(tableBytes, countBytes(op, result)) - tableBytes;
  return whole;
}

/// Counts floating-point operations in a scalar region.
static double operations(Region &region) {
  double count = 0;
  for (Operation &op : region.front().without_terminator()) {
    StringRef dialect = op.getName().getDialectNamespace();
    bool real = op.getNumResults() == 1 && isa<FloatType>(op.getResult(0).getType());
    bool moves = op.getNumOperands() == 0 || op.getName().getStringRef() == "arith.select";
    count += real && !moves && (dialect == "arith" || dialect == "math");
  }
  return count;
}

/// Returns true if a map's derivative does not depend on its operands: all of its ops are sums,
/// negations, and products, quotients or choices by values that do not depend on the operands.
static bool isLinear(Region &region) {
  llvm::SmallPtrSet<Value, 16> varying(llvm::from_range, region.front().getArguments());
  for (Operation &op : region.front().without_terminator()) {
    SmallVector<bool> varies(
        llvm::map_range(op.getOperands(), [&](Value value) { return varying.contains(value); }));
    if (!llvm::is_contained(varies, true)) {
      continue;
    }
    StringRef name = op.getName().getStringRef();
    bool linear = name == "arith.addf" || name == "arith.subf" || name == "arith.negf" ||
                  (name == "arith.mulf" && !(varies[0] && varies[1])) ||
                  (name == "arith.divf" && !varies[1]) || (name == "arith.select" && !varies[0]);
    if (!linear) {
      return false;
    }
    varying.insert_range(op.getResults());
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Tables, maps, norms
//===----------------------------------------------------------------------===//

Cost EmbedOp::getCost() { return gatherCost(*this, getTable(), getResult()); }
Cost PositionOp::getCost() { return gatherCost(*this, getTable(), getResult()); }
/// One addition per element.
Cost EmbedBackwardOp::getCost() { return cost(*this, elements(*this, getGradient())); }
Cost PositionBackwardOp::getCost() { return cost(*this, elements(*this, getGradient())); }

Cost MapOp::getCost() {
  double flops = operations(getBody()) * elements(*this, getResult());
  return isLinear(getBody()) ? cost(*this, flops) : cost(*this, flops, getInputs());
}

/// Per element of layer norm: mean 1, centring 1, square and sum 2, times rstd 1, gain 1, bias 1.
/// RMS norm has no mean and no centring.
Cost NormOp::getCost() {
  double each = (getRms() ? 4 : 6) + (getBias() ? 1 : 0);
  SmallVector<Value> saved = {getInput(), getRstd()};
  if (!getRms()) {
    saved.push_back(getMean());
  }
  return cost(*this, each * elements(*this, getInput()), saved);
}

/// Per element: h 2 (RMS 1), e 1, sums of e h 2 and e 1 (RMS none), dx 4 (RMS 3), dgain 2, dbias 1.
Cost NormBackwardOp::getCost() {
  double each = (getRms() ? 9 : 12) + (getBiasGradient() ? 1 : 0);
  return cost(*this, each * elements(*this, getInput()));
}

//===----------------------------------------------------------------------===//
// Linear maps
//===----------------------------------------------------------------------===//

/// Per row: 2 in out, and out for a bias.
Cost LinearOp::getCost() {
  double rows = countBatchRows(*this, getInput()), out = width(getResult());
  return cost(*this, rows * out * (2 * width(getInput()) + (getBias() ? 1 : 0)), getInput());
}

Cost LinearInputGradientOp::getCost() {
  return cost(*this,
              2 * countBatchRows(*this, getGradient()) * width(getGradient()) * width(getResult()));
}

Cost LinearWeightGradientOp::getCost() {
  double rows = countBatchRows(*this, getGradient()), out = width(getGradient());
  return cost(*this,
              rows * out * ((getWeight() ? 2 * width(getInput()) : 0) + (getBias() ? 1 : 0)));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Returns the number of pairs (p, q) that a batch's heads score.
template <typename Op> static double pairs(Op op) {
  int64_t queries = getPositions(op, op.getQuery().getType()),
          keys = getPositions(op, op.getKey().getType());
  return static_cast<double>(getBatch(op)) * op.getHeads() * countMask(op.getMask(), queries, keys);
}

/// Returns the operations per pair of relative position terms: `contractions` of D, `sums` of the
/// table's biases.
template <typename Op> static double countTerms(Op op, double contractions, double sums) {
  dispatch::DistanceTerms terms = op.getTerms();
  return (terms.rows ? 2 * contractions * op.getHeadSize() : 0) + (terms.bias ? sums : 0);
}

/// Per pair: two contractions of D, the score region, an exponential and its sum.
Cost AttentionOp::getCost() {
  double each = 4.0 * getHeadSize() + operations(getScore()) + 2 + countTerms(*this, 1, 1);
  SmallVector<Value> saved = {getQuery(), getKey(), getValue(), getOutput(), getLse()};
  if (dispatch::DistanceTerms terms = getTerms(); terms.rows) {
    saved.push_back(terms.query);
    if (!terms.hasRowTable()) { // weights are kept anyway
      saved.push_back(terms.rows);
    }
  }
  return cost(*this, each * pairs(*this), saved);
}

/// Per pair: five contractions of D, both regions, an exponential, P (dP - delta) 2. Per row:
/// delta, 2 D.
Cost AttentionBackwardOp::getCost() {
  double each = 10.0 * getHeadSize() + operations(getScore()) + operations(getScoreGradient()) + 3 +
                countTerms(*this, 3, 2);
  return cost(*this, each * pairs(*this) + 2 * elements(*this, getOutput()));
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

Cost ShiftOp::getCost() { return {}; }
Cost UpsampleOp::getCost() { return {}; }
Cost UnfoldOp::getCost() { return {}; }
Cost LastOp::getCost() { return {}; }
Cost FoldOp::getCost() { return cost(*this, 0); }

//===----------------------------------------------------------------------===//
// Loss
//===----------------------------------------------------------------------===//

/// Per row and token: a contraction of d, bias 1, an exponential and its sum. Targets: one token
/// per row.
static double lossFlops(Operation *op, Value input, Value weight, bool bias, double contractions) {
  double vocabulary = static_cast<double>(cast<RankedTensorType>(weight.getType()).getDimSize(0));
  return countBatchRows(op, input) * vocabulary *
         (2 * contractions * width(input) + 2 + (bias ? 1 : 0));
}

Cost CrossEntropyOp::getCost() {
  return cost(*this, lossFlops(*this, getInput(), getWeight(), static_cast<bool>(getBias()), 1),
              getInput());
}

Cost ObjectiveOp::getCost() { return cost(*this, 0); }
Cost WeightSumOp::getCost() { return cost(*this, 0); }
Cost MeanGradientOp::getCost() { return cost(*this, 0); }

/// Four contractions: logits twice, because they are not stored, dx and dW.
Cost CrossEntropyBackwardOp::getCost() {
  return cost(*this, lossFlops(*this, getInput(), getWeight(), static_cast<bool>(getBias()), 4));
}
