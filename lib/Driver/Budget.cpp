// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Budget.h"
#include "sluice/Support/Format.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace sluice;

static std::string mebibytes(int64_t bytes) {
  return format("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string driver::explainBudget(const Recomputation &made, int64_t budgetBytes) {
  return format("--memory-budget: expected at least %lld bytes (%s), the minimum that recomputing "
                "forward results reaches, found %lld; give more, fewer --generation-rows, or make "
                "batch, context, the width or the number of layers smaller",
                static_cast<long long>(made.arenaBytes), mebibytes(made.arenaBytes).c_str(),
                static_cast<long long>(budgetBytes));
}

/// Returns the operations of the entries @gradient and @update.
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
