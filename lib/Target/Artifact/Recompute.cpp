// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recomputation with the costs and workspaces of kernels.
#include "sluice/Target/Artifact.h"

using namespace mlir;
using namespace sluice;

FailureOr<Recomputation> sluice::recomputeWithin(ModuleOp module, KernelSet &kernels,
                                                 int64_t budgetBytes) {
  auto countDispatchOperations = [&](Operation *dispatch) {
    return kernels.records[kernels.kernelOf.lookup(dispatch)].flops;
  };
  FailureOr<Recomputation> made =
      recompute(module, {budgetBytes, kernels.workspaceBytes(), kernels.counterBytes(),
                         countDispatchOperations});
  if (succeeded(made)) {
    for (auto [copy, original] : made->copies) {
      kernels.kernelOf[copy] = kernels.kernelOf.lookup(original);
    }
  }
  return made;
}
