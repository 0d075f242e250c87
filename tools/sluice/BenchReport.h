// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measurements of `sluice bench` as text.
#pragma once

#include "sluice/Runtime/Execute/Executor.h"

#include <nlohmann/json.hpp>

namespace sluice::cli {

/// Prints the figures of `json`, then its tables of kernels if it has them, on standard output.
void printBench(const nlohmann::json &json, const runtime::Executor &executor);

} // namespace sluice::cli
