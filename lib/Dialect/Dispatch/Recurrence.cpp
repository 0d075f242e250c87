// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements dispatch.recurrence: its verifier, and the rows that its rows depend on.
#include "sluice/Dialect/Dispatch/Dispatch.h"

using namespace mlir;
using namespace sluice::dispatch;

static RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

/// Verifies that a tensor of rows has whole groups of columns.
static LogicalResult verifyRows(RecurrenceOp op, Value rows) {
  RankedTensorType type = getTensorType(rows);
  auto columns = static_cast<int64_t>(op.getColumns());
  bool isResult = rows.getDefiningOp() == op.getOperation();
  bool isStored = isResult ? type.getElementType().isF32() : isStorageType(type.getElementType());
  if (columns < 1 || type.getRank() != 3 || !isStored || type.getDimSize(2) < columns ||
      type.getDimSize(2) % columns != 0) {
    return op.emitOpError("D-081: expected rows in whole groups of ")
           << columns << " columns, found " << type;
  }
  return success();
}

static LogicalResult verifyWeight(RecurrenceOp op) {
  auto carried = static_cast<int64_t>(op.getCarried());
  if (carried > op->getNumResults() || carried < (op.getWeighted() ? 1 : 0)) {
    return op.emitOpError("D-083: expected carried results among the ")
           << op->getNumResults() << ", at least 1 with a weight, found " << carried;
  }
  if (!op.getWeighted()) {
    return success();
  }
  auto weight = op.getAllOperands().empty() ? RankedTensorType() : getTensorType(op.getWeight());
  auto columns = static_cast<int64_t>(op.getColumns());
  bool fits = weight && weight.getRank() == 2 && isStorageType(weight.getElementType());
  int64_t outputs = fits ? weight.getDimSize(op.getByInput() ? 1 : 0) : 0;
  if (!fits || outputs < columns || outputs % columns != 0 ||
      weight.getDimSize(op.getByInput() ? 0 : 1) !=
          getTensorType(op.getOutputs().front()).getDimSize(2)) {
    return op.emitOpError("D-082: expected a weight of f32 or bf16 for rows like ")
           << op.getOutputs().front().getType() << " and groups of " << columns << ", found "
           << (weight ? Type(weight) : Type());
  }
  return success();
}

static LogicalResult verifyResets(RecurrenceOp op) {
  if (static_cast<int64_t>(op.getResetEvery()) < 0) {
    return op.emitOpError("D-084: expected a period of at least 0, found ")
           << static_cast<int64_t>(op.getResetEvery());
  }
  auto within = static_cast<int64_t>(op.getResetWithin());
  if (within < 0 || (within > 0 && !op.getResets())) {
    return op.emitOpError("D-084: expected `reset_within` of at least 0, and 0 without `resets`, "
                          "found ")
           << within;
  }
  if (!op.getResets()) {
    return success();
  }
  unsigned own = (op.getWeighted() ? 1 : 0) + (op.getDomain().getScheduled() ? 1 : 0);
  auto type = op.getAllOperands().size() <= own ? RankedTensorType() : getTensorType(op.getBits());
  bool isNumber = type && (type.getRank() == 2 || (type.getRank() == 3 && type.getDimSize(2) == 1));
  if (!isNumber || !(type.getElementType().isF32() || type.getElementType().isInteger(32))) {
    return op.emitOpError("D-084: expected one number per row to cut rows off, found ")
           << (type ? Type(type) : Type());
  }
  return success();
}

LogicalResult RecurrenceOp::verify() {
  if (failed(verifyWeight(*this)) || failed(verifyResets(*this))) {
    return failure();
  }
  if (getAccesses().size() != getInputs().size()) {
    return emitOpError("D-004: expected ")
           << getInputs().size() << " accesses of operands, found " << getAccesses().size();
  }
  AffineExpr p = getAffineDimExpr(0, getContext());
  for (Attribute each : getAccesses()) {
    auto access = dyn_cast<AccessAttr>(each);
    if (!access) {
      return emitOpError("D-005: expected #dispatch.access, found ") << each;
    }
    AffineExpr row = access.getMap().getValue().getResult(0);
    if (access.getKind() != AccessKind::Row || access.getGroup() != 1 ||
        !isa<AffineConstantExpr>(simplifyAffineExpr(row - p, 2, 1))) {
      return emitOpError("D-086: expected an access of row p + c, found ") << access;
    }
  }
  int64_t arguments = countProductGroups(), yields = 0;
  for (Value input : getInputs()) {
    if (failed(verifyRows(*this, input))) {
      return failure();
    }
    arguments += countGroups(input);
  }
  for (auto [i, result] : llvm::enumerate(getOutputs())) {
    if (failed(verifyRows(*this, result))) {
      return failure();
    }
    yields += countGroups(result);
    arguments += i < getCarried() ? countGroups(result) : 0;
  }
  if (getDomain().getScheduled()) {
    auto expected =
        RankedTensorType::get({getDomain().getBatch(), 3}, IntegerType::get(getContext(), 64));
    if (Value schedule = findSchedule(*this); !schedule || schedule.getType() != expected) {
      return emitOpError("D-018: expected a schedule of ") << expected << " as the last operand";
    }
  }
  Block &body = getBody().front();
  auto yield = dyn_cast_or_null<YieldOp>(body.empty() ? nullptr : &body.back());
  auto isNumber = [](Type type) { return type.isF32(); };
  if (!yield || body.getNumArguments() != arguments || yield.getNumOperands() != yields ||
      !llvm::all_of(body.getArgumentTypes(), isNumber) ||
      !llvm::all_of(yield.getOperandTypes(), isNumber)) {
    return emitOpError("D-085: expected a body of ")
           << arguments << " arguments and " << yields << " yielded values of f32, found "
           << body.getNumArguments() << " and " << (yield ? yield.getNumOperands() : 0);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

int64_t RecurrenceOp::countProductGroups() {
  if (!getWeighted()) {
    return 0;
  }
  return getTensorType(getWeight()).getDimSize(getByInput() ? 1 : 0) /
         static_cast<int64_t>(getColumns());
}

int64_t RecurrenceOp::countInnerColumns() {
  return getWeighted() ? getTensorType(getWeight()).getDimSize(getByInput() ? 0 : 1) : 0;
}

int64_t RecurrenceOp::getOffset(unsigned input) {
  AffineExpr row = cast<AccessAttr>(getAccesses()[input]).getMap().getValue().getResult(0);
  AffineExpr offset = simplifyAffineExpr(row - getAffineDimExpr(0, getContext()), 2, 1);
  return cast<AffineConstantExpr>(offset).getValue();
}

AccessAttr RecurrenceOp::getAccess(unsigned operand) {
  unsigned first = getWeighted() ? 1 : 0;
  return operand >= first && operand < first + getAccesses().size()
             ? cast<AccessAttr>(getAccesses()[operand - first])
             : AccessAttr();
}

std::optional<int64_t> RecurrenceOp::getRowFactor(unsigned operand) {
  bool isOfRows = getAccess(operand) || (getResets() && getOperand(operand) == getBits());
  return isOfRows ? std::optional<int64_t>(getDomain().getFactor()) : std::nullopt;
}

/// A row depends on its own row of an operand and, through the previous rows, on all rows before
/// that; after it, if the rows are computed from the last one.
std::optional<RowReadList> RecurrenceOp::getRowReads(unsigned) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext()),
             n = getAffineSymbolExpr(0, getContext());
  auto upTo = [&](unsigned operand, int64_t offset) {
    AffineExpr last = p + offset;
    auto set = getReversed()
                   ? IntegerSet::get(2, 1, {q - last, q, n - 1 - q}, {false, false, false})
                   : IntegerSet::get(2, 1, {last - q, q}, {false, false});
    return RowRead::related(operand, set);
  };
  RowReadList reads;
  unsigned operand = 0;
  if (getWeighted()) {
    reads.push_back(RowRead::whole(operand++));
  }
  for (unsigned input = 0; input < getInputs().size(); ++input) {
    reads.push_back(upTo(operand++, getOffset(input)));
  }
  if (getResets()) {
    reads.push_back(upTo(operand, 0));
  }
  return reads;
}
