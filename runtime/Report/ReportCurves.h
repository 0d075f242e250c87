// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws a report's curves.
#pragma once

#include "RunFiles.h"

#include <sstream>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Return a color and dashes per run or curve. After six, colors repeat with other dashes.
std::string getColor(size_t index);
std::string getDashes(size_t index);

/// Returns the chart of bits per byte of one run: training, held-out text, and n-gram models of the
/// same text.
Chart buildLossChart(const RunFiles &run);

/// Writes the charts of one run.
void writeCurves(std::ostringstream &out, const RunFiles &run);

/// Writes charts with a curve per run. `names` are the labels of the runs.
void writeCommonCurves(std::ostringstream &out, const std::vector<RunFiles> &runs,
                       const std::vector<std::string> &names);

} // namespace sluice::runtime
