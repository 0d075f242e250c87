// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dependences of rows, walked in model IR. No MLIR in this header, so a program can also use the
// runtime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::testing {

/// [row][token], of `length`: whether the row's loss, in @evaluate of model IR `text`, depends on
/// the token as an input or a target.
std::vector<std::vector<bool>> computeRowDependences(const std::string &text, int64_t length);

} // namespace sluice::testing
