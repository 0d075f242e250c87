// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Patterns that replace composite stages, one a file.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace sluice::spec {

/// Adds a pattern; at each match `stages` is the number of stages before the matched one.
using PopulatePattern = void(mlir::RewritePatternSet &patterns, const int64_t &stages);
PopulatePattern populateExpandBlt, populateExpandBlockTransformer, populateExpandBottomUp,
    populateExpandDynamic, populateExpandHnet, populateExpandHourglass, populateExpandLayers,
    populateExpandMegabyte, populateExpandSpaceByte, populateExpandTopDown;

} // namespace sluice::spec
