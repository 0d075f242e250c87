// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Trained tensors of a spec: names, shapes, order and initialization (docs/spec.md,
// "Initialization").
#pragma once

#include "sluice/Dialect/Spec/Spec.h"

namespace sluice::spec {

/// Standard deviation of an embedding table, and of trained rows.
constexpr double embeddingDeviation = 0.02;

/// Adds spec.weight ops to the end of a model, stage by stage. Each stage lists all tensors that it
/// reads, as if it shared none.
class WeightList {
public:
  explicit WeightList(ModelOp model);

  /// Adds the tensors of one stage.
  void addStage(WeightsInterface stage);

  /// Adds a tensor; `name` follows the path of the stage.
  void add(llvm::StringRef name, llvm::ArrayRef<int64_t> shape, InitialValues initial,
           double deviation = 0, bool decays = false);
  /// Adds PREFIX.weight [out, in] of a linear map; the deviation is divided by `shrink`.
  void addMatrix(llvm::StringRef prefix, int64_t out, int64_t in, double shrink = 1,
                 InitialValues initial = InitialValues::normal);
  /// Adds PREFIX.bias, initialized to zeros.
  void addBias(llvm::StringRef prefix, int64_t size);
  /// Adds the matrix and the bias of a linear map.
  void addLinear(llvm::StringRef prefix, int64_t out, int64_t in, double shrink, bool hasBias);
  /// Adds PREFIX.weight, initialized to ones, and PREFIX.bias for a layer norm.
  void addNorm(llvm::StringRef prefix, NormFunction norm, int64_t width);
  /// Begins a parameter PREFIX.weight or PREFIX.bias that contains the following tensors; an empty
  /// prefix ends it.
  void setParameter(llvm::StringRef prefix) { parameter = prefix.str(); }

  /// Returns the square root of the number of attention and feed-forward blocks, or of 2 in a model
  /// without any: divided by it, the branches preserve the variance of the residual stream.
  double getResidualScale() const { return residualScale; }

private:
  mlir::OpBuilder builder;
  WeightsInterface stage;
  std::string parameter;
  double residualScale;
};

} // namespace sluice::spec
