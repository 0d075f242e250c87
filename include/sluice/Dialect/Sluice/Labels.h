// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Labels of the data, the entropy of a model's predictions, and the progress of training.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/LabelsOps.h.inc"

namespace sluice {

/// Where the host gives labels, f32 [B, T], by the name behind it.
constexpr llvm::StringRef labelsInput = "input:labels.";
/// Where it gives the numbers of a named input, f32 [B, T] or [B, T, width].
constexpr llvm::StringRef numbersInput = "input:numbers.";
/// Where it says what weights of losses add up to: in the rows that are scored from `first` on, of
/// all batches of an update.
std::string weightsScalar(llvm::StringRef name, int64_t first);

} // namespace sluice
