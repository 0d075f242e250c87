// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements RowReadsInterface for the ops that differentiation creates.
#include "sluice/Dialect/Sluice/Sluice.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;
using dispatch::RowReadList;

/// Returns an access to every sequence at the row itself; nothing if the result is a parameter's
/// gradient.
static std::optional<RowReadList> readsItsRow(Operation *op, unsigned result) {
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

std::optional<RowReadList> EmbedBackwardOp::getRowReads(unsigned) { return std::nullopt; }
std::optional<RowReadList> PositionBackwardOp::getRowReads(unsigned) { return std::nullopt; }
std::optional<RowReadList> LinearWeightGradientOp::getRowReads(unsigned) { return std::nullopt; }
std::optional<RowReadList> MeanGradientOp::getRowReads(unsigned) { return SmallVector<RowRead>{}; }
std::optional<RowReadList> NormBackwardOp::getRowReads(unsigned result) {
  return readsItsRow(*this, result);
}
std::optional<RowReadList> LinearInputGradientOp::getRowReads(unsigned result) {
  return readsItsRow(*this, result);
}

std::optional<RowReadList> AttentionBackwardOp::getRowReads(unsigned result) {
  return dispatch::attentionBackwardReads(getMask(), getNumOperands(), result,
                                          getSourceGradients().size(), getTerms());
}

/// Accesses the row and its target, token p + offset.
std::optional<RowReadList> CrossEntropyBackwardOp::getRowReads(unsigned result) {
  std::optional<RowReadList> reads = readsItsRow(*this, result);
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
