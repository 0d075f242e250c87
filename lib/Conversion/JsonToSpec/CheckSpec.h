// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Expands a copy of a model at every factor that it draws, and checks losses, sizes and weights.
/// Reports the first error.
llvm::LogicalResult checkSpec(ModelOp model);

} // namespace sluice::spec
