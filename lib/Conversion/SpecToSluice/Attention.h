// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of a layer.
#pragma once

#include "StageContext.h"

namespace sluice::spec_to_sluice {

/// Operands of attention: queries, keys and values, which may be columns of one sequence; then the
/// terms by distance, and a table of angles.
struct AttentionInputs {
  mlir::Value query, keys, values;
  int64_t keyColumn, valueColumn;
  llvm::SmallVector<mlir::Value> extras;
};

/// Heads of `size` columns, the terms of their scores and the dropout of their probabilities, and
/// the keys that they read: every `stride`-th key of `mask` from row `first`.
struct HeadSettings {
  int64_t heads, keyValueHeads, size;
  double dropout;
  spec::RelativeTerms terms = spec::RelativeTerms::none;
  spec::MaskAttr mask = {};
  int64_t first = 0, stride = 1;
};

/// Creates the attention of the layer; `x` is its input, normed if the layer norms it.
mlir::Value convertAttention(StageContext &context, spec::LayerOp op, mlir::Value x);
/// Creates the attention of a stage whose queries, keys and values are of streams of their own.
mlir::Value convertStreams(StageContext &context, spec::AttentionOp op);
/// Creates scores and mixes, named BLOCK.mix; the mask is at `place`.
mlir::Value createMix(StageContext &context, const std::string &block, const HeadSettings &heads,
                      const AttentionInputs &inputs, mlir::Location place);

} // namespace sluice::spec_to_sluice
