// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Failures that end a job: files, memory, and errors of LLVM.
#pragma once

#include "sluice/Driver/Driver.h"

#include <functional>

namespace sluice::driver {

/// Runs `job` and converts the exceptions of file accesses to an outcome: status 2 for a mistake of
/// the user, 1 for a system failure.
Outcome explainFailures(const std::function<Outcome()> &job);

} // namespace sluice::driver
