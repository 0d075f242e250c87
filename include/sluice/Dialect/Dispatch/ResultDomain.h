// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch {

/// Returns KernelInterface::getResultDomain; null for the result of an op that is not a dispatch.
inline DomainAttr getRowDomain(mlir::OpResult result) {
  auto kernel = llvm::dyn_cast<KernelInterface>(result.getOwner());
  return kernel ? kernel.getResultDomain(result.getResultNumber()) : DomainAttr();
}

/// Returns the axis of segments whose rows a dispatch runs over; null if the tokens' length
/// determines the rows.
inline mlir::StringAttr findSequenceAxis(mlir::Operation *dispatch) {
  auto kernel = llvm::dyn_cast<KernelInterface>(dispatch);
  return kernel ? kernel.getDomain().getAxis() : mlir::StringAttr();
}

} // namespace sluice::dispatch
