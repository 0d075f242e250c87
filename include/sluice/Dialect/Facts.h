// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes of a module or function, which are upstream's ops and so have no attributes of ours in
// ODS: a dialect declares them as `discardableAttrs`, and TableGen generates a helper with the name
// and the type of each.
#pragma once

#include "mlir/IR/Operation.h"

namespace sluice {

/// Returns an attribute of `op`, for instance getFact<SluiceDialect::SeedAttrHelper>(module); null
/// if it is missing or has another type.
template <typename AttrHelper> auto getFact(mlir::Operation *op) {
  return AttrHelper(op->getContext()).getAttr(op);
}

template <typename AttrHelper> bool hasFact(mlir::Operation *op) {
  return AttrHelper(op->getContext()).isAttrPresent(op);
}

template <typename AttrHelper, typename Attribute>
void setFact(mlir::Operation *op, Attribute value) {
  AttrHelper(op->getContext()).setAttr(op, value);
}

template <typename AttrHelper> void eraseFact(mlir::Operation *op) {
  op->removeAttr(AttrHelper(op->getContext()).getName());
}

} // namespace sluice
