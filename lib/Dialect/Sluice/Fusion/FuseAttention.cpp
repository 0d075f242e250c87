// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements FusionInterface for attention and its gradient, which are separate dispatches.
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/AttentionColumns.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace sluice;

/// Returns the number of keys of each batch row, if it is given; else nothing. A step stores given
/// keys and their numbers by line, and has the line of each batch row.
static SmallVector<Value> selectGivenKeys(Value key, DispatchEmitter &emitter) {
  auto type = cast<SequenceType>(key.getType());
  if (!isGiven(emitter.getScope(), type)) {
    return {};
  }
  SmallVector<Value> extras{emitter.getCounts(type)};
  if (emitter.isStep()) {
    int64_t batch = getBatch(emitter.getScope());
    extras.push_back(
        emitter.bind(plan::lineOfRow, RankedTensorType::get({batch}, emitter.b.getI32Type())));
  }
  return extras;
}

/// Copies a scalar region, whose terminator becomes the dispatch dialect's.
static void cloneRegion(Region &from, Region &to, OpBuilder &b) {
  IRMapping mapping;
  from.cloneInto(&to, mapping);
  for (auto through : llvm::make_early_inc_range(to.getOps<dispatch::StraightThroughOp>())) {
    through.replaceAllUsesWith(through.getValue());
    through.erase();
  }
  Operation *yield = to.front().getTerminator();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(yield);
  dispatch::YieldOp::create(b, yield->getLoc(), yield->getOperands());
  yield->erase();
}

int64_t sluice::endOfKeys(AttentionOp op) {
  return static_cast<int64_t>((op.getHeads() + op.getKvHeads()) * op.getHeadSize());
}

bool sluice::canRotateWhereMade(AttentionOp op) {
  Value packed = op.getQuery();
  bool areFirst = op.getKey() == packed && op.getQueryColumn() == 0 &&
                  op.getKeyColumn() == op.getHeads() * op.getHeadSize();
  bool staysValue =
      op.getValue() != packed || static_cast<int64_t>(op.getValueColumn()) >= endOfKeys(op);
  bool isAlone = llvm::all_of(packed.getUsers(), [&](Operation *user) {
    auto backward = dyn_cast<AttentionBackwardOp>(user);
    bool isItsOwn = backward && backward.getRotary() == op.getRotary() &&
                    backward.getQuery() == packed && backward.getKey() == packed &&
                    backward.getQueryColumn() == op.getQueryColumn() &&
                    backward.getKeyColumn() == op.getKeyColumn() &&
                    backward.getValueColumn() == op.getValueColumn();
    // @prefill returns the rows that it stores in states in their stored form.
    auto func = dyn_cast<func::FuncOp>(user->getParentOp());
    bool isCommit =
        user->hasTrait<OpTrait::IsTerminator>() && func && func.getSymName() == "prefill";
    return user == op.getOperation() || isItsOwn || isCommit;
  });
  return areFirst && staysValue && isAlone;
}

AttentionOp sluice::findRotation(Value packed) {
  for (Operation *user : packed.getUsers()) {
    auto attention = dyn_cast<AttentionOp>(user);
    if (attention && attention.getRotary() && canRotateWhereMade(attention)) {
      return attention;
    }
  }
  return {};
}

/// Returns the domain of the keys; null if the queries have the same.
template <typename Op>
static dispatch::DomainAttr keyDomain(Op op, const DispatchEmitter &emitter) {
  dispatch::DomainAttr keys = emitter.getRowDomain(op.getKey());
  return keys == emitter.getRowDomain(op.getQuery()) ? dispatch::DomainAttr() : keys;
}

/// Returns the operands of relative position terms, a table of angles (or null), ranges of keys,
/// and the operands that select given keys.
template <typename Op>
static SmallVector<Value> getExtraOperands(Op op, Value rotary, DispatchEmitter &emitter) {
  SmallVector<Value> extras = llvm::map_to_vector(op.getExtras().take_front(op.getTerms().count()),
                                                  [&](Value term) { return emitter.get(term); });
  if (rotary) {
    extras.push_back(emitter.get(rotary));
  }
  for (Value end : op.getRange()) {
    extras.push_back(emitter.get(end));
  }
  llvm::append_range(extras, selectGivenKeys(op.getKey(), emitter));
  return extras;
}

/// Returns the type in which a gradient is stored: for a table, one part per row of the batch, of
/// its rows or, if it is centered, of all distances; of a table of rows, head by head.
static RankedTensorType getGradientType(AttentionBackwardOp op, Value gradient,
                                        DispatchEmitter &emitter) {
  auto table = dyn_cast<RankedTensorType>(gradient.getType());
  if (!table) {
    return emitter.getTensorType(gradient);
  }
  int64_t rows = table.getDimSize(0);
  if (op.getCentered()) {
    dispatch::DistanceTerms terms = op.getTerms();
    bool isBias = terms.bias && gradient == op.getGradients().back();
    rows = terms.countDistances(getPositions(op, op.getQuery().getType())) *
           (isBias ? 1 : static_cast<int64_t>(op.getHeads()));
  }
  return RankedTensorType::get({getBatch(emitter.getScope()), rows, table.getDimSize(1)},
                               table.getElementType());
}

/// Sums a table's partial sums in batch order: part b is its row of batch row b. The rows of a
/// centered table's parts are distances, which the constant `clipped` maps to rows of the table.
static Value buildSumOfParts(AttentionBackwardOp op, Value parts, Type table,
                             DispatchEmitter &emitter) {
  auto type = cast<RankedTensorType>(parts.getType());
  std::string place = "constant:positions";
  int64_t columns = getContext(emitter.getScope());
  if (op.getCentered()) {
    dispatch::DistanceTerms terms = op.getTerms();
    int64_t rows = cast<RankedTensorType>(table).getDimSize(0);
    int64_t distances = terms.countDistances(getPositions(op, op.getQuery().getType()));
    columns = type.getDimSize(1);
    place = llvm::formatv("constant:clipped.{0}.{1}.{2}.{3}", terms.distance.offset, rows,
                          distances, columns)
                .str();
  } else if (getDrawParts(op->getParentOfType<ModuleOp>()) > 1) { // of another shape of batches
    place += "." + std::to_string(columns);
  }
  auto index = RankedTensorType::get({type.getDimSize(0), columns}, emitter.b.getI32Type());
  auto every = dispatch::DomainAttr::get(emitter.b.getContext(), type.getDimSize(0),
                                         type.getDimSize(1), /*factor=*/0);
  return dispatch::ScatterRowsOp::create(emitter.b, table, emitter.bind(place, index), parts,
                                         Value(), every, StringAttr(), StringAttr());
}

LogicalResult AttentionOp::emitDispatches(DispatchEmitter &emitter) {
  auto made = getQuery().getDefiningOp<LinearOp>();
  if (getRotary() && (!made || findRotation(getQuery()) != *this)) {
    return emitError("S-026: queries and keys are rotated only where they are the first columns, "
                     "queries first, of a linear map that this attention alone reads");
  }
  auto op = dispatch::AttentionOp::create(
      emitter.b, emitter.getTensorType(getOutput()), emitter.getTensorType(getLse()),
      emitter.get(getQuery()), emitter.get(getKey()), emitter.get(getValue()),
      getExtraOperands(*this, Value(), emitter), emitter.getRowDomain(getQuery()),
      keyDomain(*this, emitter), getHeads(), getKvHeads(), getHeadSize(), getQueryColumn(),
      getKeyColumn(), getValueColumn(), getMask(), getDropout(), getRandomId(), StringAttr(),
      StringAttr(), getDistanceBias(), getDistanceAttr(), getCentered(),
      /*draws_by_update=*/false);
  cloneRegion(getScore(), op.getScore(), emitter.b);
  emitter.set(getOutput(), op.getOutput());
  emitter.set(getLse(), op.getLse());
  return success();
}

LogicalResult AttentionBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  if (!fillsSequences(*this)) {
    return emitError(
        "S-037: expected queries, keys and values to fill their sequences, each column "
        "one of them");
  }
  SmallVector<Type> types = llvm::map_to_vector(getGradients(), [&](Value gradient) -> Type {
    return getGradientType(*this, gradient, emitter);
  });
  SmallVector<Value> extras = getExtraOperands(*this, getRotary(), emitter);
  auto op = dispatch::AttentionBackwardOp::create(
      emitter.b, types, emitter.get(getQuery()), emitter.get(getKey()), emitter.get(getValue()),
      emitter.get(getOutput()), emitter.get(getLse()), emitter.get(getOutputGradient()), extras,
      emitter.getRowDomain(getQuery()), keyDomain(*this, emitter), getHeads(), getKvHeads(),
      getHeadSize(), getQueryColumn(), getKeyColumn(), getValueColumn(), getMask(), getDropout(),
      getRandomId(), StringAttr(), StringAttr(), getDistanceBias(), getDistanceAttr(),
      getCentered(),
      /*draws_by_update=*/false);
  cloneRegion(getScore(), op.getScore(), emitter.b);
  cloneRegion(getScoreGradient(), op.getScoreGradient(), emitter.b);
  for (auto [gradient, tensor] : llvm::zip_equal(getGradients(), op.getGradients())) {
    bool isTable = isa<RankedTensorType>(gradient.getType());
    emitter.set(gradient,
                isTable ? buildSumOfParts(*this, tensor, gradient.getType(), emitter) : tensor);
  }
  return success();
}
