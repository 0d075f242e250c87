// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Explain/OpLocation.h"
#include "mlir/IR/Location.h"
#include "sluice/Conversion/ParseSpec.h"

using namespace mlir;
using namespace sluice;

spec::SourceLocation sluice::getOpLocation(Operation *op) {
  return getSourceLocation(op->getLoc());
}
