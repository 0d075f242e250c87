// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts of a spec that its plan includes.
#pragma once

#include "sluice/Conversion/ParseSpec.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

namespace sluice::driver {

/// Returns the object "facts" of a plan (docs/plan-and-artifact.md). Levels that draw a factor have
/// `factor`, or the smallest factor if it is 0. The ops of `imported`, the module of the spec,
/// determine which stage computes the rows of a stream; if it is null, each stage computes its own
/// rows.
llvm::json::Object getSpecFacts(const ParsedSpec &spec, int64_t factor, mlir::ModuleOp imported);

/// Returns true if the head of an imported module is trained on the tokens of the text: neither on
/// smoothed labels nor on numbers of an input.
bool trainsOnTokens(mlir::ModuleOp imported);

} // namespace sluice::driver
