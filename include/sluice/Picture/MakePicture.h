// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Pictures of checked modules.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Picture/Picture.h"
#include <optional>

namespace sluice {

/// The picture of a checked module. A leak is drawn at its witness, another model at `row` of a
/// short sequence; without `row`, at one in the middle of a period of the scales. Segments are
/// those of `text`: of a rule, where its bytes say, of a predictor, where | stands behind a byte,
/// and || where segments are cut again. Without it they are regular. Returns nothing and sets
/// `error` where it would be too wide to read, has no loss, or the text does not fit.
std::optional<Picture> makePicture(mlir::ModuleOp module, const CausalVerdict &verdict,
                                   std::optional<int64_t> row, std::string &error,
                                   const std::string &text = {});

} // namespace sluice
