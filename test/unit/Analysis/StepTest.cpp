// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The derived step: rings and schedules computed by hand, their minimum, and every obligation over
// the corpus. test/unit/Transforms/StepTest.cpp compares the values with the forward pass.
#include "../Papers.h"
#include "../Specs.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/StepPlan.h"
#include "sluice/Proof/StepProof.h"
#include "sluice/Step/DeriveStep.h"

#include "sluice/Step/StepSchedule.h"
#include <filesystem>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;

namespace {

/// A spec of width 4 on a context of 64, imported.
struct Derived {
  explicit Derived(const std::string &stages) {
    std::string text = R"({"sluice": 1, "vocabulary": 5, "context": 64, "batch": 1, "width": 4,
      "defaults": {"heads": 1, "feed_forward": 2}, "stages": [)" +
                       stages + R"(, {"op": "head"}]})";
    module = importSpec(sluice::test::parseValidSpec(context, text));
    plan = deriveStep(module->lookupSymbol<func::FuncOp>("predict"), refusal);
    EXPECT_TRUE(plan) << refusal.message;
  }
  /// The result of the stage part `name`.
  StepValue &at(const std::string &name) {
    for (auto &[value, step] : plan->values) {
      if (getOriginName(value) == name) {
        return step;
      }
    }
    llvm::report_fatal_error(llvm::Twine("no value " + name));
  }
  const StepSchedule &findSchedule(const std::string &name) {
    return plan->schedules[at(name).schedule];
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  StepRefusal refusal;
  std::optional<StepPlan> plan;
};

/// The first violated obligation, in words; empty if all hold.
std::string findFailure(const StepPlan &plan) {
  StepDecider decider;
  for (const StepObligation &obligation : collectObligations(plan)) {
    if (auto point = decider.findFailure(plan, obligation)) {
      return "obligation " + std::to_string(static_cast<int>(obligation.kind)) + " at " +
             std::to_string(point->first) + ", " + std::to_string(point->second);
    }
  }
  return "";
}

std::string shortened(const std::string &shift) {
  return R"({"op": "embedding", "to": "x"}, {"op": "shift", "by": )" + shift +
         R"(}, {"op": "shorten", "factor": 4}, {"op": "upsample", "factor": 4},
         {"op": "add", "with": "x"})";
}

} // namespace

TEST(Step, ShorteningStoresItsGroupAndItsShift) {
  for (auto [shift, ring] : {std::pair(3, 4), std::pair(5, 6), std::pair(8, 9)}) {
    Derived derived(shortened(std::to_string(shift)));
    EXPECT_EQ(derived.at("stages.0.token").ring, ring) << shift;
    EXPECT_FALSE(derived.at("stages.0.token").keepsAll);
    const StepSchedule &coarse = derived.findSchedule("stages.2.shorten");
    EXPECT_EQ(coarse.first, 0);
    EXPECT_EQ(coarse.period, 4);
    EXPECT_EQ(coarse.burst, 1);
    EXPECT_EQ(coarse.getCount(3), 1);
    EXPECT_EQ(coarse.getCount(4), 2);
    EXPECT_EQ(derived.at("stages.2.shorten").ring, 1) << "the newest group serves four rows";
    EXPECT_EQ(findFailure(*derived.plan), "");
  }
}

TEST(Step, CompleteGroupIsComputedWithItsLastRow) {
  Derived derived(R"({"op": "embedding"}, {"op": "shorten", "factor": 4}, {"op": "upsample",
    "factor": 4}, {"op": "norm"}, {"op": "shift", "by": 3}, {"op": "norm"})");
  EXPECT_EQ(derived.at("stages.0.token").ring, 4);
  EXPECT_EQ(derived.findSchedule("stages.1.shorten").first, 3);
  const StepSchedule &stored = derived.findSchedule("stages.3.norm");
  EXPECT_EQ(stored.burst, 4) << "four rows are due with the group that they read";
  EXPECT_EQ(stored.getCount(2), 0);
  EXPECT_EQ(stored.getCount(3), 4);
  EXPECT_EQ(stored.getCount(6), 4);
  EXPECT_EQ(derived.at("stages.1.shorten").ring, 0) << "read in the step that computes it";
  EXPECT_EQ(derived.at("stages.3.norm").ring, 4) << "row t - 3, the oldest of four at step 4m + 3";
  EXPECT_EQ(findFailure(*derived.plan), "");
}

TEST(Step, CoarseShiftStoresOneMoreRow) {
  Derived derived(R"({"op": "embedding", "to": "x"}, {"op": "shift", "by": 3},
    {"op": "shorten", "factor": 4}, {"op": "shift", "by": 2}, {"op": "upsample", "factor": 4},
    {"op": "add", "with": "x"})");
  EXPECT_EQ(derived.at("stages.2.shorten").ring, 3);
}

TEST(Step, WindowsStoreTheirLengthAndCausalAttentionEveryKey) {
  Derived derived(R"({"op": "embedding"}, {"op": "layer", "mask": {"window": [2, 7]}},
    {"op": "layer"}, {"op": "layer", "mask": {"window": [0, 64]}})");
  EXPECT_EQ(derived.at("stages.1.attention.qkv").ring, 7);
  EXPECT_FALSE(derived.at("stages.1.attention.qkv").keepsAll);
  EXPECT_EQ(derived.at("stages.2.attention.qkv").ring, 64);
  EXPECT_TRUE(derived.at("stages.2.attention.qkv").keepsAll);
  EXPECT_EQ(derived.at("stages.3.attention.qkv").ring, 64);
  EXPECT_FALSE(derived.at("stages.3.attention.qkv").keepsAll);
  EXPECT_EQ(derived.at("stages.1.attention.mix").ring, 0);
  EXPECT_EQ(findFailure(*derived.plan), "");
}

TEST(Step, LaterStepReadsAValueAtItsOwnPosition) {
  Derived derived(R"({"op": "embedding", "to": "x"}, {"op": "shorten", "factor": 4},
    {"op": "upsample", "factor": 4}, {"op": "add", "with": "x"}, {"op": "shift", "by": 4},
    {"op": "norm"})");
  EXPECT_EQ(derived.at("stages.0.token").ring, 4);
  EXPECT_EQ(findFailure(*derived.plan), "");
}

TEST(Step, UnusedValuesAreNotComputed) {
  Derived derived(R"({"op": "embedding", "to": "x"}, {"op": "layer", "mask": "bidirectional"},
    {"op": "norm", "from": "x"})");
  ASSERT_TRUE(derived.plan);
  for (const auto &[value, step] : derived.plan->values) {
    EXPECT_FALSE(isa_and_nonnull<AttentionOp>(value.getDefiningOp()));
  }
}

/// Rejects a plan with one changed claim.
TEST(Step, InjectedFaultsAreRejected) {
  const std::string stages = R"({"op": "embedding", "to": "x"}, {"op": "shift", "by": 5},
    {"op": "shorten", "factor": 4}, {"op": "layer", "mask": {"window": [1, 3]}},
    {"op": "upsample", "factor": 4}, {"op": "add", "with": "x"}, {"op": "layer"})";
  Derived derived(stages);
  ASSERT_EQ(findFailure(*derived.plan), "");
  for (size_t i = 0; i < derived.plan->values.size(); ++i) {
    StepPlan changed = *derived.plan;
    StepValue &value = (changed.values.begin() + i)->second;
    if (value.ring > 0) {
      --value.ring;
      EXPECT_NE(findFailure(changed), "") << "a ring one too small, value " << i;
    }
  }
  for (size_t i = 0; i < derived.plan->schedules.size(); ++i) {
    StepPlan early = *derived.plan;
    for (AffineExpr &due : early.schedules[i].due) {
      due = due - 1;
    }
    EXPECT_NE(findFailure(early), "") << "a schedule one early, " << i;
    StepPlan late = *derived.plan;
    for (AffineExpr &due : late.schedules[i].due) {
      due = due + 1;
    }
    EXPECT_NE(findFailure(late), "") << "a schedule one late, " << i;
    StepPlan miscounted = *derived.plan;
    miscounted.schedules[i].counts.front() = miscounted.schedules[i].counts.front() + 1;
    EXPECT_NE(findFailure(miscounted), "") << "a count one too large, " << i;
  }
}

/// Results of a named input have no schedule, and are stored completely if the tokens' rows read
/// them.
TEST(Step, StoresInputsCompletely) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module =
      importSpec(sluice::test::parseValidFile(context, SLUICE_SOURCE_DIR "/models/tiny/copy.json"));
  StepRefusal refusal;
  auto plan = deriveStep(module->lookupSymbol<func::FuncOp>("predict"), refusal);
  ASSERT_TRUE(plan) << refusal.message;
  int64_t given = 0, kept = 0;
  for (auto &[value, step] : plan->values) {
    given += step.isGiven;
    kept += step.isGiven && step.ring > 0;
    if (!step.isGiven || step.ring == 0) {
      continue;
    }
    EXPECT_EQ(step.ring, 16);
    StepPlan changed = *plan;
    --changed.values.find(value)->second.ring;
    EXPECT_NE(findFailure(changed), "");
  }
  EXPECT_GT(given, 8);
  EXPECT_EQ(kept, 1);
}

/// By enumeration: rings and bursts are minimal, counts match the schedule, periods repeat.
static void expectLeast(const StepPlan &plan, const std::string &name) {
  for (const StepSchedule &schedule : plan.schedules) {
    int64_t burst = 0, last = schedule.first + 2 * schedule.period + 8;
    for (int64_t t = 0; t <= last; ++t) {
      int64_t count = schedule.getCount(t);
      burst = std::max(burst, count - schedule.getCount(t - 1));
      EXPECT_TRUE(count == 0 || schedule.getDue(count - 1) <= t) << name;
      EXPECT_GT(schedule.getDue(count), t) << name;
      if (t >= schedule.first) {
        EXPECT_EQ(schedule.getCount(t + schedule.period), count + schedule.rise) << name;
      }
    }
    EXPECT_EQ(burst, schedule.burst) << name;
  }
  DenseMap<Value, int64_t> rings;
  auto walk = [&](ArrayRef<StepRead> reads, const StepSchedule &reader, int64_t rows) {
    for (const StepRead &read : reads) {
      const StepValue &source = plan.values.find(read.source)->second;
      if (source.isGiven) { // whole, whatever is read
        EXPECT_EQ(source.ring, source.capacity) << name;
        continue;
      }
      for (int64_t p = 0; p < rows; ++p) {
        int64_t t = reader.getDue(p), n = t / read.operandFactor + 1;
        for (int64_t x = -8; x <= n; ++x) {
          int64_t q = reference::evaluateAffine(read.position, p, x, n);
          if (q >= 0 && reference::contains(read.relation, p, x, n)) {
            rings[read.source] = std::max(rings[read.source], plan.getCount(read.source, t) - q);
            EXPECT_LE(plan.schedules[source.schedule].getDue(q), t) << name;
          }
        }
      }
    }
  };
  for (const auto &[value, step] : plan.values) {
    walk(step.reads, plan.schedules[step.schedule], std::min<int64_t>(step.capacity, 48));
  }
  StepSchedule every = everyStep(func::FuncOp(plan.function).getContext());
  walk(plan.finals, every, 48);
  for (const auto &[value, step] : plan.values) {
    if (step.ring > 0 && !step.keepsAll && step.ring * step.factor < 40) {
      EXPECT_EQ(rings[value], step.ring) << name;
    }
  }
}

/// Replaces all rows but every k-th, on other scales, and in groups.
TEST(Step, InvertsDifferencesOfDivisions) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  AffineExpr p = getAffineDimExpr(0, &context);
  auto others = [&](int64_t ahead, int64_t k) {
    return p - (p + ahead).floorDiv(k) + (p + (ahead - 1)).floorDiv(k);
  };
  for (AffineExpr due : {others(0, 3), others(2, 7), others(1, 64) * 4 + 3, others(0, 4) * 18 + 2,
                         others(3, 5).floorDiv(3) * 3 + 40}) {
    Frontier bound;
    bound.candidates = {due};
    std::optional<StepSchedule> schedule = findSchedule(bound);
    ASSERT_TRUE(schedule);
    int64_t counted = 0; // rows that are due at t or before
    for (int64_t t = 0; t < 600; ++t) {
      while (schedule->getDue(counted) <= t) {
        ++counted;
      }
      EXPECT_EQ(schedule->getCount(t), counted) << "step " << t;
    }
    EXPECT_EQ(schedule->getCount(600 + schedule->period), schedule->getCount(600) + schedule->rise);
  }
}

TEST(Step, EveryObligationHoldsOverTheCorpus) {
  int count = 0;
  for (const char *folder : {"/models", "/test/causality/causal", "/test/golden"}) {
    for (const auto &entry :
         std::filesystem::recursive_directory_iterator(SLUICE_SOURCE_DIR + std::string(folder))) {
      std::string path = entry.path().string();
      if (entry.path().extension() != ".json" || !sluice::test::isRepresentative(entry.path()) ||
          path.find("/expected/") != std::string::npos || path.ends_with("bidirectional.json")) {
        continue;
      }
      spec::Diagnostic error;
      MLIRContext context(MLIRContext::Threading::DISABLED);
      std::optional<ParsedSpec> spec = parseSpecFile(context, path, error);
      OwningOpRef<ModuleOp> module;
      if (!spec || !(module = importSpec(*spec))) {
        continue;
      }
      StepRefusal refusal;
      auto predict = module->lookupSymbol<func::FuncOp>("predict");
      if (!predict) { // the model ends in a contrast
        continue;
      }
      auto plan = proveStep(predict, refusal);
      ASSERT_TRUE(plan) << path << refusal.message;
      if (!predict.getBody().getOps<SegmentOp>().empty()) {
        continue; // boundaries are no periods: the reference runs these (Transforms/StepTest.cpp)
      }
      EXPECT_EQ(findFailure(*plan), "") << path;
      expectLeast(*plan, path);
      ++count;
    }
  }
  EXPECT_GT(count, 90);
}
