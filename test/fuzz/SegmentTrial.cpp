// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SegmentTrial.h"
#include "CheckersModule.h"
#include "Corpus.h"
#include "Enumeration.h"
#include "Trial.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Proof/ProveModel.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::fuzz;

static BoundaryResult enumerateModule(ModuleOp module, int64_t longest) {
  BoundaryResult result;
  result.verdict = checkCausality(module, /*replay=*/false);
  for (const char *name : {"evaluate", "train"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    std::optional<Violation> violation =
        function && !result.leaks ? enumerateSegments(function, longest) : std::nullopt;
    if (!violation) {
      continue;
    }
    result.leaks = true;
    if (result.verdict.isProved()) {
      result.problem = "proved, but row " + std::to_string(violation->row) + " of " +
                       std::to_string(violation->length) + " tokens (" + name + ") reads token " +
                       std::to_string(violation->token);
    }
  }
  return result;
}

BoundaryResult fuzz::enumerateBoundaries(const std::string &spec, int64_t longest) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importText(context, spec, "spec.json");
  if (failed(verify(*module))) {
    BoundaryResult result;
    result.problem = "no valid IR";
    return result;
  }
  return enumerateModule(*module, longest);
}

BoundaryResult fuzz::enumerateFileBoundaries(const std::string &path, int64_t longest) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseModel(context, modelIR(path), path);
  return enumerateModule(*module, longest);
}
