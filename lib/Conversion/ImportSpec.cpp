// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a spec to the model dialect: the passes of the front end, in their order.
#include "sluice/Conversion/ImportSpec.h"

#include "sluice/Conversion/Passes.h"
#include "sluice/Conversion/ReadSpec.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace sluice;

/// The factor that levels of a model have which draw one; 0 where none does.
static int64_t getChosenFactor(const spec::Model &model) {
  for (const spec::Stage &stage : model.stages) {
    const auto *hourglass = std::get_if<spec::Hourglass>(&stage.settings);
    for (const auto &level :
         hourglass ? hourglass->hierarchy : std::vector<spec::Hourglass::Level>()) {
      if (level.isDrawn) {
        return level.factor;
      }
    }
  }
  return 0;
}

/// A module with the spec of a valid model: a second reading of its text cannot fail.
static OwningOpRef<ModuleOp> readAgain(MLIRContext &context, const spec::Model &model) {
  spec::Diagnostic error;
  OwningOpRef<spec::ModelOp> read = readSpec(context, model.text, model.location.file, error);
  if (!read) {
    llvm::report_fatal_error(llvm::Twine("internal error: ") + error.format());
  }
  OwningOpRef<ModuleOp> module = ModuleOp::create(read->getLoc());
  module->push_back(read.release());
  return module;
}

static LogicalResult chooseFactor(ModuleOp module, int64_t factor) {
  PassManager manager(module.getContext());
  manager.addPass(createChooseFactor({factor}));
  return manager.run(module);
}

OwningOpRef<ModuleOp> sluice::readSpecAgain(MLIRContext &context, const spec::Model &model) {
  OwningOpRef<ModuleOp> module = readAgain(context, model);
  (void)chooseFactor(*module, getChosenFactor(model));
  return module;
}

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

OwningOpRef<ModuleOp> sluice::importSpec(MLIRContext &context, const spec::Model &model) {
  return importSpec(*readSpecAgain(context, model));
}

std::vector<ImportedVariant> sluice::importVariants(const ParsedSpec &spec) {
  SmallVector<int64_t> factors = spec.getFactors();
  std::vector<ImportedVariant> variants;
  for (int64_t factor : factors.empty() ? SmallVector<int64_t>{0} : factors) {
    variants.push_back({factor, importSpec(*spec.withFactor(factor).module)});
  }
  return variants;
}

std::vector<ImportedVariant> sluice::importVariants(MLIRContext &context,
                                                    const spec::Model &model) {
  std::vector<ImportedVariant> variants;
  OwningOpRef<ModuleOp> read = readAgain(context, model);
  std::vector<int64_t> factors = model.factors();
  for (int64_t factor : factors.empty() ? std::vector<int64_t>{0} : factors) {
    OwningOpRef<ModuleOp> one = read->clone();
    (void)chooseFactor(*one, factor);
    variants.push_back({factor, importSpec(*one)});
  }
  return variants;
}
