// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ModelIR.h"
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Analysis/Certificate.h"
#include "sluice/Analysis/Reach.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Spec/Spec.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Transforms/ImportSpec.h"

#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

static OwningOpRef<ModuleOp> readModel(MLIRContext &context, const std::string &path,
                                       std::optional<spec::Model> &model, std::string &text,
                                       Outcome &outcome) {
  if (isModelIR(path)) {
    return readModelIR(context, path, text, outcome.message);
  }
  spec::Diagnostic error;
  model = spec::readFile(path, error);
  if (!model) {
    outcome.message = error.format();
    return {};
  }
  text = model->text;
  return importSpec(context, *model);
}

/// What makes the outputs that are asked for impossible; empty where nothing does.
static std::string findOutputMistake(const CheckRequest &request) {
  if (!request.certificate.empty() && isModelIR(request.spec)) {
    return request.spec + ": expected a spec for --certificate, found model IR; a certificate is "
                          "checked against a spec, so write the model as one, or use --smt";
  }
  for (const std::string &path : {request.certificate, request.smt}) {
    if (path.empty()) {
      continue;
    }
    if (llvm::sys::fs::equivalent(request.spec, path)) {
      return path + ": expected the name of a new file, found the spec itself; name another file";
    }
    if (llvm::Error error = checkArtifactPath(path)) {
      return llvm::toString(std::move(error));
    }
  }
  if (!request.smt.empty() && request.smt == request.certificate) {
    return request.smt + ": expected two files for --certificate and --smt, found one name";
  }
  return "";
}

/// Writes what was asked for: obligations whether or not they hold, a certificate of a proof only.
static llvm::Error writeOutputs(const CheckRequest &request, ModuleOp module, StringRef text,
                                bool proved) {
  if (!request.smt.empty()) {
    if (llvm::Error error = replaceFile(request.smt, formatSmt(module))) {
      return error;
    }
  }
  if (!request.certificate.empty() && proved) {
    return replaceFile(request.certificate, formatCertificate(module, text));
  }
  return llvm::Error::success();
}

CheckOutcome driver::check(const CheckRequest &request) {
  CheckOutcome result;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  result.outcome.message = findOutputMistake(request);
  if (!result.outcome.message.empty()) {
    result.outcome.status = 2;
    return result;
  }
  std::string text;
  std::optional<spec::Model> model;
  OwningOpRef<ModuleOp> module = readModel(context, request.spec, model, text, result.outcome);
  if (!module) {
    result.outcome.status = 2;
    return result;
  }
  CausalVerdict &verdict = result.verdict;
  verdict = checkCausality(*module, request.replay);
  if (request.tell) {
    request.tell(verdict);
  }
  result.outcome.status = verdict.isProved() ? 0 : 1;
  if (llvm::Error error = writeOutputs(request, *module, text, verdict.isProved())) {
    result.outcome = {2, "", llvm::toString(std::move(error))};
    return result;
  }
  if (request.picture) {
    result.picture = makePicture(*module, verdict, request.pictureRow, result.pictureError);
  }
  for (auto function : module->getOps<func::FuncOp>()) {
    result.ops = std::max<int64_t>(result.ops, llvm::range_size(function.getOps()));
  }
  if (verdict.isProved() && request.advice) {
    findAdvice(*module, verdict, {model ? &*model : nullptr});
  }
  return result;
}
