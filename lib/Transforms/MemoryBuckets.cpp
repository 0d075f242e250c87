// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the numbers of rows of segments that memory is also planned for.
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Transforms/MemoryPlan.h"

#include "llvm/ADT/StringSet.h"
#include <numeric>

using namespace mlir;
using namespace sluice;

/// Each number of rows is a multiple of all groups, so numbers that are rounded up to groups fit.
void sluice::nameBuckets(ModuleOp module) {
  llvm::StringSet<> axes;
  module.walk([&](Operation *op) {
    auto domain = op->getAttrOfType<dispatch::DomainAttr>("domain");
    if (domain && domain.getAxis()) {
      axes.insert(domain.getAxis().getValue());
    }
  });
  int64_t group = 1, most = 0;
  for (auto axis : module.getOps<AxisOp>()) {
    most = axes.contains(axis.getSymName()) ? std::max(most, int64_t(*axis.getRows())) : most;
  }
  for (auto scale : module.getOps<ScaleOp>()) {
    group = axes.contains(scale.getAxis()) ? std::lcm(group, int64_t(scale.getFactor())) : group;
  }
  SmallVector<int64_t> rows;
  for (int64_t parts : {4, 3, 2}) {
    int64_t part = most / parts / group * group;
    if (part > (rows.empty() ? 0 : rows.back())) {
      rows.push_back(part);
    }
  }
  if (!rows.empty()) {
    module->setAttr(bucketsName, DenseI64ArrayAttr::get(module.getContext(), rows));
  }
}
