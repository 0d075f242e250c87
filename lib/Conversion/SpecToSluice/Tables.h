// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates tables of constants that stages read: names and contents.
#pragma once

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec_to_sluice {

constexpr llvm::StringLiteral sinusoidalName = "sinusoidal";
/// The name of the rotations of a layer with LSH attention, after the path of the layer.
constexpr llvm::StringLiteral rotationsPart = "attention.rotations";
/// Returns the symbol of the table of angles that a layer reads, by base, head size and positions.
std::string getRotaryName(spec::ModelOp model, spec::LayerOp op);
/// Returns the symbol of the table of sinusoids of distances that a layer of Transformer-XL reads.
std::string getDistancesName(spec::ModelOp model, spec::LayerOp op);
/// Returns the symbol of the table of bits that the rule of a boundaries stage reads, by token or
/// by position.
std::string getRuleName(spec::BoundariesOp op);
/// Returns the symbol of the table with one bit, for the first row of a stage's scale.
std::string getFirstRowName(spec::ModelOp model, spec::BoundariesOp op);
/// Returns the symbol of the table of bits by token that is 1 where a document ends.
std::string getDocumentEndName(spec::BoundariesOp op);

/// Adds the tables of all stages of a model, each once, as frozen parameters.
void addTables(mlir::ImplicitLocOpBuilder &builder, spec::ModelOp model);

} // namespace sluice::spec_to_sluice
