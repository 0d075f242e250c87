// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shapes of attention's terms by distance and of their gradients.
#include "Terms.h"

using namespace mlir;
using namespace sluice::dispatch;

template <typename Op> LogicalResult sluice::dispatch::verifyTerms(Op op, size_t others) {
  auto terms = op.getTerms();
  auto typeOf = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  auto heads = static_cast<int64_t>(op.getHeads()), head = static_cast<int64_t>(op.getHeadSize());
  auto areRows = [&](Value term) {
    RankedTensorType type = typeOf(term);
    return type.getRank() == 3 && type.getDimSize(0) == op.getDomain().getBatch() &&
           type.getDimSize(2) == heads * head &&
           type.getElementType() == typeOf(op.getQuery()).getElementType() &&
           (op.getDomain().getScheduled() || type.getDimSize(1) == op.getDomain().getPositions());
  };
  bool fits = terms.count() + others == op.getExtras().size() &&
              terms.count() >= (op.getDistanceBias() ? 1 : 0);
  fits = fits && (!terms.rows || (areRows(terms.query) && areRows(terms.rows)));
  if (fits && terms.bias) {
    RankedTensorType type = typeOf(terms.bias);
    fits = type.getRank() == 2 && type.getElementType().isF32() && type.getDimSize(0) >= 1 &&
           (op.getDomain().getScheduled() || type.getDimSize(0) <= op.getDomain().getPositions()) &&
           type.getDimSize(1) == heads;
  }
  bool isOneDomain = op.getDomain().getScheduled()
                         ? op.getKeys().getFactor() == op.getDomain().getFactor()
                         : op.getKeys() == op.getDomain();
  if (fits && (terms.count() == 0 || isOneDomain)) {
    return success();
  }
  InFlightDiagnostic error = op.emitOpError(
      "D-025: expected, behind queries, keys and values of one domain, two tensors of rows by "
      "distance or a table of distances by heads, or both, found ");
  llvm::interleaveComma(op.getExtras().getTypes(), error);
  return error;
}

template LogicalResult sluice::dispatch::verifyTerms(AttentionOp op, size_t others);
template LogicalResult sluice::dispatch::verifyTerms(AttentionBackwardOp op, size_t others);

bool sluice::dispatch::fitsTerms(AttentionBackwardOp op) {
  auto terms = op.getTerms();
  if (op.getGradients().size() <= terms.count()) {
    return terms.count() == 0;
  }
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  auto gradients = op.getGradients().take_back(terms.count());
  bool fits = !terms.rows || (shapeOf(gradients[0]) == shapeOf(terms.query) &&
                              shapeOf(gradients[1]) == shapeOf(terms.rows));
  if (fits && terms.bias) {
    SmallVector<int64_t> parts{op.getDomain().getBatch()};
    llvm::append_range(parts, shapeOf(terms.bias));
    fits = shapeOf(gradients.back()) == ArrayRef(parts) &&
           getElementTypeOrSelf(gradients.back().getType()).isF32();
  }
  return fits;
}
