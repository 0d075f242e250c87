// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Budget.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Support/Format.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include <numeric>

using namespace mlir;
using namespace sluice;

static std::string mebibytes(int64_t bytes) {
  return format("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string driver::explainBudget(const Recomputation &made, int64_t budgetBytes) {
  return format(
      "--memory-budget: expected at least %lld bytes (%s), the least that computing "
      "forward results again leads to, found %lld; give more, fewer --generation-rows, or make "
      "batch, context, the width or the number of layers smaller",
      static_cast<long long>(made.arenaBytes), mebibytes(made.arenaBytes).c_str(),
      static_cast<long long>(budgetBytes));
}

/// For entries @gradient and @update.
static double operationsOfStep(ModuleOp module, const KernelSet &kernels) {
  double operations = 0;
  for (StringRef entry : {"gradient", "update"}) {
    if (auto func = module.lookupSymbol<func::FuncOp>(entry)) {
      for (Operation &op : func.getBody().front()) {
        auto kernel = kernels.kernelOf.find(&op);
        operations += kernel == kernels.kernelOf.end() ? 0 : kernels.records[kernel->second].flops;
      }
    }
  }
  return operations;
}

std::string driver::describeRecomputation(const Recomputation &made, ModuleOp module,
                                          const KernelSet &kernels) {
  double before = operationsOfStep(module, kernels) - made.operations;
  return format("--memory-budget: an arena of %s instead of %s; a training step computes %lld "
                "launches again, %.1f%% more operations",
                mebibytes(made.arenaBytes).c_str(), mebibytes(made.fullBytes).c_str(),
                static_cast<long long>(made.launches), 100 * made.operations / before);
}

/// A quarter, a third and half of the most rows that an axis has: so many texts' worth of rows lie
/// between each other's without gaps. Whole groups, so that what is rounded up to them has room.
void driver::nameBuckets(ModuleOp module) {
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
