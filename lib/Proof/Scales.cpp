// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/Losses.h"

using namespace mlir;
using namespace sluice;

Scales::Scales(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  DenseMap<StringAttr, FlatSymbolRefAttr> axisOfScale,
      cutScale; // the axis of a scale, and the scale that the axis segments
  for (auto scale : module.getOps<ScaleOp>()) {
    axisOfScale[scale.getSymNameAttr()] = scale.getAxisAttr();
  }
  for (auto axis : module.getOps<AxisOp>()) {
    cutScale[axis.getSymNameAttr()] = axis.getSegmentsAttr();
  }
  for (auto scale : module.getOps<ScaleOp>()) {
    FlatSymbolRefAttr tokens = scale.getAxisAttr();
    while (FlatSymbolRefAttr fine = cutScale.lookup(tokens.getAttr())) {
      tokens = axisOfScale.at(fine.getAttr());
    }
    known[scale.getSymNameAttr()] = {scale.getAxisAttr(), static_cast<int64_t>(scale.getFactor()),
                                     tokens};
  }
  SmallVector<CrossEntropyOp> losses = getLossOps(function);
  if (!losses.empty()) {
    target = findScale(losses.front().getTokens()).tokens;
  } else if (function.getNumArguments() > 0) {
    target = findScale(function.getArgument(0)).tokens;
  }
}

const Scales::Scale &Scales::findScale(Value value) const {
  return known.at(cast<SequenceType>(value.getType()).getScale().getAttr());
}

bool Scales::existsByTokens(Value value) const {
  return !isLazy(value.getDefiningOp()) && isOnTargetAxis(value) && !isSegmented(value);
}
