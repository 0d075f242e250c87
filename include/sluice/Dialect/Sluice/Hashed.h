// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LSH attention.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"
#include <vector>

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/HashedOps.h.inc"

namespace sluice {

/// Returns the constants of a parameter `rotations`: normal numbers, drawn by the model's seed and
/// the parameter's name.
std::vector<float> drawRotations(ParameterOp parameter);

} // namespace sluice
