// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Origins of ops, as metadata of their locations (Origin.td explains why).
#pragma once

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

#define GET_ATTRDEF_CLASSES
#include "sluice/Dialect/Sluice/SluiceAttributes.h.inc"

namespace sluice {

/// Returns `place` as the location of ops of one part of a stage.
mlir::Location addOrigin(llvm::StringRef stage, llvm::StringRef part, mlir::Location place);

/// Returns every distinct origin of a location, in order.
llvm::SmallVector<OriginAttr> getOrigins(mlir::Location location);
/// Returns the first origin of an op; null without one, as in model IR without locations.
OriginAttr getOrigin(mlir::Operation *op);
/// Returns the stage and the part of an op's first origin; empty without one.
llvm::StringRef getOriginStage(mlir::Operation *op);
llvm::StringRef getOriginPart(mlir::Operation *op);
/// Returns the name of the op's first origin, or else the op's own name, or "tokens" for an
/// argument.
std::string getOriginName(mlir::Value value);

/// Returns `first` with the origins of `second` that it lacks. Locations without an origin are not
/// added.
mlir::Location mergeOrigins(mlir::Location first, mlir::Location second);
/// Adds the origins of `replaced` to the location of `kept`.
void mergeOrigins(mlir::Operation *kept, mlir::Operation *replaced);

} // namespace sluice
