// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Failures.h"
#include "FlagBlame.h"
#include "ModelIR.h"
#include "sluice/Certificate/Certificate.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Explain/Advice.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/SpecFix.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Picture/PictureModel.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Step/DeriveStep.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Outputs.h"
#include "sluice/Support/Text.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::driver;

/// Returns the modules to check; none if they cannot be read.
static std::vector<ImportedVariant> readModel(MLIRContext &context, const CheckRequest &request,
                                              std::optional<ParsedSpec> &spec, std::string &text,
                                              Outcome &outcome) {
  std::vector<ImportedVariant> variants;
  if (!request.text && isModelIR(request.spec)) {
    if (auto module = readModelIR(context, request.spec, text, outcome.message)) {
      variants.push_back({0, std::move(module)});
    }
    return variants;
  }
  spec::Diagnostic error;
  spec = request.text ? parseSpec(context, *request.text, request.spec, error, request.settings)
                      : parseSpecFile(context, request.spec, error, request.settings);
  if (!spec) {
    outcome.message = error.format();
    return variants;
  }
  text = spec->text;
  return importVariants(*spec);
}

/// Returns the reason that the requested outputs are impossible; empty if they are possible.
static std::string findOutputMistake(const CheckRequest &request) {
  if (!request.certificate.empty() && isModelIR(request.spec)) {
    return request.spec + ": expected a spec for --certificate, found model IR; a certificate is "
                          "checked against a spec, so write the model as one, or use --smt";
  }
  if (!request.settings.empty() && (isModelIR(request.spec) || !request.certificate.empty())) {
    return request.spec + ": " + request.settings.front().flag +
           (isModelIR(request.spec)
                ? ": expected a spec, found model IR; change the IR itself"
                : ": expected no change of the spec with --certificate, which is checked against "
                  "the file; change the file, or compile with --set and take the artifact's");
  }
  checkOutputs({{"--certificate", request.certificate, FileKind::Certificate},
                {"--smt", request.smt, FileKind::Smt}},
               request.text ? std::vector<Path>() : std::vector<Path>{request.spec},
               /*force=*/true);
  return "";
}

/// Writes the requested outputs: obligations for any verdict, the certificate only for a proof.
static void writeOutputs(const CheckRequest &request, const std::vector<ImportedVariant> &variants,
                         StringRef text, bool proved) {
  if (!request.smt.empty()) {
    std::string scripts;
    for (const ImportedVariant &variant : variants) {
      WorkBudget budget(request.operations);
      WorkScope scope(budget);
      scripts += (scripts.empty() ? "" : "(reset)\n") + formatSmt(*variant.module);
    }
    replaceFile(request.smt, asBytes(scripts));
  }
  if (!request.certificate.empty() && proved) {
    replaceFile(request.certificate,
                asBytes(formatCertificate(variants, text, request.operations)));
  }
}

/// Returns the variant for pictures and advice: the rejected variant, else the coarsest, which
/// needs the largest shift.
static const ImportedVariant &selectVariant(const std::vector<ImportedVariant> &variants,
                                            const CausalVerdict &verdict) {
  auto refused = llvm::find_if(variants, [&](const ImportedVariant &variant) {
    return !verdict.isProved() && variant.factor == verdict.refusedFactor;
  });
  return refused == variants.end() ? variants.back() : *refused;
}

static StepSummary summarizeStep(func::FuncOp predict, int64_t operations) {
  StepSummary summary;
  StepRefusal refusal;
  std::optional<StepPlan> plan = deriveStep(predict, refusal, operations);
  if (!plan) {
    summary.refusal = refusal.message;
    summary.place = getOpLocation(refusal.op);
    return summary;
  }
  summary.values = static_cast<int64_t>(plan->values.size());
  for (const auto &[value, step] : plan->values) {
    if (step.ring == 0) {
      continue;
    }
    std::string name = getOriginName(value);
    if (step.isGiven) { // stored whole before the first token
      summary.states.push_back({name, step.ring, true, 0, 0, 0, step.ring});
      continue;
    }
    const StepSchedule &schedule = plan->schedules[step.schedule];
    summary.states.push_back({name, step.ring, step.keepsAll, schedule.first, schedule.period,
                              schedule.rise, schedule.burst});
  }
  return summary;
}

static void check(const CheckRequest &request, CheckOutcome &result) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  result.outcome.message = findOutputMistake(request);
  if (!result.outcome.message.empty()) {
    result.outcome.status = 2;
    return;
  }
  std::string text;
  std::optional<ParsedSpec> spec;
  std::vector<ImportedVariant> variants = readModel(context, request, spec, text, result.outcome);
  if (variants.empty()) {
    result.outcome.status = 2;
    return;
  }
  CausalVerdict &verdict = result.verdict;
  WorkBudget budget(request.operations);
  {
    WorkScope scope(budget);
    verdict = checkCausality(variants, request.replay);
  }
  ModuleOp module = *selectVariant(variants, verdict).module;
  blameSettings(verdict, text, request.settings, [&] {
    spec::Diagnostic ignored;
    return request.text ? parseSpec(context, *request.text, request.spec, ignored)
                        : parseSpecFile(context, request.spec, ignored);
  });
  if (spec) {
    verdict.dropRemedy();
  }
  if (request.tell) {
    request.tell(verdict);
  }
  result.outcome.status = verdict.isProved() ? 0 : 1;
  result.isDecided = true;
  result.text = text;
  writeOutputs(request, variants, text, verdict.isProved());
  if (spec && request.advice) {
    findFix(*spec, verdict);
  }
  if (request.picture) {
    result.picture =
        makePicture(module, verdict, request.pictureRow, result.pictureError, request.pictureText);
    if (result.picture) {
      result.picture->advice = verdict.fix ? verdict.fix->words : verdict.noFix;
    }
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    result.ops = std::max<int64_t>(result.ops, llvm::range_size(function.getOps()));
  }
  // Draws the factor of generation if a hierarchy has several factors.
  ModuleOp generated = *variants.front().module;
  auto predict = generated.lookupSymbol<func::FuncOp>("predict");
  if (request.step && verdict.isProved() && predict &&
      hasFact<SluiceDialect::ContextAttrHelper>(generated)) {
    result.step = summarizeStep(predict, request.operations);
  }
  if (verdict.isProved() && request.advice) {
    std::optional<ParsedSpec> coarsest;
    if (spec) {
      coarsest = spec->withFactor(variants.back().factor);
    }
    findAdvice(module, verdict, {coarsest ? &*coarsest : nullptr});
  }
}

CheckOutcome driver::check(const CheckRequest &request) {
  CheckOutcome result;
  Outcome failure = explainFailures([&] {
    ::check(request, result);
    return Outcome();
  });
  if (failure.status != 0) {
    result.outcome = std::move(failure);
  }
  return result;
}
