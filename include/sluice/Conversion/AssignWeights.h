// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of a model of primitive stages.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice {

/// Adds a spec.weight for each trained tensor of a model of primitive stages, and determines the
/// tensors that stages share. Reports an error at the key that makes the model too large, or that
/// leaves nothing to train.
llvm::LogicalResult assignWeights(spec::ModelOp model);

} // namespace sluice
