// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements RowReadsInterface for the ops that differentiation creates.
#include "sluice/Dialect/Sluice/Sluice.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;

using OptionalReads = std::optional<SmallVector<RowRead>>;

/// Reads every sequence at the row itself; nothing if the result is a parameter's gradient.
static OptionalReads readsItsRow(Operation *op, unsigned result) {
  if (!isa<SequenceType>(op->getResult(result).getType())) {
    return std::nullopt;
  }
  SmallVector<RowRead> reads;
  for (OpOperand &operand : op->getOpOperands()) {
    if (isa<SequenceType>(operand.get().getType())) {
      reads.push_back(RowRead::itself(operand.getOperandNumber(), op->getContext()));
    }
  }
  return reads;
}

OptionalReads EmbedBackwardOp::getRowReads(unsigned) { return std::nullopt; }
OptionalReads PositionBackwardOp::getRowReads(unsigned) { return std::nullopt; }
OptionalReads LinearWeightGradientOp::getRowReads(unsigned) { return std::nullopt; }
OptionalReads MeanGradientOp::getRowReads(unsigned) { return SmallVector<RowRead>{}; }
OptionalReads NormBackwardOp::getRowReads(unsigned result) { return readsItsRow(*this, result); }
OptionalReads LinearInputGradientOp::getRowReads(unsigned result) {
  return readsItsRow(*this, result);
}

OptionalReads AttentionBackwardOp::getRowReads(unsigned result) {
  return dispatch::attentionBackwardReads(getMask(), getNumOperands(), result,
                                          getSourceGradients().size(), getTerms());
}

/// Reads the row and its target, token p + offset.
OptionalReads CrossEntropyBackwardOp::getRowReads(unsigned result) {
  OptionalReads reads = readsItsRow(*this, result);
  unsigned tokens = getTokensMutable().getOperandNumber();
  for (unsigned i = 0; reads && i < reads->size(); ++i) {
    if ((*reads)[i].operand == tokens) {
      AffineExpr target = getAffineDimExpr(0, getContext()) + static_cast<int64_t>(getOffset());
      (*reads)[i].map = AffineMap::get(2, 1, target);
      (*reads)[i].factor = 0;
    }
  }
  return reads;
}
