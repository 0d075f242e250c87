// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shapes of attention's relative position terms and of their gradients.
#include "Terms.h"

using namespace mlir;
using namespace sluice::dispatch;

template <typename Op> LogicalResult sluice::dispatch::verifyTerms(Op op, size_t others) {
  auto terms = op.getTerms();
  auto getRowType = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  auto heads = static_cast<int64_t>(op.getHeads()), head = static_cast<int64_t>(op.getHeadSize());
  DomainAttr domain = op.getDomain(), keys = op.getKeys();
  const Distance &distance = terms.distance;
  auto areRows = [&](Value term) {
    RankedTensorType type = getRowType(term);
    return type.getRank() == 3 && type.getDimSize(0) == domain.getBatch() &&
           type.getDimSize(2) == heads * head &&
           type.getElementType() == getRowType(op.getQuery()).getElementType();
  };
  auto countSteps = [&](Value rows, int64_t step) {
    return (getRowType(rows).getDimSize(1) + step - 1) / step;
  };
  auto isRowTable = [&](Value term) {
    RankedTensorType type = getRowType(term);
    return type.getDimSize(0) % 2 == 1 && type.getDimSize(1) == head &&
           type.getElementType() == getRowType(op.getQuery()).getElementType();
  };
  bool fits = terms.count() + others == op.getExtras().size() &&
              terms.count() >= (op.getDistanceBias() ? 1 : 0) &&
              Distance::of(op.getDistance()).has_value();
  fits = fits && (!terms.rows || areRows(terms.query)) &&
         terms.hasRowTable() == (terms.isCentered && terms.rows) &&
         (!terms.rows || (terms.hasRowTable() ? isRowTable(terms.rows) : areRows(terms.rows)));
  if (fits && terms.rows && !terms.hasRowTable() && !domain.getScheduled()) {
    fits = getRowType(terms.query).getDimSize(1) == domain.getPositions() &&
           countSteps(terms.rows, distance.query) == domain.getPositions() &&
           countSteps(terms.rows, distance.key) == keys.getPositions();
  }
  if (fits && terms.bias) {
    RankedTensorType type = getRowType(terms.bias);
    int64_t most = distance.query * domain.getPositions() + std::max<int64_t>(distance.offset, 0);
    fits = type.getRank() == 2 && type.getElementType().isF32() && type.getDimSize(0) >= 1 &&
           (terms.isCentered ? type.getDimSize(0) % 2 == 1
                             : domain.getScheduled() || type.getDimSize(0) <= most) &&
           type.getDimSize(1) == heads;
  }
  bool isOneStep = domain.getFactor() * distance.key == keys.getFactor() * distance.query &&
                   domain.getFactor() % distance.query == 0;
  if (fits && (terms.count() == 0 || isOneStep)) {
    return success();
  }
  InFlightDiagnostic error =
      op.emitOpError("D-025: expected, after queries, keys and values whose factors are in the "
                     "ratio of the distance's steps, two tensors of rows by distance or a table of "
                     "distances by heads, or both, found ");
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
  auto getTensorShape = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  };
  auto gradients = op.getGradients().take_back(terms.count());
  int64_t batch = op.getDomain().getBatch(), heads = op.getHeads(),
          distances = terms.countDistances(op.getDomain().getPositions());
  SmallVector<int64_t> rowParts{batch, heads * distances, static_cast<int64_t>(op.getHeadSize())};
  bool fits =
      !terms.rows || (getTensorShape(gradients[0]) == getTensorShape(terms.query) &&
                      getTensorShape(gradients[1]) ==
                          (terms.hasRowTable() ? ArrayRef(rowParts) : getTensorShape(terms.rows)));
  if (fits && terms.bias) {
    SmallVector<int64_t> parts{batch};
    llvm::append_range(parts, getTensorShape(terms.bias));
    parts[1] = terms.isCentered ? distances : parts[1];
    fits = getTensorShape(gradients.back()) == ArrayRef(parts) &&
           getElementTypeOrSelf(gradients.back().getType()).isF32();
  }
  return fits;
}
