// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a whole spec by expanding it at every factor that it draws.
#include "CheckSpec.h"

#include "sluice/Conversion/Passes.h"
#include "sluice/Dialect/Spec/Hierarchy.h"

#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Returns the module of the model at a factor, with its weights; null if an error was reported.
static OwningOpRef<ModuleOp> expandAt(ModelOp model, int64_t factor) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(model.getLoc());
  module->push_back(model->clone());
  PassManager manager(model.getContext());
  manager.addPass(createChooseFactor({factor}));
  manager.addPass(createExpandComposites());
  manager.addPass(createAssignWeights());
  return failed(manager.run(*module)) ? OwningOpRef<ModuleOp>() : std::move(module);
}

/// Describes a weight, for example "stages.1.weight of [4, 8]", or its absence.
static std::string describeWeight(WeightOp weight) {
  if (!weight) {
    return "no more weights";
  }
  std::string text = weight.getSymName().str() + " of [";
  llvm::raw_string_ostream out(text);
  llvm::interleaveComma(weight.getShape(), out);
  return text + "]";
}

constexpr static llvm::StringLiteral otherMethods =
    "shorten and upsample by methods whose weights do not depend on it, such as \"average\" and "
    "\"repeat\"";

static std::string describeRemedy(WeightOp one, WeightOp other) {
  if (one && other && one.getSymName() == other.getSymName() &&
      one.getSymName().ends_with("attention.relative.table")) {
    return "rows at the greater factor are fewer than these distances; write \"relative\": "
           "{\"bias\": " +
           std::to_string(std::min(one.getShape().front(), other.getShape().front())) + "} or less";
  }
  return otherMethods.str();
}

/// Verifies that the weights are the same at each factor, because all factors share them.
static LogicalResult verifySameWeights(HourglassOp stage, ModuleOp first, ModuleOp other,
                                       ArrayRef<int64_t> factors) {
  auto list = [](ModuleOp module) {
    return llvm::to_vector((*module.getOps<ModelOp>().begin()).getBody().getOps<WeightOp>());
  };
  SmallVector<WeightOp> a = list(first), b = list(other);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    WeightOp x = i < a.size() ? a[i] : WeightOp(), y = i < b.size() ? b[i] : WeightOp();
    if (!x || !y || x.getSymName() != y.getSymName() || x.getShape() != y.getShape()) {
      return emitKeyError(stage, "hierarchy")
             << "expected weights that fit every factor, found " << describeWeight(x)
             << " at factor " << factors.front() << " and " << describeWeight(y) << " at factor "
             << factors.back() << "; " << describeRemedy(x, y);
    }
  }
  return success();
}

LogicalResult spec::checkSpec(ModelOp model) {
  auto [stage, factors] = findDrawing(model);
  if (!stage) {
    factors = {0};
  }
  SmallVector<OwningOpRef<ModuleOp>> all;
  for (int64_t factor : factors) {
    all.push_back(expandAt(model, factor));
    if (!all.back()) {
      return failure();
    }
  }
  for (size_t i = 1; i < all.size(); ++i) {
    if (failed(verifySameWeights(stage, *all.front(), *all[i], {factors.front(), factors[i]}))) {
      return failure();
    }
  }
  return success();
}
