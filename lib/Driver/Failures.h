// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Failures that end a job: files, memory, and errors of LLVM.
#pragma once

#include "sluice/Driver/Driver.h"

#include <functional>

namespace sluice::driver {

/// Runs `job`. What the file wrapper throws becomes an outcome: 2 where the user named something
/// wrong, 1 where the machine failed.
Outcome explainFailures(const std::function<Outcome()> &job);

} // namespace sluice::driver
