// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StepReads.h"

#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Step.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace sluice;
using dispatch::AccessKind;

/// Parts of the context: enough that the number of keys grows little within a part.
constexpr int64_t mostParts = 64;

/// Returns true if a launch of @step waits for the rows of segments that a schedule makes due.
static bool runsOverRows(ModuleOp module, StringRef guard) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  return step && llvm::any_of(step.getOps<dispatch::KernelInterface>(), [&](auto kernel) {
           StringAttr own = kernel.getGuardAttr();
           return own && own.getValue() == guard;
         });
}

std::map<std::string, StepRate> sluice::stepRates(ModuleOp module) {
  std::map<std::string, StepRate> rates;
  size_t number = 0;
  auto name = [&] { return "due." + std::to_string(number++); };
  for (auto schedule : module.getOps<ScheduleOp>()) {
    auto period = static_cast<int64_t>(schedule.getPeriod());
    StepRate rate{0, period, double(schedule.getRise()) / double(period)};
    if (auto segments = schedule.getSegmentsAttr()) { // at the rate of their rows
      auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(schedule, segments);
      int64_t context = getContext(module), rows = std::min<int64_t>(*axis.getRows(), context);
      double often = double(rows) / double(context);
      std::string own = name(), ofRows = own + plan::rowsOfSegments.str();
      rates[own] = {rows, context, rate.rows * often, often, segments.getValue().str()};
      if (runsOverRows(module, ofRows)) { // once per row
        rates[ofRows] = {rows, context, 1, 1, segments.getValue().str()};
      }
      continue;
    }
    auto first = static_cast<int64_t>(schedule.getFirst());
    for (int64_t t = first; t < first + period; ++t) {
      rate.runs += getRowCount(schedule, t) > getRowCount(schedule, t - 1) ? 1 : 0;
    }
    rates[name()] = rate;
  }
  // Rates of values with a single position, and of the last row of a lazy value.
  rates[name()] = {};
  rates[name()] = {};
  return rates;
}

std::map<std::string, ScheduleOp> sluice::stateSchedules(ModuleOp module) {
  auto schedules = llvm::to_vector(module.getOps<ScheduleOp>());
  std::map<std::string, ScheduleOp> result;
  for (auto state : module.getOps<StateOp>()) {
    result[state.getSymName().str()] = {};
  }
  for (auto store : module.lookupSymbol<func::FuncOp>("step").getOps<plan::StoreOp>()) {
    StringRef name = store.getPlace();
    if (!name.consume_front("state:")) {
      continue;
    }
    if (!result.contains(name.str())) { // keys or values of a state, or no rows
      result.erase(name.rsplit('.').first.str());
    }
    result.erase(name.str());
    auto kernel = store.getValue().getDefiningOp<dispatch::KernelInterface>();
    StringRef guard = kernel && kernel.getGuardAttr() ? kernel.getGuardAttr().getValue() : "";
    size_t number = 0;
    if (guard.consume_front("due.") && !guard.getAsInteger(10, number) &&
        number < schedules.size()) {
      result[name.str()] = schedules[number];
    }
  }
  return result;
}

llvm::json::Object sluice::rowCountsToJson(ScheduleOp schedule, int64_t stored) {
  if (!schedule) {
    return llvm::json::Object{{"first", 0}, {"rise", 0}, {"rows", llvm::json::Array({stored})}};
  }
  auto first = static_cast<int64_t>(schedule.getFirst());
  llvm::json::Array rows;
  for (int64_t i = 0; i < static_cast<int64_t>(schedule.getPeriod()); ++i) {
    rows.push_back(getRowCount(schedule, first + i));
  }
  llvm::json::Object counts{{"first", first},
                            {"rise", static_cast<int64_t>(schedule.getRise())},
                            {"rows", std::move(rows)}};
  if (auto segments = schedule.getSegmentsAttr()) {
    counts["segments"] = segments.getValue().str();
  }
  return counts;
}

bool sluice::isByLine(ModuleOp module, StringRef state,
                      const std::map<std::string, ScheduleOp> &schedules) {
  if (auto found = schedules.find(state.str()); found != schedules.end()) {
    return !found->second;
  }
  return llvm::any_of(module.getOps<AxisOp>(), [&](AxisOp axis) {
    AxisOp root = getRootAxis(axis);
    return root && root.getCapacity() && state == plan::closedName(axis.getSymName());
  });
}

static double countBytes(RankedTensorType type, int64_t elements) {
  return double(elements) * type.getElementTypeBitWidth() / 8;
}

/// Returns the bytes of a weight that `op` loads in a step: gathered rows by their number, or all
/// of it whenever the op runs.
static double weightBytes(Operation *op, unsigned i, const StepRate &rate) {
  auto bind = op->getOperand(i).getDefiningOp<plan::BindOp>();
  auto isWeight = [&](StringRef prefix) { return bind.getPlace().starts_with(prefix); };
  if (!bind || !(isWeight("parameter:") || isWeight("compute:") || isWeight("quantized:") ||
                 isWeight("scale:") || isWeight("constant:"))) {
    return 0;
  }
  auto type = cast<RankedTensorType>(bind.getType());
  dispatch::AccessAttr access = cast<dispatch::KernelInterface>(op).getAccess(i);
  AccessKind kind = access ? access.getKind() : AccessKind::Vector; // loaded as a whole
  if (kind == AccessKind::Gather || kind == AccessKind::Table) {
    return countBytes(type, type.getShape().back()) * rate.rows;
  }
  return countBytes(type, type.getNumElements()) * double(rate.runs) / double(rate.period);
}

/// Returns the number of rows of `rows` that a launch loads, each counted once, at position `time`
/// in the unit of its positions.
static int64_t rowsShared(Operation *op, const dispatch::SharedRead &read, int64_t rows,
                          int64_t time) {
  if (read.factor == 0) {
    return rows;
  }
  dispatch::DomainAttr domain = cast<dispatch::KernelInterface>(op).getDomain();
  int64_t p = time / std::max<int64_t>(1, domain.getFactor()), there = time / read.factor + 1;
  auto [first, last] = solveMask(read.relation).getRange(p, there);
  return std::min(std::max<int64_t>(0, last - first + 1), rows);
}

/// Returns the bytes of states that `kernel` loads at token t, averaged over the period around it.
/// Rows of a segment were computed in earlier steps.
static double stateBytes(dispatch::KernelInterface kernel, const DenseSet<Value> &states,
                         const StepRate &rate, int64_t t) {
  StringAttr guard = kernel.getGuardAttr();
  bool isOfRows = guard && guard.getValue().ends_with(plan::rowsOfSegments);
  double bytes = 0;
  for (auto [i, operand] : llvm::enumerate(kernel->getOperands())) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (std::optional<dispatch::SharedRead> shared = kernel.getSharedRead(i)) {
      int64_t time = int64_t(double(t) * rate.clock);
      int64_t rows = rowsShared(kernel, *shared, type.getDimSize(1), time);
      bytes += countBytes(type, rows * shared->columns) * double(rate.runs) / double(rate.period);
    } else if (states.contains(operand) && type.getRank() == 3 &&
               (isOfRows || !kernel.readsOwnRows(i))) {
      dispatch::AccessAttr access = kernel.getAccess(i);
      int64_t rows = access ? access.getGroup() : 0;
      bytes += countBytes(type, rows * type.getDimSize(2)) * rate.rows;
    }
  }
  return bytes;
}

StepReads sluice::stepReads(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  std::map<std::string, StepRate> rates = stepRates(module);
  DenseSet<Value> states;
  for (auto store : step.getOps<plan::StoreOp>()) {
    if (store.getPlace().starts_with("state:")) {
      states.insert(store.getValue());
    }
  }
  int64_t context = getContext(module), parts = std::min(context, mostParts);
  double weights = 0;
  SmallVector<double> kept(parts);
  for (auto op : step.getOps<dispatch::KernelInterface>()) {
    StringAttr guard = op.getGuardAttr();
    StepRate rate = guard ? rates.at(guard.str()) : StepRate();
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      weights += weightBytes(op, i, rate);
    }
    for (auto [part, bytes] : llvm::enumerate(kept)) {
      bytes += stateBytes(op, states, rate, (2 * int64_t(part) + 1) * context / (2 * parts));
    }
  }
  return {int64_t(weights), SmallVector<int64_t>(kept.begin(), kept.end())};
}
