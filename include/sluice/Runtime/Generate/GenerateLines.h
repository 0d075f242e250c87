// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates a line for each line of a model's named inputs.
#pragma once

#include "sluice/Runtime/Data/LinePairs.h"
#include "sluice/Runtime/Execute/Executor.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Generates the text after a line end for each line of `inputs`, up to the next line end or until
/// the context is full, always with the most probable token. Without `encoder`, tokens are bytes.
/// `progress` receives the share of finished lines.
std::vector<std::string> generateLines(Executor &executor, const InputLines &inputs,
                                       const std::shared_ptr<const TextEncoder> &encoder,
                                       const std::function<void(double)> &progress = {});

} // namespace sluice::runtime
