// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch {

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
    return backward.getKeys();
  }
  return result.getOwner()->getAttrOfType<DomainAttr>("domain");
}

} // namespace sluice::dispatch
