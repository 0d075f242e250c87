// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Target/CUDA/Chip.h"

#include "Contract/Contract.h"

using namespace mlir;
using namespace sluice;

static constexpr StringRef chipName = "cuda.chip";

void cuda::setTarget(ModuleOp module, const Target &target) {
  module->setAttr(chipName, StringAttr::get(module.getContext(), target.chip));
}

bool cuda::hasWarpgroups(ModuleOp module) {
  auto chip = module->getAttrOfType<StringAttr>(chipName);
  return chip && chip.getValue() == Target::sm90a().chip;
}

int64_t cuda::getMultiprocessorCount(ModuleOp module) { return hasWarpgroups(module) ? 132 : 108; }

bool cuda::dependsOnTarget(Operation *dispatch) {
  auto contract = dyn_cast<dispatch::ContractOp>(dispatch);
  return isa<dispatch::WeightGradientOp>(dispatch) || (contract && multipliesByWarpgroup(contract));
}
