// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of a test's function, by the ops' own backward and by finite differences.
#pragma once

#include "Model.h"

namespace sluice::testing {

/// Adds function @gradient to the model. Arguments: the arguments of @f, then one gradient a result
/// of @f. Results: the gradient of each argument of @f that has one. Returns which arguments those
/// are.
std::vector<unsigned> addGradient(DialectModel &model);

/// Gradient of sum over results r of <weights[r], r> with respect to argument `index`, by
/// fourth-order central differences in float64.
Doubles finiteDifference(DialectModel &model, const Arguments &arguments, unsigned index,
                         const std::vector<Doubles> &weights, reference::RuntimeValues setting);

} // namespace sluice::testing
