// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rates and decays of trained parameters where the training has groups of weights.
#pragma once

#include "sluice/Transforms/ParameterLayout.h"

namespace sluice {

/// Rate and decay of the numbers of the flat arena. Weights of several groups may share a flat row,
/// because a parameter may store several weights. So a row is divided into runs of numbers with the
/// same rate and decay, and all rows have the same number of runs.
class ParameterGroups {
public:
  /// A run ends where the next one begins.
  struct Run {
    int32_t begin = 0; ///< column; `flatRowElements` if the row has no such run
    float factor = 1;  ///< of the rate of the step
    float decay = 0;
  };

  ParameterGroups(mlir::ModuleOp module, const ParameterLayout &layout);

  /// Returns the number of runs of each row; 0 if the training has no groups.
  size_t countRuns() const { return runs.size(); }
  /// Returns run `index` of each flat row.
  llvm::ArrayRef<Run> getRuns(size_t index) const { return runs[index]; }

private:
  std::vector<std::vector<Run>> runs;
};

/// Returns the place of run `index` of a table, `decay` for example: "decay", then "decay.1".
std::string getRunName(llvm::StringRef table, size_t index);

} // namespace sluice
