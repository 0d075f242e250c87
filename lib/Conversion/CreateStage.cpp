// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Conversion/CreateStage.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace sluice;

Operation *sluice::createStage(OpBuilder &builder, Location location, StringRef word,
                               ValueRange operands, ArrayRef<NamedAttribute> attributes) {
  OperationState state(location, ("spec." + word).str(), operands, TypeRange(), attributes);
  bool hasResult = word != "head" && word != "loss" && word != "contrast";
  if (hasResult) { // any type; computeResultType() replaces it
    state.addTypes(builder.getNoneType());
  }
  if (!operands.empty()) {
    auto input = cast<spec::StreamType>(operands.front().getType());
    state.addTypes(spec::getInnerSegmentations(word, builder.getDictionaryAttr(attributes), input));
  }
  Operation *op = builder.create(state);
  auto stage = cast<spec::StageInterface>(op);
  if (hasResult) {
    Type type = stage.computeResultType();
    if (!type) {
      op->erase();
      return nullptr;
    }
    op->getResult(0).setType(type);
  }
  stage.setDerivedDefaults();
  if (failed(verify(op))) {
    op->erase();
    return nullptr;
  }
  return op;
}
