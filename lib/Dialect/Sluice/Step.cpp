// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the ops of the incremental step: verifiers, and rows counted by schedules.
#include "sluice/Dialect/Sluice/Step.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;

/// Prints the map in place, without an alias at the head of the file: "(d0) -> (d0 floordiv 4 +
/// 1)".
static void printRowMap(OpAsmPrinter &printer, Operation *op, AffineMapAttr map) {
  printer << map.getValue();
}

static ParseResult parseRowMap(OpAsmParser &parser, AffineMapAttr &map) {
  AffineMap value;
  if (failed(parser.parseAffineMap(value))) {
    return failure();
  }
  map = AffineMapAttr::get(value);
  return success();
}

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/StepOps.cpp.inc"

int64_t sluice::getRowCount(ScheduleOp schedule, int64_t t) {
  int64_t count = std::numeric_limits<int64_t>::max();
  for (AffineExpr expression : schedule.getCount().getResults()) {
    count = std::min(count, reference::evaluateAffine(expression, t, 0, 0));
  }
  return t < 0 ? 0 : std::max<int64_t>(0, count);
}

LogicalResult ScheduleOp::verify() {
  for (AffineMap map : {getCount(), getDue()}) {
    if (map.getNumDims() != 1 || map.getNumSymbols() != 0 || map.getNumResults() == 0) {
      return emitOpError("S-028: expected maps of one dimension with results, found ")
             << AffineMapAttr::get(map);
    }
  }
  if (getSegmentsAttr()) {
    auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(*this, getSegmentsAttr());
    if (!axis || !axis.getSegments()) {
      return emitOpError("S-069: expected an axis of segments, found ") << getSegmentsAttr();
    }
  }
  for (int64_t number : {getPeriod(), getRise(), getBurst()}) {
    if (number < 1) {
      return emitOpError("S-029: expected period, rise and burst of at least 1, found ") << number;
    }
  }
  return success();
}

LogicalResult StateOp::verify() {
  if (static_cast<int64_t>(getRing()) < 1) {
    return emitOpError("S-030: expected a ring of at least 1 row, found ")
           << static_cast<int64_t>(getRing());
  }
  return success();
}

LogicalResult DueOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<ScheduleOp>(*this, getScheduleAttr())) {
    return emitOpError("S-031: expected a defined schedule, found ") << getScheduleAttr();
  }
  return success();
}

LogicalResult DueOp::verify() {
  Operation *maker = getValue().getDefiningOp();
  if (isLazy(maker)) {
    return emitOpError("S-032: expected a value that is stored, found the result of ")
           << maker->getName() << ", which is read through";
  }
  return success();
}

LogicalResult KeepOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto state = symbols.lookupNearestSymbolFrom<StateOp>(*this, getStateAttr());
  if (!state) {
    return emitOpError("S-033: expected a defined state, found ") << getStateAttr();
  }
  if (state.getType() != getValue().getType() || getResult().getType() != getValue().getType()) {
    return emitOpError("S-034: expected value, state and result of one type, found ")
           << getValue().getType() << ", " << state.getType() << " and " << getResult().getType();
  }
  return success();
}
