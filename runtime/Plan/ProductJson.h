// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads matrix products in plans and tuning files.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Support/StrictJson.h"

namespace sluice::runtime {

Algorithm readAlgorithm(const StrictJson &json);

/// Reads the keys "rows", "columns", "depth", "by_input" and "type" of an object that may have
/// others.
Product readShape(const StrictJson &json);

/// Reads the "product" of a plan's kernel, and checks it against the sizes of the operands.
Product readProduct(const StrictJson &json, const std::vector<Operand> &operands);

/// Reads the "library" of a GPU variant.
LibraryChoice readLibrary(const StrictJson &json);

} // namespace sluice::runtime
