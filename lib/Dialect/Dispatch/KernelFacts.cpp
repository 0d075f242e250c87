// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// KernelInterface: what each dispatch reads and writes of memory.
#include "sluice/Dialect/Dispatch/Dispatch.h"

using namespace mlir;
using namespace sluice::dispatch;

using Factor = std::optional<int64_t>;

static int64_t rankOf(Operation *dispatch, unsigned operand) {
  return cast<RankedTensorType>(dispatch->getOperand(operand).getType()).getRank();
}

Factor sluice::dispatch::rowFactorOf(Operation *dispatch, unsigned operand) {
  auto domain = dispatch->getAttrOfType<DomainAttr>("domain");
  return rankOf(dispatch, operand) == 3 ? Factor(domain.getFactor()) : std::nullopt;
}

/// Access number `number`; null where there are not so many.
static AccessAttr accessAt(ArrayAttr accesses, unsigned number) {
  return number < accesses.size() ? cast<AccessAttr>(accesses[number]) : AccessAttr();
}

AccessAttr RowsOp::getAccess(unsigned operand) { return accessAt(getAccesses(), operand); }

bool RowsOp::followsDomain(unsigned result) {
  return cast<AccessAttr>(getResultAccesses()[result]).getKind() == AccessKind::Row;
}

Factor RowsOp::getRowFactor(unsigned operand) {
  auto access = cast<AccessAttr>(getAccesses()[operand]);
  bool isRow = access.getKind() == AccessKind::Row && getDomain().getFactor() != 0;
  return isRow ? Factor(access.getSourceFactor()) : std::nullopt;
}

AccessAttr ContractOp::getAccess(unsigned operand) {
  constexpr unsigned firstExtra = 2;
  return operand < firstExtra ? AccessAttr() : accessAt(getAccesses(), operand - firstExtra);
}

/// Keys and values, rows by distance, and what has the rows of queries.
template <typename Op> static Factor attentionFactor(Op op, unsigned operand) {
  constexpr unsigned key = 1, value = 2;
  if (operand == key || operand == value) {
    return op.getKeys().getFactor();
  }
  DistanceTerms terms = op.getTerms();
  bool isByDistance = terms.rows && op->getOperand(operand) == terms.rows;
  return isByDistance ? op.getDomain().getFactor() / terms.distance.query
                      : rowFactorOf(op, operand);
}

Factor AttentionOp::getRowFactor(unsigned operand) { return attentionFactor(*this, operand); }
Factor AttentionBackwardOp::getRowFactor(unsigned operand) {
  return attentionFactor(*this, operand);
}

/// Of gradients of terms, Qv's has the rows of queries and R's a row a step of the distance; of a
/// table's, every row is there.
DomainAttr AttentionBackwardOp::getResultDomain(unsigned result) {
  size_t sources = getSourceGradients().size();
  auto rowsOfDistance = [&](int64_t factor) {
    auto type = cast<RankedTensorType>(getResult(result).getType());
    return DomainAttr::get(getContext(), type.getDimSize(0), type.getDimSize(1), factor);
  };
  if (getDistanceBias() && result + 1 == getNumResults()) {
    return rowsOfDistance(0);
  }
  if (result < sources) {
    return result == 0 ? getDomain() : getKeys();
  }
  return result == sources ? getDomain()
                           : rowsOfDistance(getDomain().getFactor() / getTerms().distance.query);
}

/// The log-sum-exps, too, are a number a row.
Factor CrossEntropyWeightGradientOp::getRowFactor(unsigned operand) {
  return getOperand(operand) == getLse() ? Factor(getDomain().getFactor())
                                         : rowFactorOf(*this, operand);
}
