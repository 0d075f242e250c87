// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pictures of checked modules.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Picture/Picture.h"
#include <optional>

namespace sluice {

/// Draws a checked module: a leak at its witness, another model at `row` of a short sequence, by
/// default a row in the middle of a period of the scales. `text` defines the segments: a rule reads
/// its bytes, and a predictor has a boundary at each byte before `|`, and an outer boundary before
/// `||`. Segments are regular without a text. Returns nothing and sets `error` if the picture would
/// be too wide, the module has no loss, or the text does not fit.
std::optional<Picture> makePicture(mlir::ModuleOp module, const CausalVerdict &verdict,
                                   std::optional<int64_t> row, std::string &error,
                                   const std::string &text = {});

} // namespace sluice
