// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Explains a mode that is not proved: finds the leak, and changes that repair it.
#include "Refusal.h"
#include "LeakWords.h"
#include "Remedy.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/ReadWalk.h"
#include "sluice/Explain/Replay.h"
#include "sluice/Explain/SegmentWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/ProveModel.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/SegmentBounds.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;

/// Returns the maximum length of the search for a leak: the sum of all shifts, plus some groups.
static int64_t longestLength(func::FuncOp function) {
  constexpr int64_t most = int64_t{1} << 34;
  Scales scales(function);
  int64_t shifts = 8, coarsest = 1;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      int64_t factor = scales.getScaleFactor(op.getResult(0)); // below 2^31, like shifts
      coarsest = std::max(coarsest, factor);
      auto flow = dyn_cast<CausalFlowInterface>(op);
      int64_t by = flow ? flow.getShift().value_or(0) : 0;
      shifts = std::min(most, shifts + factor * std::abs(by));
    }
  }
  return std::min(most, 4 * coarsest + 2 * shifts);
}

/// Searches for a leak at the bound first, because the bound limits the length of the sequence.
static std::optional<FoundLeak> findLeakPath(const ReadPlan &plan, const BoundViolation &violation,
                                             LeakSearch &search) {
  std::optional<FoundLeak> leak;
  if (violation.decided && !violation.unbounded) {
    leak = findLeak(plan, violation.token + 1, violation.row, search);
  }
  // A row with a bound that is too large may read a null; a later row then leaks.
  return leak ? leak : findLeak(plan, longestLength(plan.function), violation.row, search);
}

/// Returns the changes that make the model causal as a whole, in order, and sets the location of
/// the first. If a few changes are not enough, returns the first one, and states that it is not
/// enough.
static std::string findRemedy(func::FuncOp function, FoundLeak leak, spec::SourceLocation &place) {
  constexpr int mostChanges = 3;
  auto module = function->getParentOfType<ModuleOp>();
  Mending mending(module);
  std::string first, all;
  for (int i = 0; i < mostChanges; ++i) {
    spec::SourceLocation here;
    std::string remedy = remedyFor(opAtFault(leak), here, mending);
    if (i == 0) {
      first = all = remedy;
      place = here;
    } else {
      all += "; then, at " + spec::toString(here) + ", " + remedy;
    }
    std::optional<FoundLeak> next;
    for (StringRef name : {"evaluate", "train"}) {
      auto mode = module.lookupSymbol<func::FuncOp>(name);
      auto violation = mode && !next ? findViolation(mode, computeFrontiers(mode)) : std::nullopt;
      if (violation) {
        LeakSearch search;
        next = findLeakPath(ReadPlan(mode), *violation, search);
        if (!next) {
          return first; // it is unknown whether the change removes the leak
        }
      }
    }
    if (!next) {
      return all;
    }
    leak = std::move(*next);
  }
  return first + " (not enough by itself: the model leaks in other places too)";
}

/// Returns true if bounds and obligations prove every mode that has a loss. Does not search for a
/// witness, and does not check that generation agrees.
static bool isProvedAsItIs(ModuleOp module) {
  ObligationDecider decider;
  int64_t held = 0;
  for (auto [mode, name] : {std::pair("eval", "evaluate"), std::pair("train", "train")}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function || getLossOps(function).empty()) {
      continue;
    }
    DenseMap<Value, Frontier> frontiers = computeFrontiers(function);
    if (findViolation(function, frontiers) ||
        findOpenObligation(collectProof(function, mode, frontiers), decider, held)) {
      return false;
    }
  }
  return true;
}

/// Returns the first single change, or pair of changes, after which the model is proved; empty if
/// there is none. Sets `place` to the location of the first change.
static std::string findRemedyAmongSegments(ModuleOp module, const FoundLeak &leak,
                                           spec::SourceLocation &place) {
  std::vector<Change> changes = changesAmongSegments(leak);
  auto mends = [&](ArrayRef<const Change *> chosen) {
    Mending mending(module);
    for (const Change *change : chosen) {
      change->make(mending);
    }
    return isProvedAsItIs(module);
  };
  for (const Change &change : changes) {
    if (mends({&change})) {
      place = change.place;
      return "; " + change.words;
    }
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    for (size_t j = i + 1; j < changes.size(); ++j) {
      if (mends({&changes[i], &changes[j]})) {
        place = changes[i].place;
        return "; " + changes[i].words + "; then " + changes[j].words;
      }
    }
  }
  return "";
}

/// Returns true if an op on the path of the leak reads rows of segments.
static bool passesSegments(const FoundLeak &leak) {
  return llvm::any_of(llvm::make_first_range(leak.path), [](Value value) {
    return isa_and_nonnull<SegmentsInterface>(value.getDefiningOp());
  });
}

/// Describes the bound that was not found, or the budget that was exhausted first.
static std::string describeFailure(const CausalVerdict &verdict, const std::string &failure) {
  return verdict.exhausted > 0
             ? "not proved causal: the budget of " + WorkBudget::describe(verdict.exhausted) +
                   " ran out, and the bound of the positions that this stage reads is not known "
                   "yet; " +
                   simplifyHint + ". "
             : "not proved causal: " + failure;
}

/// Returns true if the remedy of an op only explains the cause of the leak, and no edit repairs it.
static bool hasCauseAlone(Operation *op) {
  OpRemedy own = findOpRemedy(op);
  return !own.words.empty() && own.attribute.empty();
}

/// Searches all boundaries of short sequences. The path starts at the first row that depends on a
/// later token.
static void explainSegments(func::FuncOp function, const BoundViolation &violation, bool replay,
                            CausalVerdict &verdict) {
  Boundaries boundaries;
  int64_t longest = 0;
  std::optional<FoundLeak> leak = findSegmentLeak(function, boundaries, longest);
  if (!leak) {
    CrossEntropyOp loss = violation.loss;
    verdict.place = getOpLocation(violation.unbounded ? violation.unbounded : loss.getOperation());
    verdict.message =
        describeFailure(verdict, "no bound was found for the segments that this stage reads; let "
                                 "rows read segments that are closed. ") +
        "It is not known either whether it leaks: under all boundaries of up to " +
        std::to_string(longest) + " tokens no row reads a later one";
    return;
  }
  verdict.kind = VerdictKind::Leak;
  if (replay) {
    replaySegments(*leak, boundaries); // the replay may replace the leak
  }
  Operation *op = opOfLateRead(Scales(function), *leak);
  verdict.place = getOpLocation(op);
  leak->witness.path = getSteps(*leak);
  auto module = function->getParentOfType<ModuleOp>();
  std::string remedy;
  bool isCause = hasCauseAlone(op);
  if (isCause) {
    remedy = "; " + findOpRemedy(op).words; // the remedy is independent of the segments
  } else if (!passesSegments(*leak)) {
    Mending mending(module);
    remedy =
        "; " + remedyFor(opAtFault(*leak), verdict.place, mending) +
        (isProvedAsItIs(module) ? ""
                                : " (not enough by itself: the model leaks in other places too)");
  } else {
    remedy = findRemedyAmongSegments(module, *leak, verdict.place);
  }
  verdict.message = "not causal: " + describe(*leak) + describe(boundaries) + remedy;
  verdict.remedy = isCause ? "" : remedy;
  verdict.witness = std::move(leak->witness);
}

void sluice::explain(func::FuncOp function, const BoundViolation &violation, bool replay,
                     CausalVerdict &verdict) {
  if (hasSegments(function->getParentOfType<ModuleOp>())) {
    return explainSegments(function, violation, replay, verdict);
  }
  ReadPlan plan(function);
  LeakSearch search;
  std::optional<FoundLeak> leak = findLeakPath(plan, violation, search);
  if (!leak) {
    Operation *op =
        violation.unbounded ? violation.unbounded : CrossEntropyOp(violation.loss).getOperation();
    verdict.kind = VerdictKind::NotProved;
    verdict.place = getOpLocation(op);
    verdict.message =
        describeFailure(verdict, "no bound was found for the positions that this stage reads; make "
                                 "its mask, shift and factors simpler. ") +
        "It is not known either whether it leaks: " + search.describe();
    return;
  }
  verdict.kind = VerdictKind::Leak;
  preferTarget(plan, *leak);
  if (replay) {
    replayLeak(plan, *leak);
  }
  leak->witness.path = getSteps(*leak);
  std::string what = describe(*leak);
  Operation *fault = opAtFault(*leak);
  bool isCause = hasCauseAlone(fault);
  verdict.place = getOpLocation(fault);
  std::string remedy =
      "; " + (isCause ? findOpRemedy(fault).words : findRemedy(function, *leak, verdict.place));
  verdict.message = "not causal: " + what + remedy;
  verdict.remedy = isCause ? "" : remedy;
  verdict.witness = std::move(leak->witness);
}
