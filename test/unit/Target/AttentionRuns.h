// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs attention's CUDA kernels on the emulator, on inputs of the float64 reference.
#pragma once

#include "AttentionReference.h"
#include "EmulatedKernel.h"

namespace sluice::test {

CudaRun forwardRun(const AttentionCase &c, const AttentionData &data, emulator::Schedule schedule,
                   emulator::Copies copies);
CudaRun backwardRun(const AttentionCase &c, const AttentionData &data, emulator::Schedule schedule,
                    emulator::Copies copies);

constexpr int64_t allValid = -1;   ///< number of a tensor whose rows are not positions
constexpr int64_t byDistance = -2; ///< and of rows by distance

/// Expects every element within its bound, and invalid rows as zeros if `zeros`, else unchanged.
void compare(const AttentionCase &c, const std::vector<float> &found, const Expected &expected,
             int64_t width, bool zeros, const std::string &what, int64_t tensor = 0);

} // namespace sluice::test
