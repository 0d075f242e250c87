// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads specs from files and memory, and applies settings of the command line.
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Conversion/JsonToSpec.h"
#include "sluice/Conversion/Passes.h"
#include "sluice/Dialect/Spec/Hierarchy.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Files.h"

#include "../Spec/Json.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace sluice;

/// Maximum size of a spec in bytes: descriptions of models are small.
constexpr size_t largestFile = size_t(16) << 20;

spec::SourceLocation sluice::getSourceLocation(Location location) {
  auto place = location->findInstanceOf<FileLineColLoc>();
  return place ? spec::SourceLocation{place.getFilename().str(), place.getLine(), place.getColumn()}
               : spec::SourceLocation();
}

spec::SourceLocation sluice::getKeyPlace(Operation *op, StringRef key) {
  return getSourceLocation(spec::getKeyLoc(op, key));
}

spec::ModelOp ParsedSpec::getModel() const {
  return *ModuleOp(*module).getOps<spec::ModelOp>().begin();
}

SmallVector<int64_t> ParsedSpec::getFactors() const { return spec::getDrawnFactors(getModel()); }

ParsedSpec ParsedSpec::withFactor(int64_t factor) const {
  ParsedSpec copy{file, text, ModuleOp(*module).clone()};
  PassManager manager(copy.module->getContext());
  manager.addPass(createChooseFactor({factor}));
  if (failed(manager.run(*copy.module))) {
    llvm::report_fatal_error("internal error: a factor that the spec does not draw");
  }
  return copy;
}

ParsedSpec ParsedSpec::expand(int64_t factor) const {
  ParsedSpec copy = withFactor(factor);
  PassManager manager(copy.module->getContext());
  manager.addPass(createExpandComposites());
  manager.addPass(createAssignWeights());
  if (failed(manager.run(*copy.module))) {
    llvm::report_fatal_error("internal error: a valid spec that does not expand");
  }
  return copy;
}

int64_t ParsedSpec::countParameters() const {
  int64_t count = 0;
  ParsedSpec expanded = expand(0);
  for (auto weight : expanded.getModel().getBody().getOps<spec::WeightOp>()) {
    count += computeProduct(weight.getShape());
  }
  return count;
}

spec::SourceLocation ParsedSpec::getPlace(StringRef key) const {
  return getKeyPlace(getModel(), key);
}

std::optional<ParsedSpec> sluice::parseSpec(MLIRContext &context, const std::string &text,
                                            const std::string &file, spec::Diagnostic &error,
                                            const std::vector<spec::SpecOverride> &settings) {
  ParsedSpec spec{file, text, {}};
  try {
    spec.text = spec::withSettings(text, file, settings);
  } catch (spec::Failure &failure) {
    error = std::move(failure.diagnostic);
    return std::nullopt;
  }
  OwningOpRef<spec::ModelOp> model = readSpec(context, spec.text, file, error);
  if (!model) {
    spec::blameSettings(error, spec.text, settings, [&] {
      spec::Diagnostic ignored;
      return static_cast<bool>(readSpec(context, text, file, ignored));
    });
    return std::nullopt;
  }
  spec.module = ModuleOp::create(model->getLoc());
  spec.module->push_back(model.release());
  return spec;
}

std::optional<ParsedSpec> sluice::parseSpecFile(MLIRContext &context, const std::string &path,
                                                spec::Diagnostic &error,
                                                const std::vector<spec::SpecOverride> &settings) {
  std::string text;
  try {
    text = readText(path, "spec", largestFile);
  } catch (const UserError &mistake) {
    error = {{}, mistake.what()}; // begins with the path
    return std::nullopt;
  }
  return parseSpec(context, text, path, error, settings);
}
