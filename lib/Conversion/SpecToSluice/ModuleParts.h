// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the parts of the module around its functions.
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec_to_sluice {

/// Sets facts of the model as a whole on the module: sizes, name and settings of training.
void setModuleAttributes(mlir::Operation *module, spec::ModelOp model);
/// Adds axes of tokens, inputs and segments, and the scales on them.
void addScales(mlir::ImplicitLocOpBuilder &builder, spec::ModelOp model);
/// Adds a parameter for each weight, or for weights that are parts of one.
void addParameters(mlir::ImplicitLocOpBuilder &builder, spec::ModelOp model);

} // namespace sluice::spec_to_sluice
