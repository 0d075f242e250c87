// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Transforms/Levels.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Transforms/ParameterLayout.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Levels
//===----------------------------------------------------------------------===//

static bool standsOn(Operation &op, ModuleLevel level) {
  if (level == ModuleLevel::Model) {
    return isa_and_nonnull<SluiceDialect>(op.getDialect());
  }
  return isa<dispatch::KernelInterface, plan::BindOp, plan::ViewOp, plan::StoreOp>(op);
}

LogicalResult sluice::verifyLevel(ModuleOp module, ModuleLevel level) {
  StringRef what = level == ModuleLevel::Model ? "model ops" : "dispatches";
  bool isPlan = !module.getOps<plan::EntryOp>().empty();
  if (isPlan || (level == ModuleLevel::Dispatches && module.getOps<func::FuncOp>().empty())) {
    return module.emitError() << "expected functions of " << what << ", found "
                              << (isPlan ? "a plan" : "none");
  }
  for (auto func : module.getOps<func::FuncOp>()) {
    if (!llvm::hasSingleElement(func.getBody())) {
      return func.emitError() << "expected functions of one block, found "
                              << func.getBody().getBlocks().size();
    }
    for (Operation &op : func.getBody().front()) {
      if (isa<func::ReturnOp>(op) || standsOn(op, level)) {
        continue;
      }
      InFlightDiagnostic error = op.emitError() << "expected a function of " << what
                                                << " alone, found " << op.getName();
      bool isAhead = level == ModuleLevel::Dispatches && standsOn(op, ModuleLevel::Model);
      return isAhead ? error << "; run sluice-form-dispatches before" : error;
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Guards
//===----------------------------------------------------------------------===//

/// Returns the value whose memory `value` is a view of.
static Value viewed(Value value) {
  while (auto view = value.getDefiningOp<plan::ViewOp>()) {
    value = view.getSource();
  }
  return value;
}

static bool isProtected(StringRef place) {
  return place == "flat:parameters" || place == "flat:adam.m" || place == "flat:adam.v" ||
         place == "flat:compute" || place.starts_with("parameter:") ||
         place.starts_with("compute:") || place.starts_with("quantized:") ||
         place.starts_with("scale:");
}

/// Returns the named places that a dispatch writes, by a store or as the memory of an operand.
static llvm::SmallSetVector<StringRef, 4> placesWritten(Operation *dispatch) {
  llvm::SmallSetVector<StringRef, 4> places;
  for (Operation *user : dispatch->getUsers()) {
    if (auto store = dyn_cast<plan::StoreOp>(user)) {
      places.insert(store.getPlace());
    }
  }
  if (auto sharing = dyn_cast<dispatch::SharedMemoryInterface>(dispatch)) {
    for (auto [result, operand] : sharing.getShared()) {
      if (auto bind = viewed(operand).getDefiningOp<plan::BindOp>()) {
        places.insert(bind.getPlace());
      }
    }
  }
  return places;
}

/// Returns the named places that a dispatch's results depend on, through other dispatches.
static llvm::SmallSetVector<StringRef, 8> placesRead(Operation *dispatch) {
  llvm::SmallSetVector<StringRef, 8> places;
  llvm::SmallSetVector<Operation *, 8> makers;
  makers.insert(dispatch);
  for (size_t i = 0; i < makers.size(); ++i) {
    for (Value operand : makers[i]->getOperands()) {
      Operation *maker = viewed(operand).getDefiningOp();
      if (auto bind = dyn_cast_or_null<plan::BindOp>(maker)) {
        places.insert(bind.getPlace());
      } else if (maker) {
        makers.insert(maker);
      }
    }
  }
  return places;
}

/// Returns the dispatch without a guard that stores the guard's scalar before `dispatch`.
static Operation *makerOfGuard(Operation *dispatch, StringRef guard) {
  Operation *maker = nullptr;
  for (auto store : cast<func::FuncOp>(dispatch->getParentOp()).getOps<plan::StoreOp>()) {
    auto made = store.getValue().getDefiningOp<dispatch::KernelInterface>();
    auto type = cast<RankedTensorType>(store.getValue().getType());
    if (store.getPlace() == ("scalar:" + guard).str() && made && !made.getGuardAttr() &&
        store->isBeforeInBlock(dispatch) && type.getRank() == 0 &&
        type.getElementType().isInteger(32)) {
      maker = made;
    }
  }
  return maker;
}

/// Verifies that the scalar of a guard `due.N` is computed from the schedule of the dispatch: no
/// row is due if the scalar is not 1.
static LogicalResult verifyPermission(Operation *dispatch, StringRef guard, Operation *maker) {
  Value schedule = dispatch::findSchedule(dispatch);
  Operation *counts = schedule ? viewed(schedule).getDefiningOp() : nullptr;
  bool isMadeOf = counts && llvm::any_of(maker->getOperands(), [&](Value operand) {
                    return viewed(operand).getDefiningOp() == counts;
                  });
  if (isMadeOf) {
    return success();
  }
  return dispatch->emitError() << "D-061: expected a scheduled dispatch under the guard " << guard
                               << ", whose scalar is computed from its schedule, found "
                               << (schedule ? "one of another schedule" : "no schedule");
}

static LogicalResult verifyGuard(dispatch::KernelInterface dispatch) {
  StringAttr attribute = dispatch.getGuardAttr();
  if (!attribute) {
    return success();
  }
  StringRef guard = attribute.getValue();
  Operation *maker = makerOfGuard(dispatch, guard);
  if (!maker) {
    return dispatch->emitError()
           << "D-060: expected a dispatch before this one, without a guard, to store the guard "
              "scalar:"
           << guard << " as tensor<i32>, found none";
  }
  if (plan::isPermission(guard)) {
    return verifyPermission(dispatch, guard, maker);
  }
  for (OpResult result : dispatch->getResults()) {
    if (llvm::none_of(result.getUsers(), llvm::IsaPred<plan::StoreOp>)) {
      return dispatch->emitError() << "D-062: expected the results of a dispatch that the guard "
                                   << guard << " may forbid to be stored, found result "
                                   << result.getResultNumber() << " in a temporary";
    }
  }
  return success();
}

/// Verifies that weights are initialized without a guard, and afterwards change only under a guard
/// that depends on loss and gradients.
static LogicalResult verifyProtected(dispatch::KernelInterface dispatch, StringRef entry) {
  if (entry == "initialize" || entry == "prepare" || entry == "quantize") {
    return success();
  }
  auto places = placesWritten(dispatch).takeVector();
  const auto *written = llvm::find_if(places, isProtected);
  if (written == places.end()) {
    return success();
  }
  StringAttr guard = dispatch.getGuardAttr();
  if (!guard || plan::isPermission(guard.getValue())) {
    return dispatch->emitError() << "D-063: expected a guard that forbids an update, as this "
                                    "dispatch writes "
                                 << *written << ", found "
                                 << (guard ? guard.getValue() : StringRef("none"));
  }
  auto read = placesRead(makerOfGuard(dispatch, guard.getValue()));
  if (!read.contains("scalar:loss") ||
      !(read.contains("flat:gradients") || read.contains("flat:gradient_sums"))) {
    return dispatch->emitError() << "D-064: expected the guard " << guard.getValue()
                                 << " to be computed from scalar:loss and the gradients";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

/// Verifies that in an update of several batches each row draws its numbers once: exactly the ops
/// of @gradient and @count that draw must be marked.
static LogicalResult verifyDraws(Operation *dispatch, StringRef entry) {
  auto module = dispatch->getParentOfType<ModuleOp>();
  bool expected = (entry == "gradient" || entry == "count") && drawsByUpdate(module) &&
                  dispatch::drawsNumbers(dispatch);
  if (dispatch::drawsByUpdate(dispatch) == expected) {
    return success();
  }
  return dispatch->emitError() << "D-065: expected " << (expected ? "" : "no ")
                               << "draws_by_update on a dispatch of @" << entry
                               << ", where an update has " << batchesOfUpdate(module)
                               << (expected ? " batches and this draws random numbers, found none"
                                            : " batches, or which draws nothing, found one");
}

LogicalResult sluice::verifyEntry(func::FuncOp func) {
  if (func.getNumArguments() > 0 || func.getNumResults() > 0) {
    return func.emitError() << "expected an entry without arguments and results, found "
                            << func.getFunctionType() << "; run sluice-build-entries before";
  }
  StringRef entry = func.getSymName().take_until([](char c) { return c == '.'; });
  for (auto op : func.getOps<dispatch::KernelInterface>()) {
    if (failed(verifyGuard(op)) || failed(verifyProtected(op, entry)) ||
        failed(verifyDraws(op, entry))) {
      return failure();
    }
  }
  return success();
}
