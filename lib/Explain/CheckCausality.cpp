// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts frontiers and obligations to a verdict with a remedy for the user.
#include "sluice/Explain/CheckCausality.h"
#include "Misalignment.h"
#include "Refusal.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/Advice.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/Reach.h"
#include "sluice/Explain/SpecFix.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/ProveModel.h"
#include "sluice/Proof/Theorem.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;

/// Decides every obligation. Sets the verdict's message and returns false if one does not hold, or
/// if `limit`, the operations of the check, is exhausted.
static bool proves(const ModeProof &proof, ObligationDecider &decider, int64_t limit,
                   CausalVerdict &verdict) {
  std::optional<OpenObligation> open = findOpenObligation(proof, decider, verdict.obligations);
  if (!open) {
    return true;
  }
  const Decision &decision = open->decision;
  verdict.refusedMode = proof.mode;
  verdict.place = getOpLocation(open->obligation->op);
  verdict.exhausted = decision.kind == Decision::Undecided && isWorkExhausted() ? limit : 0;
  verdict.message =
      verdict.exhausted > 0
          ? "not proved causal: the budget of " + WorkBudget::describe(limit) + " ran out after " +
                describeCount(verdict.obligations, "obligation") + "; " + simplifyHint
      : decision.kind == Decision::Vacuous
          ? "not proved causal: this stage reads nothing at all, so that a proof "
            "about it would be empty; give its mask or shift positions to read"
      : decision.kind == Decision::Undecided
          ? "not proved causal: the bound of the positions that this stage reads has too long a "
            "period to be decided; make its mask, shift and factors simpler"
          : "not proved causal: the bound of the positions that this stage reads does not hold at "
            "position " +
                std::to_string(decision.p) +
                "; make its mask, shift and factors "
                "simpler";
  return false;
}

/// Proves one mode. The proof takes half of the remaining operations, because a mode that is not
/// proved is searched for a leak.
static bool provesMode(func::FuncOp function, StringRef mode, ObligationDecider &decider,
                       bool replay, CausalVerdict &verdict) {
  WorkBudget &whole = *WorkBudget::getCurrent();
  WorkBudget half(whole.getLeft() / 2);
  std::optional<BoundViolation> violation;
  {
    WorkScope scope(half);
    DenseMap<Value, Frontier> frontiers = computeFrontiers(function);
    violation = findViolation(function, frontiers);
    if (!violation) {
      return proves(collectProof(function, mode, frontiers), decider, whole.getLimit(), verdict);
    }
  }
  verdict.refusedMode = mode;
  verdict.exhausted = half.isExhausted() ? whole.getLimit() : 0;
  explain(function, *violation, replay, verdict);
  verdict.exhausted = verdict.kind == VerdictKind::NotProved ? verdict.exhausted : 0;
  return false;
}

CausalVerdict sluice::checkCausality(ModuleOp module, bool replay) {
  if (!WorkBudget::getCurrent()) {
    WorkBudget budget;
    WorkScope scope(budget);
    return checkCausality(module, replay);
  }
  CausalVerdict verdict;
  for (auto axis : module.getOps<AxisOp>()) {
    if (axis.getCapacity()) {
      verdict.given.push_back(axis.getSymName().str());
    }
    for (NamedAttribute stream : axis.listStreams()) {
      verdict.given.push_back(stream.getName().str());
    }
  }
  ObligationDecider decider;
  for (auto [mode, name] : {std::pair("eval", "evaluate"), std::pair("train", "train")}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function || getLossOps(function).empty()) {
      continue;
    }
    if (auto beyond = findBeyondTheorem(function)) {
      verdict.refusedMode = mode;
      verdict.place = getOpLocation(beyond->op);
      verdict.message = "not proved causal: " + beyond->message;
      return verdict;
    }
    if (!provesMode(function, mode, decider, replay, verdict)) {
      return verdict;
    }
    verdict.modes.push_back(mode);
    for (CrossEntropyOp loss : getLossOps(function)) {
      verdict.losses.push_back({mode, getOpLocation(loss), static_cast<int64_t>(loss.getOffset())});
    }
  }
  // Without dropout, training computes the same as evaluation.
  if (verdict.modes == std::vector<std::string>{"eval"} && !module.lookupSymbol("train")) {
    verdict.modes.push_back("train");
  }
  if (verdict.modes.empty()) {
    verdict.message = "not proved causal: the module has no loss, so there is nothing to prove";
    return verdict;
  }
  if (trainsWhatIsEvaluated(module, verdict) && provesGeneration(module, verdict)) {
    verdict.kind = VerdictKind::Proved;
  }
  return verdict;
}

CausalVerdict sluice::checkCausality(const std::vector<ImportedVariant> &variants, bool replay) {
  if (!WorkBudget::getCurrent()) {
    WorkBudget budget;
    WorkScope scope(budget);
    return checkCausality(variants, replay);
  }
  CausalVerdict verdict;
  std::vector<int64_t> factors;
  int64_t obligations = 0;
  for (const ImportedVariant &variant : variants) {
    verdict = checkCausality(*variant.module, replay);
    if (!verdict.isProved()) {
      verdict.refusedFactor = variant.factor;
      return verdict;
    }
    obligations += verdict.obligations;
    factors.push_back(variant.factor);
  }
  verdict.obligations = obligations;
  verdict.factors = variants.front().factor > 0 ? std::move(factors) : std::vector<int64_t>();
  return verdict;
}
