// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "ShareWeights.h"

namespace sluice::spec {

/// Assigns each trained weight to the first group whose pattern matches its name. Fails for a group
/// that gets no weight, and where the name of a later stage with the same "share" matches another
/// group.
mlir::LogicalResult assignGroups(ModelOp model, llvm::ArrayRef<SharedName> shared);

} // namespace sluice::spec
