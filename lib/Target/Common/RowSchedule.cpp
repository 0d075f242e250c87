// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Divides the body of a row kernel into loops over columns, and selects the values that are
// rematerialized and the values that are stored.
#include "RowSchedule.h"

#include "sluice/Dialect/Dispatch/Combiner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::target;

bool target::isRow(Value value) { return isa<RankedTensorType>(value.getType()); }

int64_t target::getRowWidth(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back();
}

int64_t target::getGroupSize(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 2 ? type.getDimSize(0) : 0;
}

Value target::emitConstant(ImplicitLocOpBuilder &b, TypedAttr number, Type type) {
  Type element = getElementTypeOrSelf(type);
  number = number ? number : cast<TypedAttr>(b.getZeroAttr(element));
  if (auto real = dyn_cast<FloatAttr>(number); real && real.getType() != element) {
    APFloat value = real.getValue();
    bool loses = false;
    value.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &loses);
    number = FloatAttr::get(element, value);
  }
  if (auto shaped = dyn_cast<ShapedType>(type)) {
    number = DenseElementsAttr::get(shaped, Attribute(number));
  }
  return arith::ConstantOp::create(b, number);
}

Value target::emitIdentity(ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, Type type) {
  return emitConstant(b, dispatch::getIdentityValue(kind, getElementTypeOrSelf(type)), type);
}

Value target::emitIdentity(ImplicitLocOpBuilder &b, dispatch::ReduceGroupOp op, Type type) {
  return emitConstant(b, op ? op.getIdentity() : TypedAttr(), type);
}

Value target::combineRows(ImplicitLocOpBuilder &b, dispatch::ReduceGroupOp op, Value rows,
                          Value later) {
  if (!op) {
    bool floats = isa<FloatType>(getElementTypeOrSelf(rows.getType()));
    return floats ? Value(arith::AddFOp::create(b, rows, later))
                  : Value(arith::AddIOp::create(b, rows, later));
  }
  auto vectors = cast<VectorType>(rows.getType());
  Block &combiner = op.getCombiner().front();
  IRMapping mapping;
  mapping.map(combiner.getArguments(), ValueRange{rows, later});
  for (Operation &inner : combiner.without_terminator()) {
    VectorType type = vectors.clone(inner.getResult(0).getType());
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      mapping.map(constant.getResult(), emitConstant(b, constant.getValue(), type));
      continue;
    }
    Operation *copy = b.clone(inner, mapping);
    copy->getResult(0).setType(type);
  }
  return mapping.lookup(combiner.getTerminator()->getOperand(0));
}

Value target::combineRows(ImplicitLocOpBuilder &b, dispatch::ReduceKind kind, Value rows,
                          Value later) {
  bool floats = isa<FloatType>(getElementTypeOrSelf(rows.getType()));
  if (kind == dispatch::ReduceKind::Add) {
    return combineRows(b, dispatch::ReduceGroupOp(), rows, later);
  }
  if (!floats) {
    return arith::MaxSIOp::create(b, rows, later);
  }
  Value greater = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, later, rows);
  Value unknown = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, later, later);
  return arith::SelectOp::create(b, arith::OrIOp::create(b, greater, unknown), later, rows);
}

Value target::scaleRangeRow(ImplicitLocOpBuilder &b, Value row, Value weight, Value isDrawn) {
  if (weight) {
    auto type = dyn_cast<VectorType>(row.getType());
    weight = type ? Value(vector::BroadcastOp::create(b, type, weight)) : weight;
    row = arith::MulFOp::create(b, row, weight);
  }
  if (isDrawn) { // rows that are not drawn may hold any number
    Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(row.getType()));
    row = arith::SelectOp::create(b, isDrawn, row, zeros);
  }
  return row;
}

/// Rejects ops that a row body does not support.
static LogicalResult checkOp(Operation *op) {
  if (isa<dispatch::YieldOp, tensor::SplatOp, dispatch::ReduceOp, dispatch::ReduceGroupOp,
          dispatch::SpreadOp, dispatch::ColumnOp, dispatch::PositionOp, dispatch::RandomOp>(op)) {
    auto reduce = dyn_cast<dispatch::ReduceOp>(op);
    if (reduce && getGroupSize(reduce.getRow()) && reduce.getKind() != dispatch::ReduceKind::Add) {
      return op->emitOpError("R-001: a group of rows can only be reduced by add");
    }
    return success();
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    bool row = isRow(constant.getResult());
    if (row && !isa<SplatElementsAttr>(constant.getValue())) {
      return op->emitOpError("R-002: expected a row constant of one value, found several");
    }
    return success();
  }
  if (OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1 &&
      op->getNumRegions() == 0) {
    return success();
  }
  return op->emitOpError("R-003: not an op of row bodies");
}

FailureOr<Schedule> Schedule::of(dispatch::RowsOp op) {
  Schedule schedule;
  for (Operation &inner : op.getBody().front()) {
    if (failed(checkOp(&inner))) {
      return failure();
    }
  }
  schedule.assignDepths(op.getBody().front());
  schedule.makeStages(op);
  schedule.chooseKept(cast<dispatch::YieldOp>(op.getBody().front().getTerminator()));
  return schedule;
}

std::optional<unsigned> Schedule::keeper(Value value) const {
  auto found = keeper_.find(value);
  return found == keeper_.end() ? std::nullopt : std::optional<unsigned>(found->second);
}

void Schedule::assignDepths(Block &body) {
  for (Operation &op : body.without_terminator()) {
    int64_t depth = 0;
    for (Value operand : op.getOperands()) {
      depth = std::max(depth, depth_.lookup(operand));
    }
    depth_[op.getResult(0)] = depth + (isa<dispatch::ReduceOp>(op) ? 1 : 0);
  }
}

void Schedule::makeStages(dispatch::RowsOp op) {
  Block &body = op.getBody().front();
  auto yield = cast<dispatch::YieldOp>(body.getTerminator());
  int64_t last = 0;
  llvm::SmallSetVector<int64_t, 4> widths;
  for (auto reduce : body.getOps<dispatch::ReduceOp>()) {
    last = std::max(last, depth(reduce.getRow()));
    widths.insert(getRowWidth(reduce.getRow()));
  }
  for (Value value : yield.getValues()) {
    if (isRow(value)) {
      last = std::max(last, depth(value));
      widths.insert(getRowWidth(value));
    }
  }
  for (int64_t depthOfStage = 0; depthOfStage <= last; ++depthOfStage) {
    for (int64_t width : widths) {
      RowStage stage{depthOfStage, width, {}, {}, {}};
      for (auto reduce : body.getOps<dispatch::ReduceOp>()) {
        if (depth(reduce.getRow()) == depthOfStage && getRowWidth(reduce.getRow()) == width) {
          stage.reductions.push_back(reduce);
        }
      }
      for (auto [i, value] : llvm::enumerate(yield.getValues())) {
        if (depthOfStage == last && isRow(value) && getRowWidth(value) == width) {
          stage.stores.push_back(i);
        }
      }
      if (!stage.reductions.empty() || !stage.stores.empty()) {
        stages_.push_back(stage);
      }
    }
  }
}

/// Rough cost of an op on a vector, in loads; distinguishes arithmetic from series.
static double estimateCost(Operation *op) {
  if (isa<arith::ConstantOp, tensor::SplatOp, dispatch::ColumnOp>(op)) {
    return 0;
  }
  if (isa<dispatch::RandomOp>(op)) {
    return 30;
  }
  if (isa<arith::DivFOp, math::SqrtOp, math::RsqrtOp>(op)) {
    return 4;
  }
  bool cheap = isa<math::AbsFOp, math::FmaOp, math::CopySignOp, math::FloorOp>(op);
  return op->getName().getDialectNamespace() == "math" && !cheap ? 12 : 0.5;
}

double Schedule::cost(Value value, unsigned stage, DenseMap<Value, double> &known) const {
  if (!isRow(value)) {
    return 0;
  }
  Operation *op = value.getDefiningOp();
  if (!op || (keeper(value) && *keeper(value) < stage)) {
    return 1;
  }
  if (auto found = known.find(value); found != known.end()) {
    return found->second;
  }
  double total = estimateCost(op);
  for (Value operand : op->getOperands()) {
    total += cost(operand, stage, known);
  }
  if (auto reduced = dyn_cast<dispatch::ReduceGroupOp>(op)) {
    total *= getGroupSize(reduced.getRows());
  }
  known[value] = total;
  return total;
}

void Schedule::visit(Value value, unsigned stage, DenseMap<Value, unsigned> &seen) {
  Operation *op = value.getDefiningOp();
  if (!op || !isRow(value) || isa<tensor::SplatOp>(op)) {
    return;
  }
  auto [entry, fresh] = seen.try_emplace(value, stage);
  if (!fresh && entry->second == stage) {
    return;
  }
  if (!fresh) {
    // Storing and reloading a row costs about two loads per use.
    constexpr double worthKeeping = 4;
    bool storable = !getGroupSize(value) && !getElementTypeOrSelf(value.getType()).isInteger(1);
    DenseMap<Value, double> known;
    if (keeper_.count(value)) {
      return;
    }
    if (storable && cost(value, stage, known) >= worthKeeping) {
      keeper_[value] = entry->second;
      stages_[entry->second].keeps.push_back(value);
      return;
    }
    entry->second = stage;
  }
  for (Value operand : op->getOperands()) {
    visit(operand, stage, seen);
  }
}

void Schedule::chooseKept(dispatch::YieldOp yield) {
  DenseMap<Value, unsigned> seen;
  for (unsigned i = 0; i < stages_.size(); ++i) {
    for (dispatch::ReduceOp reduce : stages_[i].reductions) {
      visit(reduce.getRow(), i, seen);
    }
    for (unsigned store : stages_[i].stores) {
      visit(yield.getValues()[store], i, seen);
    }
  }
}
