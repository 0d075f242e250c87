// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Labels of the data, the entropy of a model's predictions, and the progress of training.
#pragma once

#include "sluice/Dialect/Sluice/Sluice.h"

#define GET_OP_CLASSES
#include "sluice/Dialect/Sluice/LabelsOps.h.inc"

namespace sluice {

/// Prefix of the places where the host provides labels, f32 [B, T], by name.
constexpr llvm::StringRef labelsInput = "input:labels.";
/// Prefix of the places where the host provides the numbers of a named input, f32 [B, T] or [B, T,
/// width].
constexpr llvm::StringRef numbersInput = "input:numbers.";
/// Returns the place of the sum of a loss's weights, which the host provides or `sluice.weight_sum`
/// computes: over the scored rows from `first`, in all batches of an update.
std::string weightsScalar(llvm::StringRef name, int64_t first);
/// Follows the name of a loss in the name of weights that the model computes.
constexpr llvm::StringRef countedSuffix = ".counted";
/// Returns the place of the sum of weights that the model computes.
std::string countedScalar(llvm::StringRef name);

} // namespace sluice
