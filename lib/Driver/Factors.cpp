// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Factors.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace sluice;

std::string driver::findFactorMistake(const ParsedSpec &spec, const CompileRequest &request) {
  SmallVector<int64_t> factors = spec.getFactors();
  std::string place = request.spec + ": --factor: expected ";
  if (request.factor && factors.empty()) {
    return place + "an hourglass that draws its factor, as in \"2@1 8@{2,3} 2@1\", found one "
                   "factor per level; leave --factor out";
  }
  if (request.factor && !llvm::is_contained(factors, *request.factor)) {
    std::string list;
    for (int64_t factor : factors) {
      list += (list.empty() ? "" : ", ") + std::to_string(factor);
    }
    return place + "one of the factors that are drawn (" + list + "), found " +
           std::to_string(*request.factor);
  }
  return "";
}

std::vector<ImportedVariant> driver::importVariants(const ParsedSpec &spec,
                                                    const CompileRequest &request) {
  std::vector<ImportedVariant> variants = sluice::importVariants(spec);
  auto first = llvm::find_if(variants, [&](const ImportedVariant &variant) {
    return variant.factor == request.factor.value_or(variants.front().factor);
  });
  std::rotate(variants.begin(), first, std::next(first));
  if (request.replay || request.everyRow || request.attention) {
    variants.erase(std::next(variants.begin()), variants.end());
  }
  return variants;
}

/// Moves symbols that only `from` has to `to`. Returns false if the modules disagree about a symbol
/// that both have.
static bool mergeSymbols(ModuleOp from, ModuleOp to) {
  for (Operation &op : llvm::make_early_inc_range(*from.getBody())) {
    if (!isa<ScaleOp, ParameterOp>(op)) {
      continue;
    }
    Operation *known = to.lookupSymbol(SymbolTable::getSymbolName(&op));
    if (!known && isa<ParameterOp>(op) && !cast<ParameterOp>(op).getFrozen()) {
      return false; // all trained parameters exist for every factor
    }
    if (!known) {
      op.moveBefore(to.getBody(), to.getBody()->begin());
    } else if (known->getAttrDictionary() != op.getAttrDictionary()) {
      return false;
    }
  }
  return getFact<plan::PlanDialect::LossesAttrHelper>(from) ==
         getFact<plan::PlanDialect::LossesAttrHelper>(to);
}

LogicalResult driver::mergeVariants(ModuleOp merged, std::vector<ImportedVariant> &variants) {
  SmallVector<int64_t> factors;
  for (ImportedVariant &variant : variants) {
    if (variant.shape == 0) {
      factors.push_back(variant.factor);
    }
    if (!variant.module) {
      continue; // the module that became `merged`
    }
    if (!mergeSymbols(*variant.module, merged)) {
      return failure();
    }
    for (StringRef name : {"gradient", "count", "evaluate", "predict"}) {
      auto entry = variant.module->lookupSymbol<func::FuncOp>(name);
      if (!entry || (variant.shape > 0 && name == "predict")) {
        continue;
      }
      entry->moveBefore(merged.getBody(), merged.getBody()->end());
      Builder b(merged.getContext());
      int64_t number = variant.shape > 0 ? variant.shape : variant.factor;
      entry.setSymName((name + "." + Twine(number)).str());
      setFact<plan::PlanDialect::OfAttrHelper>(entry, b.getStringAttr(name));
      if (variant.shape > 0) {
        setFact<plan::PlanDialect::ShapeAttrHelper>(entry, b.getI64IntegerAttr(number));
      } else {
        setFact<plan::PlanDialect::FactorAttrHelper>(entry, b.getI64IntegerAttr(number));
      }
    }
  }
  if (factors.size() > 1) {
    setFact<plan::PlanDialect::FactorsAttrHelper>(
        merged, DenseI64ArrayAttr::get(merged.getContext(), factors));
  }
  return success();
}
