// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Locations of ops in the spec.
#pragma once

#include "mlir/IR/Operation.h"
#include "sluice/Spec/Diagnostic.h"

namespace sluice {

/// Returns the location of an op's stage in the spec; for attention, the location of its mask.
spec::SourceLocation getOpLocation(mlir::Operation *op);

} // namespace sluice
