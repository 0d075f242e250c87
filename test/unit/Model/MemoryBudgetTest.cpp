// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Training within a memory budget: bitwise equal results, in an arena within the budget.
#include "Harness.h"

#include "sluice/Driver/Driver.h"

#include <gtest/gtest.h>

using namespace sluice::testing;

namespace {

/// Resampling by attention, a loss of the coarse stream in addition to the head's, dropout at every
/// place.
const char *const spec =
    R"json({"sluice": 1, "vocabulary": 48, "context": 24, "batch": 2, "width": 16,
  "defaults": {"heads": 2, "feed_forward": 32, "dropout": 0.1, "attention_dropout": 0.1},
  "stages": [{"op": "embedding", "dropout": 0.1}, {"op": "layer"}, {"op": "norm", "to": "x"}, {"op": "shift", "by": 3},
             {"op": "shorten", "factor": 4}, {"op": "layer", "over": "x"}, {"op": "norm", "to": "y"},
             {"op": "loss", "name": "bag", "factor": 0.3, "tied": true},
             {"op": "layer", "from": "x", "over": "y"}, {"op": "add", "with": "x"}, {"op": "layer"},
             {"op": "norm"}, {"op": "head"}],
  "training": {"learning_rate": 0.003}})json";

class MemoryBudgetTest : public ::testing::Test {
protected:
  sluice::driver::Outcome compileWithin(int64_t budget) const {
    sluice::driver::CompileRequest request;
    request.spec = source;
    request.output = path;
    request.targets = {target};
    request.memoryBudget = budget;
    request.verifyEachCausality = true;
    request.replay = {.targetOffset = 1, .batch = 2}; // no entries of generation: half the code
    return sluice::driver::compile(request);
  }
  /// The minimum that the compiler reports on rejection.
  int64_t least() const {
    sluice::driver::Outcome refused = compileWithin(1);
    EXPECT_EQ(refused.status, 2);
    const std::string start = "expected at least ";
    size_t at = refused.message.find(start);
    EXPECT_NE(at, std::string::npos) << refused.message;
    return at == std::string::npos ? 0 : std::stoll(refused.message.substr(at + start.size()));
  }

  Folder folder;
  std::string target = sluice::runtime::machineTargets().front();
  std::string source = folder.write("model.json", spec), path = folder.path("model.sla");
};

/// Gradients of three steps and the weights after them, as bytes.
std::string trace(Model &model) {
  std::string bytes;
  auto add = [&](const Tensors &tensors) {
    for (const auto &[name, values] : tensors) {
      bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(double));
    }
  };
  model.setWeights(randomWeights(model.shapes(), 5));
  for (uint64_t step = 1; step <= 3; ++step) {
    Inputs inputs = randomInputs(48, 2, step == 2 ? 17 : 24, step);
    inputs.seed = 42;
    inputs.step = step;
    add(model.train(inputs).gradients);
  }
  add(model.weights());
  return bytes;
}

/// The launches of an artifact touch only memory inside its arena.
int64_t lastByteTouched(const sluice::runtime::Plan &plan) {
  int64_t last = 0;
  for (const auto &[name, launches] : plan.entries) {
    for (const sluice::runtime::Launch &launch : launches) {
      const auto &operands = plan.kernels[static_cast<size_t>(launch.kernel)].operands;
      for (size_t i = 0; i < operands.size(); ++i) {
        last = std::max(last, launch.arguments[i] + operands[i].bytes);
      }
    }
  }
  return last;
}

TEST_F(MemoryBudgetTest, PreservesResultsWithinTheBudget) {
  constexpr int64_t unlimited = int64_t(1) << 40;
  ASSERT_EQ(compileWithin(unlimited).status, 0);
  Model full(path, target);
  int64_t most = full.plan().memory.arenaBytes;
  EXPECT_EQ(full.plan().memory.budget->launches, 0);
  std::string expected = trace(full);

  int64_t budget = least();
  ASSERT_LT(budget, most);
  EXPECT_EQ(compileWithin(budget - 1).status, 2);
  sluice::driver::Outcome outcome = compileWithin(budget);
  ASSERT_EQ(outcome.status, 0) << outcome.message;
  Model lean(path, target);
  const sluice::runtime::MemoryFacts &memory = lean.plan().memory;
  EXPECT_LE(memory.arenaBytes, budget);
  EXPECT_LE(lastByteTouched(lean.plan()), memory.arenaBytes);
  EXPECT_EQ(memory.budget->bytes, budget);
  EXPECT_EQ(memory.budget->fullBytes, most);
  EXPECT_GT(memory.budget->launches, 0);
  EXPECT_TRUE(trace(lean) == expected);

  // The sum of the lines of `inspect --memory`.
  int64_t total = 0;
  std::map<std::string, int64_t> byKind;
  for (const sluice::runtime::MemoryPart &part : memory.contents) {
    total += part.bytes;
    byKind[part.kind] += part.bytes;
  }
  EXPECT_EQ(total, memory.arenaBytes);
  EXPECT_GT(byKind["kept"] + byKind["recomputed"], 0);
  EXPECT_EQ(byKind["moments"], 2 * byKind["weights"]);
  EXPECT_EQ(memory.peak->entry, "gradient");
  EXPECT_NE(memory.peak->place.find("model.json:"), std::string::npos);
}

} // namespace
