// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rates and states of a decode step, and a lower bound on its memory reads, from its schedules and
// masks.
#pragma once

#include "sluice/Dialect/Sluice/Step.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <string>

namespace sluice {

/// Frequency of launches: `runs` of every `period` steps.
struct StepRate {
  int64_t runs = 1, period = 1;
  double rows = 1;           ///< average rows that a step computes
  double clock = 1;          ///< units of its positions per token; for segments an upper bound
  std::string segments = {}; ///< axis of segments at whose ends it runs, at most that often
};

/// Returns rates by guard, `due.N`.
std::map<std::string, StepRate> stepRates(mlir::ModuleOp module);

/// Returns the schedules by which @step stores states, by state. A state without rows has none. The
/// schedule of a named input's state, whose rows precede all steps, is null.
std::map<std::string, ScheduleOp> stateSchedules(mlir::ModuleOp module);

/// Returns the number of a state's rows after each step, or closed segment, of one period, as the
/// plan has it. A named input's state has all of its rows, `stored`, before the first step.
llvm::json::Object rowCountsToJson(ScheduleOp schedule, int64_t stored);

/// Returns true if a state has a row for each line of the named inputs: its schedule is null, or it
/// is the number of closed segments of such a line.
bool isByLine(mlir::ModuleOp module, llvm::StringRef state,
              const std::map<std::string, ScheduleOp> &schedules);

/// Bytes that a step must load, averaged over steps.
struct StepReads {
  int64_t weights = 0; ///< each weight of the launches that run, once
  /// Bytes of the states of one batch row, for equal parts of the context, in order.
  llvm::SmallVector<int64_t> states;
};

/// Computes the loads of @step, which consists of dispatches.
StepReads stepReads(mlir::ModuleOp module);

} // namespace sluice
