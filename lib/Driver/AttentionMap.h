// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes an imported module such that its entry `predict` returns an attention map.
#pragma once

#include "sluice/Driver/Driver.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace sluice::driver {

/// Changes `predict` of a module to return an attention map for one row of a batch, and fills in
/// its shape. Returns a message for the user if the model has no such map; else empty.
///
/// The values of the attention op become rows with ones: column c of key q is 1 where the map's
/// column c shows key q. The op's result is then its map, computed by the kernels of the model. A
/// linear map takes one head of it, or the mean of all.
std::string returnAttention(mlir::ModuleOp module, const AttentionRequest &request,
                            AttentionFacts &facts);

} // namespace sluice::driver
