// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by hashes.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"
#include <vector>

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/HashedOps.h.inc"

namespace sluice {

/// The constants of a parameter `rotations`: normal numbers, by the model's seed and its name.
std::vector<float> drawRotations(ParameterOp parameter);

} // namespace sluice
