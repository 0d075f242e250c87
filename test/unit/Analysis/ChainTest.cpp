// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verdicts of chains of hundreds and thousands of stages, and the reasons for their speed:
// functions of one period, composed maps, the latest reads of long sequences.
#include "../Specs.h"
#include "sluice/Certificate/Certificate.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/ReadWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/QuasiAffine.h"
#include "sluice/Proof/Residues.h"
#include "sluice/Proof/Staircase.h"
#include <ctime>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace sluice;

namespace {

std::string buildSpec(const std::string &stages) {
  return R"({"sluice": 1, "vocabulary": 5, "context": 64, "batch": 1, "width": 2,
  "defaults": {"heads": 1, "feed_forward": 2}, "stages": [
    { "op": "embedding", "to": "x" },
)" + stages +
         "    { \"op\": \"head\" }]}";
}

ParsedSpec parse(MLIRContext &context, const std::string &stages) {
  return sluice::test::parseValidSpec(context, buildSpec(stages));
}

std::string stage(const std::string &op, const std::string &key, int64_t value) {
  return "{ \"op\": \"" + op + "\", \"" + key + "\": " + std::to_string(value) + " },\n";
}

/// `count` times shift, shorten, a layer where `layered`, upsample, by 2, 3 and 5 in turn.
std::string zigzag(int count, bool layered, const std::function<int64_t(int, int64_t)> &shift) {
  constexpr int64_t factors[] = {2, 3, 5};
  std::string stages;
  for (int i = 0; i < count; ++i) {
    int64_t k = factors[i % 3];
    stages += stage("shift", "by", shift(i, k)) + stage("shorten", "factor", k) +
              (layered ? "{ \"op\": \"layer\" },\n" : "") + stage("upsample", "factor", k);
  }
  return stages;
}

std::string repeated(const std::string &text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// Returns the verdict; fails if it takes longer than a tenth of a user's waiting time on an idle
/// machine.
CausalVerdict checkQuickly(const std::string &stages) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ParsedSpec spec = parse(context, stages);
  std::clock_t start = std::clock();
  OwningOpRef<ModuleOp> module = importSpec(spec);
  CausalVerdict verdict = checkCausality(*module, /*replay=*/false);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5) << stages.substr(0, 200);
  return verdict;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

TEST(Chains, HourglassReads) {
  std::string one = R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@1" },)";
  EXPECT_EQ(checkQuickly(repeated(one, 400)).kind, VerdictKind::Proved);
  std::string leaky = R"({ "op": "hourglass", "hierarchy": "1@1 1@2 1@1", "shift": 0 },)";
  CausalVerdict verdict = checkQuickly(repeated(one, 200) + leaky + repeated(one, 199));
  EXPECT_EQ(verdict.kind, VerdictKind::Leak);
  EXPECT_TRUE(has(verdict.message, "shift by 1, not 0")) << verdict.message;
}

TEST(Chains, ShorteningAndUpsamplingReads) {
  auto least = [](int, int64_t k) { return k - 1; };
  EXPECT_EQ(checkQuickly(zigzag(1500, false, least)).kind, VerdictKind::Proved);
  EXPECT_EQ(checkQuickly(zigzag(1500, false, [](int, int64_t k) { return k; })).kind,
            VerdictKind::Proved);
  EXPECT_EQ(checkQuickly(zigzag(90, true, least)).kind, VerdictKind::Proved);
  for (bool layered : {false, true}) {
    CausalVerdict verdict =
        checkQuickly(zigzag(90, layered, [](int i, int64_t k) { return i == 0 ? k - 2 : k - 1; }));
    EXPECT_EQ(verdict.kind, VerdictKind::Leak);
    EXPECT_TRUE(has(verdict.message, "shift by 1, not 0")) << verdict.message;
  }
}

/// Unshifted on the way, and shifted by the common multiple at the end: bounds nest to the depth of
/// the model, and no op but the last brings them down to the tokens.
TEST(Chains, LastShiftMakesTheChainCausal) {
  std::string late = zigzag(1500, false, [](int, int64_t) { return 0; });
  EXPECT_EQ(checkQuickly(late).kind, VerdictKind::Leak);
  EXPECT_EQ(checkQuickly(late + stage("shift", "by", 29)).kind, VerdictKind::Proved);
  CausalVerdict verdict = checkQuickly(late + stage("shift", "by", 28));
  EXPECT_EQ(verdict.kind, VerdictKind::Leak);
}

/// Recursion over a chain of maps would overflow the stack.
TEST(Chains, ShiftReads) {
  std::string one = stage("shift", "by", 1);
  EXPECT_EQ(checkQuickly(repeated(one, 60000)).kind, VerdictKind::Proved);
  EXPECT_EQ(checkQuickly(repeated(stage("shift", "by", (int64_t{1} << 31) - 1), 2000)).kind,
            VerdictKind::Proved);
  CausalVerdict verdict =
      checkQuickly(R"({ "op": "layer", "mask": "bidirectional" },)" + repeated(one, 60000));
  ASSERT_EQ(verdict.kind, VerdictKind::Leak) << verdict.message;
  EXPECT_GT(verdict.witness->length, 60000) << "no shorter sequence has a row that reads anything";
  EXPECT_GT(verdict.witness->token, verdict.witness->row);
  EXPECT_TRUE(has(verdict.format(), "more lines of reads, which --json lists")) << verdict.message;
}

/// A certificate has the same bound, spelled by its steps.
TEST(Chains, CertificateBoundsAreShort) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ParsedSpec spec =
      parse(context, zigzag(60, false, [](int, int64_t) { return 0; }) + stage("shift", "by", 29));
  OwningOpRef<ModuleOp> module = importSpec(spec);
  std::string text = formatCertificate(*module, spec.text);
  size_t longest = 0;
  for (StringRef line : llvm::split(text, '\n')) {
    longest = std::max(longest, line.size());
  }
  EXPECT_LT(longest, 600u);
}

//===----------------------------------------------------------------------===//
// Functions by one period
//===----------------------------------------------------------------------===//

namespace {
/// Maps of sequences, composed.
AffineExpr randomExpression(std::mt19937 &generator, MLIRContext *context, int depth) {
  AffineExpr e = getAffineDimExpr(0, context);
  for (int i = 0; i < depth; ++i) {
    auto k = static_cast<int64_t>(2 + generator() % 4), b = static_cast<int64_t>(generator() % 9);
    e = generator() % 2 ? (e - b).floorDiv(k) : e * k + (b - 4);
  }
  return e;
}
} // namespace

TEST(Staircase, MatchesTheExpression) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::mt19937 generator(3);
  int spelled = 0;
  for (int i = 0; i < 300; ++i) {
    AffineExpr e = randomExpression(generator, &context, 6);
    std::optional<Staircase> table = tabulate(e, 1 << 14);
    ASSERT_TRUE(table);
    EXPECT_TRUE(table->isNonDecreasing());
    Staircase shorter = *table;
    shorter.shorten();
    std::optional<AffineExpr> steps = shorter.toExpression(&context, 64);
    for (int64_t p = -200; p < 200; ++p) {
      int64_t value = reference::evaluateAffine(e, p, 0, 0);
      ASSERT_EQ(table->at(p), value);
      ASSERT_EQ(shorter.at(p), value);
      if (steps) {
        ASSERT_EQ(reference::evaluateAffine(*steps, p, 0, 0), value);
      }
    }
    spelled += steps.has_value();
  }
  EXPECT_GT(spelled, 200);
}

/// The period of a path down and up the scales does not grow with its number of passes.
TEST(Staircase, ThePeriodIsTheLeastCommonMultipleOfTheScales) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  AffineExpr e = getAffineDimExpr(0, &context);
  for (int i = 0; i < 30; ++i) {
    for (int64_t k : {2, 3, 5}) {
      e = e.floorDiv(k) * k + (k - 1 - i % 2);
    }
  }
  EXPECT_EQ(30 % computeRepeat(e).period, 0);
}

TEST(Staircase, LowerBoundingLineHolds) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::mt19937 generator(4);
  for (int i = 0; i < 100; ++i) {
    AffineExpr e = randomExpression(generator, &context, 8);
    std::optional<AffineExpr> bound = linearBound(e);
    ASSERT_TRUE(bound);
    for (int64_t p = -100; p < 100; ++p) {
      ASSERT_GE(reference::evaluateAffine(*bound, p, 0, 0), reference::evaluateAffine(e, p, 0, 0));
    }
  }
}

TEST(Staircase, FindsCommonPoints) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::mt19937 generator(5);
  int found = 0, none = 0;
  for (int i = 0; i < 120; ++i) {
    SmallVector<AffineExpr> list;
    for (int j = 0; j < 3; ++j) {
      AffineExpr x = randomExpression(generator, &context, 3);
      list.push_back(x - randomExpression(generator, &context, 3) - 2);
    }
    for (bool everywhere : {false, true}) {
      auto all = [&](int64_t p) {
        return llvm::all_of(
            list, [&](AffineExpr e) { return reference::evaluateAffine(e, p, 0, 0) >= 0; });
      };
      CommonPoint point = findCommonPoint(list, everywhere);
      ASSERT_NE(point.kind, CommonPoint::Unknown);
      if (point.kind == CommonPoint::Found) {
        ASSERT_TRUE(all(point.at));
        ASSERT_TRUE(everywhere || point.at >= 0);
        ++found;
        continue;
      }
      ++none;
      for (int64_t p = everywhere ? -600 : 0; p < 600; ++p) {
        ASSERT_FALSE(all(p)) << p;
      }
    }
  }
  EXPECT_GT(found, 20);
  EXPECT_GT(none, 20);
}

/// A search is limited to 50 bits and answers "unknown" about points beyond.
TEST(Residues, ExcludesOnlyReachablePoints) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  AffineExpr p = getAffineDimExpr(0, &context);
  AffineExpr farOut = p.floorDiv(int64_t{1} << 11) - (int64_t{1} << 41);
  AffineExpr few = -p + (int64_t{1} << 49) + 3;
  AffineExpr large = (p * 8).floorDiv(3) - (int64_t{1} << 49) * 8 / 3;
  // From 2^52 on; the same as two remainders; and at 2^49 alone, where 8 p / 3 is beyond the limit.
  for (const SmallVector<AffineExpr> &list : {SmallVector<AffineExpr>{farOut},
                                              {farOut, (p + 1) % 7 - 3, (p + 2) % 5 - 1},
                                              {p - (int64_t{1} << 49), few, large}}) {
    EXPECT_NE(findCommonPoint(list, /*everywhere=*/false).kind, CommonPoint::None);
  }
}

/// Sets and periods decide every obligation equally, including violated ones.
TEST(Chains, BothDecisionProceduresAgree) {
  std::mt19937 generator(6);
  int held = 0, failed = 0;
  for (int i = 0; i < 40; ++i) {
    std::string stages = zigzag(3, i % 2, [&](int, int64_t k) {
      return std::max<int64_t>(0, k - 2 + static_cast<int64_t>(generator() % 3));
    });
    MLIRContext context(MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = importSpec(parse(context, stages));
    ModeProof proof = collectProof(module->lookupSymbol<func::FuncOp>("evaluate"), "eval");
    if (i % 3 == 0) { // a bound that is too small at some point
      for (auto &[value, bound] : proof.bounds) {
        if (generator() % 4 == 0 && !bound.candidates.empty()) {
          bound.candidates[0] = bound.candidates[0] - 1;
        }
      }
    }
    ObligationDecider decider;
    for (const Obligation &obligation : proof.obligations) {
      if (obligation.kind == ObligationKind::Steady) {
        continue;
      }
      Decision bySets = decider.decideBySets(proof, obligation);
      Decision byPeriod = decider.decideByPeriod(proof, obligation);
      ASSERT_EQ(bySets.kind, byPeriod.kind) << stages << static_cast<int>(obligation.kind);
      (bySets.kind == Decision::Holds ? held : failed) += 1;
    }
  }
  EXPECT_GT(held, 500);
  EXPECT_GT(failed, 20);
}

//===----------------------------------------------------------------------===//
// Witnesses
//===----------------------------------------------------------------------===//

/// The walk finds the latest token; if the row also reads its own target, the target has priority.
TEST(Witnesses, NameTheTargetThatIsRead) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ParsedSpec spec = parse(context, stage("shorten", "factor", 6) + stage("upsample", "factor", 6) +
                                       R"({ "op": "add", "with": "x" },)"
                                       "\n{ \"op\": \"layer\" },\n");
  OwningOpRef<ModuleOp> module = importSpec(spec);
  ReadPlan plan(module->lookupSymbol<func::FuncOp>("evaluate"));
  std::optional<FoundLeak> leak = findLeakAt(plan, 6, /*missing=*/false, /*firstRow=*/2);
  ASSERT_TRUE(leak);
  EXPECT_EQ(leak->witness.token, 5);
  preferTarget(plan, *leak);
  EXPECT_EQ(leak->witness.token, 3);
  EXPECT_EQ(leak->path.back().second, 3);
  EXPECT_EQ(leak->path.front().second, 2);
}
