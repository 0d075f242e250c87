// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ModelIR.h"
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Analysis/Reach.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Spec/Spec.h"
#include "sluice/Transforms/ImportSpec.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

static OwningOpRef<ModuleOp> readModel(MLIRContext &context, const std::string &path,
                                       Outcome &outcome) {
  if (isModelIR(path)) {
    std::string text;
    return readModelIR(context, path, text, outcome.message);
  }
  spec::Diagnostic error;
  std::optional<spec::Model> model = spec::readFile(path, error);
  if (!model) {
    outcome.message = error.format();
    return {};
  }
  return importSpec(context, *model);
}

CheckOutcome driver::check(const CheckRequest &request) {
  CheckOutcome result;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = readModel(context, request.spec, result.outcome);
  if (!module) {
    result.outcome.status = 2;
    return result;
  }
  result.verdict = checkCausality(*module, request.replay);
  if (result.verdict.isProved()) {
    findAdvice(*module, result.verdict);
  }
  if (request.picture) {
    result.picture = makePicture(*module, result.verdict, request.pictureRow, result.pictureError);
  }
  result.outcome.status = result.verdict.isProved() ? 0 : 1;
  return result;
}
