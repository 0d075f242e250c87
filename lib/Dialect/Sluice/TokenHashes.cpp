// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds values that may be used in place of tokens.
#include "sluice/Dialect/Sluice/TokenHashes.h"
#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace sluice;

bool sluice::isOfTokens(Value tokens, int64_t rows) {
  auto map = tokens.getDefiningOp<MapOp>();
  if (!map || !map.getResult().getType().getElement().isInteger()) {
    return isa<BlockArgument>(tokens);
  }
  auto rest = map.getBody().front().getTerminator()->getOperand(0).getDefiningOp<arith::RemSIOp>();
  auto masked = rest ? rest.getLhs().getDefiningOp<arith::AndIOp>() : arith::AndIOp();
  APInt mask, by;
  return masked && matchPattern(masked.getRhs(), m_ConstantInt(&mask)) && !mask.isNegative() &&
         matchPattern(rest.getRhs(), m_ConstantInt(&by)) && by.isStrictlyPositive() && by.sle(rows);
}
