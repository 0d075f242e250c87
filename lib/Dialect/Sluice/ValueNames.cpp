// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores names as one array of strings per op, one string per result.
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace sluice;

using RelationNames = SluiceDialect::NamesAttrHelper;
using GradientsOf = SluiceDialect::GradientsOfAttrHelper;

template <typename AttrHelper> static StringRef read(Value value) {
  auto result = dyn_cast<OpResult>(value);
  auto array = result ? getFact<AttrHelper>(result.getOwner()) : ArrayAttr();
  bool isThere = array && result.getResultNumber() < array.size();
  auto name = isThere ? dyn_cast<StringAttr>(array[result.getResultNumber()]) : StringAttr();
  return name ? name.getValue() : StringRef();
}

template <typename AttrHelper> static void write(Value value, StringRef text) {
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  Builder b(op->getContext());
  SmallVector<Attribute> all(op->getNumResults(), b.getStringAttr(""));
  if (ArrayAttr known = getFact<AttrHelper>(op)) {
    all.assign(known.begin(), known.end());
    all.resize(op->getNumResults(), b.getStringAttr(""));
  }
  all[result.getResultNumber()] = b.getStringAttr(text);
  setFact<AttrHelper>(op, b.getArrayAttr(all));
}

StringRef sluice::getDisplayName(Value value) { return read<RelationNames>(value); }

void sluice::setName(Value result, StringRef name) {
  if (!name.empty()) {
    write<RelationNames>(result, name);
  }
}

StringRef sluice::getGradientName(Value value) { return read<GradientsOf>(value); }

void sluice::markGradient(Value gradient, Value of) {
  StringRef name = getDisplayName(of);
  if (!name.empty() && isa<OpResult>(gradient) && getGradientName(gradient).empty()) {
    write<GradientsOf>(gradient, name);
  }
}

void sluice::eraseNames(Operation *root) {
  root->walk([](Operation *op) {
    eraseFact<RelationNames>(op);
    eraseFact<GradientsOf>(op);
  });
}
