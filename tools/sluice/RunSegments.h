// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds a run's segments for a report.
#pragma once

#include "sluice/Driver/SpecFacts.h"
#include "sluice/Runtime/Report/Report.h"

namespace sluice::cli {

/// Cuts the first `most` tokens of the run's held-out text, or else of its newest sample, on the
/// CPU with its latest weights: recompiles `spec`, the run's, for each `boundaries` stage. Empty if
/// the model has none, or if `most` is 0. Notes list the omitted parts, with reasons. `kernelCache`
/// is the setting of driver::CompileRequest.
runtime::ShownSegments showSegments(const Path &run, const driver::SpecDescription &spec,
                                    int64_t most, const std::string &kernelCache);

} // namespace sluice::cli
