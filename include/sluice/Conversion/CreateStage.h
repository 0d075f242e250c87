// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates stages of the spec dialect.
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice {

/// Creates the stage `word`, for example "shorten", with these attributes: infers its result, sets
/// defaults that are derived from others, and verifies it. Reports an error and returns null if a
/// key does not fit.
mlir::Operation *createStage(mlir::OpBuilder &builder, mlir::Location location,
                             llvm::StringRef word, mlir::ValueRange operands,
                             llvm::ArrayRef<mlir::NamedAttribute> attributes);

} // namespace sluice
