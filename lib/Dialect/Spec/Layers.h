// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks and defaults of layer settings.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Checks the layer settings of a stage that has them.
mlir::LogicalResult verifyLayerSettings(mlir::Operation *stage);
/// Fails unless heads form `count` equal groups, as the key `cause` requires.
mlir::LogicalResult verifyGroups(LayerSettingsInterface layer, llvm::StringRef cause,
                                 int64_t count);
/// Fails if keys before row `first` cannot be masked.
mlir::LogicalResult verifyFirst(mlir::Operation *stage, int64_t first);
/// Sets key_value_heads, head_size and feed_forward for rows of `width`.
void setLayerDefaults(mlir::Operation *stage, int64_t width);

} // namespace sluice::spec
