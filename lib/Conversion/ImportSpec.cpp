// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the passes of the front end, which convert a spec to the model dialect.
#include "sluice/Conversion/ImportSpec.h"

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Conversion/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace sluice;

OwningOpRef<ModuleOp> sluice::importSpec(ModuleOp specs) {
  OwningOpRef<ModuleOp> module = specs.clone();
  PassManager manager(specs.getContext());
  manager.addPass(createExpandComposites());
  manager.addPass(createAssignWeights());
  manager.addPass(createConvertSpecToSluice());
  return failed(manager.run(*module)) ? OwningOpRef<ModuleOp>() : std::move(module);
}

OwningOpRef<ModuleOp> sluice::importSpec(const ParsedSpec &spec) {
  return importSpec(*spec.withFactor(0).module);
}

std::vector<ImportedVariant> sluice::importVariants(const ParsedSpec &spec) {
  SmallVector<int64_t> factors = spec.getFactors();
  std::vector<ImportedVariant> variants;
  for (int64_t factor : factors.empty() ? SmallVector<int64_t>{0} : factors) {
    variants.push_back({factor, importSpec(*spec.withFactor(factor).module)});
  }
  return variants;
}
