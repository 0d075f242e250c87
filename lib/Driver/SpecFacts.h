// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of a plan that are facts of the spec.
#pragma once

#include "sluice/Conversion/ParseSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace sluice::driver {

/// Returns the object "facts" of a plan (docs/plan-and-artifact.md). Levels that draw a factor have
/// `factor`; 0: the least one. The ops of `imported`, the spec's module, decide which stage
/// computes the rows of a stream; null: each its own.
llvm::json::Object getSpecFacts(const ParsedSpec &spec, int64_t factor, mlir::ModuleOp imported);

/// Returns true where the head of an imported module is trained against the text's own tokens: not
/// with smoothed labels or numbers of an input.
bool trainsOnTokens(mlir::ModuleOp imported);

} // namespace sluice::driver
