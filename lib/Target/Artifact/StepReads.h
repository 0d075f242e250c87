// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a step of generation must read, from its schedules and relations.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include <map>
#include <string>

namespace sluice {

/// How often something runs: in `runs` of every `period` steps.
struct StepRate {
  int64_t runs = 1, period = 1;
  double rows = 1;  ///< that a step computes, on the average
  double clock = 1; ///< what positions are counted in, by token: of segments as many as may be
  std::string segments = {}; ///< axis at whose segments' ends it runs, at most that often
};

/// Rates by guard, `due.N`.
std::map<std::string, StepRate> stepRates(mlir::ModuleOp module);

/// Bytes that a step must read, averaged over steps.
struct StepReads {
  int64_t weights = 0; ///< each weight of the launches that run, once
  /// What is kept of one text, by equal parts of the context, in order.
  llvm::SmallVector<int64_t> states;
};

/// Of @step, which holds dispatches.
StepReads stepReads(mlir::ModuleOp module);

} // namespace sluice
