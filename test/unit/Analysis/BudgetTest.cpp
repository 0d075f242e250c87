// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verdicts of models with large periods or constants, and of checks whose budget is exhausted.
#include "Imported.h"
#include "sluice/Analysis/LoweredCausality.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Explain/SegmentWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/QuasiAffine.h"
#include "sluice/Proof/Residues.h"
#include "sluice/Proof/Staircase.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Step/DeriveStep.h"
#include "sluice/Support/WorkBudget.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {

bool mentionsText(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Groups by nine coprime factors, one after the other, each with a layer. Their common period is
/// 223,092,870 tokens.
std::string ninePrimes(int64_t lastShift) {
  constexpr int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23};
  std::string stages;
  for (int64_t k : primes) {
    std::string factor = std::to_string(k), shift = std::to_string(k == 23 ? lastShift : k - 1);
    stages += R"({ "op": "shift", "by": )" + shift + R"( }, { "op": "shorten", "factor": )" +
              factor + R"( }, { "op": "layer" }, { "op": "upsample", "factor": )" + factor +
              " },\n";
  }
  return stages;
}

CausalVerdict checkWithin(Imported &model, int64_t operations, int64_t *left = nullptr) {
  WorkBudget budget(operations);
  WorkScope scope(budget);
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  if (left) {
    *left = budget.getLeft();
  }
  return verdict;
}

const char *hourglass = R"({ "op": "hourglass", "hierarchy": "1@1 1@4 1@1", "shift": 5 },)";

} // namespace

TEST(Budget, CoprimeFactorsTakeFewOperations) {
  constexpr int64_t few = 50'000'000;
  Imported causal(ninePrimes(22)), leaky(ninePrimes(21));
  EXPECT_EQ(checkWithin(causal, few).kind, VerdictKind::Proved);
  CausalVerdict verdict = checkWithin(leaky, few);
  ASSERT_EQ(verdict.kind, VerdictKind::Leak) << verdict.message;
  EXPECT_EQ(verdict.exhausted, 0);
}

/// Sums of remainders by coprime numbers take every value up to their maximum, which is far from 0.
TEST(Budget, DecidesLongPeriodsExactly) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  AffineExpr p = getAffineDimExpr(0, &context), e = p;
  int64_t greatest = 0;
  for (int64_t k : {23, 19, 17, 13, 11, 7, 5, 3, 2}) {
    e = e.floorDiv(k) * k + 1; // at most 1 more, where a group begins
    greatest += 1;
  }
  WorkBudget budget(1'000'000);
  WorkScope scope(budget);
  EXPECT_EQ(isNeverPositive(e - p - greatest, /*wantFirst=*/false).kind, SignAnswer::Always);
  SignAnswer fails = isNeverPositive(e - p - greatest + 1, /*wantFirst=*/false);
  ASSERT_EQ(fails.kind, SignAnswer::Fails);
  EXPECT_EQ(findCommonPoint({e - p - greatest, p - fails.at, -p + fails.at}, false).kind,
            CommonPoint::Found);
  EXPECT_FALSE(budget.isExhausted());
}

TEST(Budget, ExhaustedBudgetGivesNoVerdict) {
  Imported model(hourglass);
  int64_t left = 0, whole = WorkBudget::defaultOperations;
  EXPECT_EQ(checkWithin(model, whole, &left).kind, VerdictKind::Proved);
  int64_t needed = whole - left, again = 0;
  checkWithin(model, whole, &again);
  EXPECT_EQ(left, again) << "equal inputs take equally many operations";
  CausalVerdict verdict = checkWithin(model, needed / 2);
  ASSERT_EQ(verdict.kind, VerdictKind::NotProved);
  EXPECT_EQ(verdict.exhausted, needed / 2);
  EXPECT_TRUE(mentionsText(verdict.message, std::to_string(needed / 2) + " operations ran out"))
      << verdict.message;
  EXPECT_TRUE(mentionsText(verdict.message, "--operations")) << verdict.message;
  EXPECT_FALSE(verdict.witness);
  EXPECT_FALSE(mentionsText(verdict.format(), "not causal")) << verdict.format();
}

/// Finds a leak near the beginning with little of the budget left for the proof.
TEST(Budget, SearchesForLeaksWithTheRemainingBudget) {
  Imported model(R"({ "op": "shorten", "factor": 4 }, { "op": "upsample", "factor": 4 },)");
  CausalVerdict verdict = checkWithin(model, 2000);
  EXPECT_EQ(verdict.kind, VerdictKind::Leak) << verdict.message;
  EXPECT_EQ(verdict.exhausted, 0);
}

TEST(Budget, NestedScopesShareTheBudget) {
  WorkBudget outer(100);
  WorkScope outerScope(outer);
  {
    WorkBudget inner(30);
    WorkScope innerScope(inner);
    EXPECT_TRUE(spendWork(20));
    EXPECT_FALSE(spendWork(20));
    EXPECT_TRUE(inner.isExhausted());
  }
  EXPECT_FALSE(isWorkExhausted());
  EXPECT_EQ(outer.getLeft(), 60);
  EXPECT_FALSE(spendWork(60));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Rows that wait for groups by large coprime factors. Sets of their bounds exceed the size passed
/// to the library, so remainders determine how many rows a step computes.
TEST(Budget, DecidesStepsOfLargeCoprimeFactors) {
  std::string stages;
  for (const char *factor : {"101", "103", "107", "109"}) {
    stages += R"({ "op": "shorten", "factor": )" + std::string(factor) +
              R"( }, { "op": "layer" }, { "op": "upsample", "factor": )" + factor + " },\n";
  }
  Imported model(stages + R"({ "op": "shift", "by": 500 }, { "op": "layer" },)");
  EXPECT_EQ(checkCausality(*model.module, /*replay=*/false).kind, VerdictKind::Proved);
  StepRefusal refusal;
  auto plan = deriveStep(model.module->lookupSymbol<func::FuncOp>("predict"), refusal);
  ASSERT_TRUE(plan) << refusal.message;
  for (const StepSchedule &schedule : plan->schedules) {
    EXPECT_LE(schedule.burst, 4); // each of four groups adds a row at most
    for (int64_t p = 0; p < 2000; ++p) {
      EXPECT_LT(schedule.getDue(p), schedule.getDue(p + schedule.burst));
    }
  }
}

TEST(Budget, ExhaustedBudgetGivesNoStep) {
  Imported model(hourglass);
  auto predict = model.module->lookupSymbol<func::FuncOp>("predict");
  StepRefusal refusal;
  for (int64_t operations : {1, 1'000, 10'000}) {
    EXPECT_FALSE(deriveStep(predict, refusal, operations)) << operations;
    EXPECT_TRUE(refusal.op);
    EXPECT_TRUE(mentionsText(refusal.message, "not proved: the budget of " +
                                                  WorkBudget::describe(operations) +
                                                  " ran out when "))
        << refusal.message;
  }
  EXPECT_TRUE(deriveStep(predict, refusal));
}

//===----------------------------------------------------------------------===//
// Replays
//===----------------------------------------------------------------------===//

/// Groups of segments of groups, where a row reads the segment before the last.
static const char *begins =
    R"({ "op": "shorten", "factor": 2 },
       { "op": "boundaries", "name": "w", "rule": "coding_rate", "threshold": 0.5, "at": "start" },
       { "op": "shorten", "segments": "w", "method": "max" },
       { "op": "boundaries", "name": "v", "rule": "coding_rate", "threshold": 0.5, "at": "start" },
       { "op": "shorten", "segments": "v", "method": "first" },
       { "op": "upsample", "segments": "v", "by": 1 }, { "op": "upsample", "segments": "w", "by": 2 },
       { "op": "upsample", "factor": 2 },)";

/// Every run of a witness has reachable boundaries.
TEST(ReplayRuns, UseReachableBits) {
  Imported model(begins);
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  ASSERT_EQ(verdict.kind, VerdictKind::Leak) << verdict.message;
  ASSERT_TRUE(verdict.witness);
  ASSERT_FALSE(verdict.witness->runs.empty());
  for (const SegmentRun &run : verdict.witness->runs) {
    ASSERT_EQ(run.bits.size(), 2u);
    for (const std::vector<float> &bits : run.bits) {
      ASSERT_FALSE(bits.empty());
      EXPECT_EQ(bits[0], 1) << "the first row begins a segment: " << run.what;
    }
  }
}

/// The bit of row 0 is always 1, so the leak of row 0 changes no number. Bit 2 decides which
/// segment row 4 reads.
TEST(ReplayRuns, ShowALaterRowWhereTheFirstNeverChanges) {
  Imported model(begins);
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/true);
  ASSERT_TRUE(verdict.witness) << verdict.message;
  EXPECT_EQ(verdict.witness->replay, Replay::Changed);
  EXPECT_EQ(verdict.witness->row, 4);
  EXPECT_EQ(verdict.witness->token, 5);
  ASSERT_FALSE(verdict.witness->path.empty()) << "the path is of the leak that is shown";
  EXPECT_EQ(verdict.witness->path.back().to, 4);
  ASSERT_LT(verdict.witness->shown, verdict.witness->runs.size());
  EXPECT_TRUE(mentionsText(verdict.witness->runs[verdict.witness->shown].what, "the bit at 2"));
}

/// Groups of nine tokens: rows limit the walk of boundaries, not seven tokens.
TEST(ReplayRuns, ExtendSequencesWhereGroupsHaveFewBoundaries) {
  Imported model(
      R"({ "op": "shift", "by": 8 }, { "op": "shorten", "factor": 9 },
         { "op": "boundaries", "name": "w", "predictor": 2, "prior": 0.1 },
         { "op": "shorten", "segments": "w" }, { "op": "upsample", "segments": "w", "by": 0 },
         { "op": "upsample", "factor": 9 },)");
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  ASSERT_EQ(verdict.kind, VerdictKind::Leak) << verdict.message;
  EXPECT_GT(verdict.witness->length, 7);
}

/// A spike rule sets no bit in the first row, and an axis has no more segments than rows.
TEST(ReplayRuns, RespectTheRuleAndTheCapacity) {
  Imported spikes(
      R"({ "op": "loss", "name": "small" },
         { "op": "boundaries", "name": "w", "rule": "entropy", "loss": "small", "spike": 1 },
         { "op": "shorten", "segments": "w" }, { "op": "upsample", "segments": "w", "by": 0 },)");
  BoundaryRules rules(spikes.evaluate());
  EXPECT_FALSE(rules.findTokens({{0}}, 3));
  EXPECT_TRUE(rules.findTokens({{1}}, 3));
  Imported few(
      R"({ "op": "boundaries", "name": "w", "predictor": 2, "prior": 0.1, "capacity": 0.004 },
         { "op": "shorten", "segments": "w" }, { "op": "upsample", "segments": "w", "by": 0 },)");
  BoundaryRules capacity(few.evaluate());
  EXPECT_TRUE(capacity.findTokens({{0, 2}}, 7));
  EXPECT_FALSE(capacity.findTokens({{0, 1, 2, 3, 4, 5}}, 7));
}

/// Every token of a small vocabulary ends a word, so a text has one boundary, at its first token.
TEST(ReplayRuns, HandleRulesThatContainEveryToken) {
  const std::string words =
      R"({ "op": "boundaries", "name": "w", "rule": "space_like", "at": "start" },
         { "op": "shorten", "segments": "w", "method": "first" },
         { "op": "upsample", "segments": "w", "by": 1 },)";
  Imported model(R"({ "op": "layer", "mask": "bidirectional" },)" + words);
  BoundaryRules rules(model.evaluate());
  EXPECT_TRUE(rules.findTokens({{0}}, 3));
  EXPECT_FALSE(rules.findTokens({{0, 2}}, 3));
  EXPECT_EQ(checkCausality(*model.module, /*replay=*/false).kind, VerdictKind::Leak);
}

/// The search continues beyond the context, and a run has a bit for each row of every length.
TEST(ReplayRuns, HaveBitsForLengthsBeyondTheContext) {
  Imported model(
      R"({ "op": "boundaries", "name": "w", "predictor": 2, "prior": 0.1 },
         { "op": "shorten", "segments": "w" }, { "op": "upsample", "segments": "w", "by": 0 },)",
      /*capacity=*/3);
  int64_t longest = 0, found = 0;
  Boundaries boundaries;
  findSegmentLeak(model.evaluate(), boundaries, longest, [&](FoundLeak &leak) {
    found = std::max(found, leak.witness.length);
    for (const SegmentRun &run : leak.witness.runs) {
      EXPECT_GT(static_cast<int64_t>(run.bits.front().size()), leak.witness.length);
    }
    return leak.witness.length > 5;
  });
  EXPECT_GT(found, 5);
}
