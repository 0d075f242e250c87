// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of a layer.
#pragma once

#include "StageContext.h"

namespace sluice::spec_to_sluice {

/// Operands of attention: queries, and keys and values with their columns in one sequence; then the
/// terms by distance, and a table of angles.
struct AttentionInputs {
  mlir::Value query, keys;
  int64_t keyColumn, valueColumn;
  llvm::SmallVector<mlir::Value> extras;
};

/// Number of heads, and the keys that they read: every `stride`-th key of `mask` from row `first`.
struct HeadSettings {
  int64_t heads, keyValueHeads;
  spec::MaskAttr mask;
  int64_t first = 0, stride = 1;
};

/// Creates the attention of the layer; `x` is its input, normed if the layer norms it.
mlir::Value convertAttention(StageContext &context, spec::LayerOp op, mlir::Value x);
/// Creates scores and mixes, named BLOCK.mix; the mask is at `place`.
mlir::Value createMix(StageContext &context, spec::LayerOp op, const std::string &block,
                      const HeadSettings &heads, const AttentionInputs &inputs,
                      mlir::Location place);

} // namespace sluice::spec_to_sluice
