// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch {

/// The gradient of rows by distance: a row a step of the distance.
inline DomainAttr domainOfRows(AttentionBackwardOp op, mlir::Value gradient) {
  auto type = llvm::cast<mlir::RankedTensorType>(gradient.getType());
  return DomainAttr::get(op.getContext(), type.getDimSize(0), type.getDimSize(1),
                         op.getDomain().getFactor() / op.getTerms().distance.query);
}

/// The rows that a result has: those of its dispatch's domain, of keys, or of distances; null where
/// its op has no domain.
inline DomainAttr domainOf(mlir::OpResult result) {
  auto backward = llvm::dyn_cast<AttentionBackwardOp>(result.getOwner());
  if (backward && backward.getDistanceBias() &&
      result.getResultNumber() + 1 == backward->getNumResults()) {
    auto type = llvm::cast<mlir::RankedTensorType>(result.getType());
    return DomainAttr::get(result.getContext(), type.getDimSize(0), type.getDimSize(1), 0);
  }
  if (backward && result.getResultNumber() > 0) {
    size_t sources = backward.getSourceGradients().size();
    bool isOfTerm = result.getResultNumber() >= sources;
    return !isOfTerm                             ? backward.getKeys()
           : result.getResultNumber() == sources ? backward.getDomain()
                                                 : domainOfRows(backward, result);
  }
  return result.getOwner()->getAttrOfType<DomainAttr>("domain");
}

/// The axis of segments whose rows a dispatch runs over; null where the tokens' length says.
inline mlir::StringAttr axisOf(mlir::Operation *dispatch) {
  auto domain = dispatch->getAttrOfType<DomainAttr>("domain");
  return domain ? domain.getAxis() : mlir::StringAttr();
}

} // namespace sluice::dispatch
