// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SegmentTrial.h"
#include "Corpus.h"
#include "Enumeration.h"
#include "JudgeModule.h"
#include "Trial.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Proof/ProveModel.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::fuzz;

static SegmentJudgement judge(ModuleOp module, int64_t longest) {
  SegmentJudgement judgement;
  judgement.verdict = checkCausality(module, /*replay=*/false);
  for (const char *name : {"evaluate", "train"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    std::optional<Violation> violation =
        function && !judgement.leaks ? enumerateSegments(function, longest) : std::nullopt;
    if (!violation) {
      continue;
    }
    judgement.leaks = true;
    if (judgement.verdict.isProved()) {
      judgement.problem = "proved, but row " + std::to_string(violation->row) + " of " +
                          std::to_string(violation->length) + " tokens (" + name +
                          ") reads token " + std::to_string(violation->token);
    }
  }
  return judgement;
}

SegmentJudgement fuzz::judgeSegments(const std::string &spec, int64_t longest) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importText(context, spec, "spec.json");
  if (failed(verify(*module))) {
    SegmentJudgement judgement;
    judgement.problem = "no valid IR";
    return judgement;
  }
  return judge(*module, longest);
}

SegmentJudgement fuzz::judgeSegmentSpec(const std::string &path, int64_t longest) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseModel(context, modelIR(path), path);
  return judge(*module, longest);
}
