// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One array of strings an op, one string a result.
#include "sluice/Dialect/Sluice/ValueNames.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace sluice;

static constexpr llvm::StringLiteral names = "sluice.names";
static constexpr llvm::StringLiteral gradients = "sluice.gradients_of";

static StringRef read(Value value, StringRef attribute) {
  auto result = dyn_cast<OpResult>(value);
  auto array = result ? result.getOwner()->getAttrOfType<ArrayAttr>(attribute) : ArrayAttr();
  bool isThere = array && result.getResultNumber() < array.size();
  auto name = isThere ? dyn_cast<StringAttr>(array[result.getResultNumber()]) : StringAttr();
  return name ? name.getValue() : StringRef();
}

static void write(Value value, StringRef attribute, StringRef text) {
  auto result = cast<OpResult>(value);
  Operation *op = result.getOwner();
  Builder b(op->getContext());
  SmallVector<Attribute> all(op->getNumResults(), b.getStringAttr(""));
  if (auto known = op->getAttrOfType<ArrayAttr>(attribute)) {
    all.assign(known.begin(), known.end());
    all.resize(op->getNumResults(), b.getStringAttr(""));
  }
  all[result.getResultNumber()] = b.getStringAttr(text);
  op->setAttr(attribute, b.getArrayAttr(all));
}

StringRef sluice::getDisplayName(Value value) { return read(value, names); }

void sluice::setName(Value result, StringRef name) {
  if (!name.empty()) {
    write(result, names, name);
  }
}

StringRef sluice::getGradientName(Value value) { return read(value, gradients); }

void sluice::markGradient(Value gradient, Value of) {
  StringRef name = getDisplayName(of);
  if (!name.empty() && isa<OpResult>(gradient) && getGradientName(gradient).empty()) {
    write(gradient, gradients, name);
  }
}

void sluice::eraseNames(Operation *root) {
  root->walk([](Operation *op) {
    op->removeAttr(names);
    op->removeAttr(gradients);
  });
}
