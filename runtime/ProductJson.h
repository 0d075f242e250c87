// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plans and tuning files say of matrix products.
#pragma once

#include "StrictJson.h"
#include "sluice/Runtime/Plan.h"

namespace sluice::runtime {

Algorithm readAlgorithm(const StrictJson &json);

/// Keys "rows", "columns", "depth", "by_input" and "type" of an object that may have others.
Product readShape(const StrictJson &json);

/// The "product" of a kernel of a plan, within the memory of its operands.
Product readProduct(const StrictJson &json, const std::vector<Operand> &operands);

/// The "library" of a GPU variant.
LibraryChoice readLibrary(const StrictJson &json);

} // namespace sluice::runtime
