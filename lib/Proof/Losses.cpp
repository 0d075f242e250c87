// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Proof/Losses.h"

using namespace mlir;
using namespace sluice;

SmallVector<CrossEntropyOp> sluice::getLossOps(func::FuncOp function) {
  return llvm::to_vector(function.getOps<CrossEntropyOp>());
}

CrossEntropyOp sluice::getMainLoss(func::FuncOp function) {
  Operation *end = function.getBody().front().getTerminator();
  auto returned = end->getNumOperands() > 0 ? end->getOperand(0).getDefiningOp<CrossEntropyOp>()
                                            : CrossEntropyOp();
  return returned ? returned : getLossOps(function).front();
}

int64_t sluice::latestAllowed(CrossEntropyOp loss) {
  return std::min<int64_t>(static_cast<int64_t>(loss.getOffset()) - 1, 0);
}
