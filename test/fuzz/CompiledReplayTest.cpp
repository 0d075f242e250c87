// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Killed mutants leak in the compiled program too: one mutant per mutation is compiled and run.
#include "Corpus.h"
#include "Harness.h"
#include "Mutants.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace sluice;
using namespace sluice::fuzz;

namespace {

/// Far above the rounding of float32 in these models, whose losses are about 2; the test of causal
/// models shows that.
constexpr double visible = 1e-4;

struct Killed {
  std::string text;
  CausalVerdict verdict;
};

/// One killed mutant per mutation whose replay changed the row.
std::map<std::string, Killed> collectKilledMutants() {
  std::map<std::string, Killed> killed;
  for (const char *name : {"dropout", "windows"}) {
    std::string path = std::string(SLUICE_SOURCE_DIR) + "/test/causality/causal/" + name + ".json";
    runCheckersOnMutants(
        modelIR(path), path, /*replay=*/true,
        [&](const Mutant &mutant, const CheckerResults &results) {
          const CausalVerdict &verdict = results.verdict;
          if (verdict.witness && verdict.witness->replay == Replay::Changed) {
            killed.try_emplace(mutant.mutation, Killed{mutant.text, verdict});
          }
        },
        [&](const std::string &mutation) { return !killed.contains(mutation); });
  }
  return killed;
}

sluice::testing::Inputs buildInputs(const sluice::testing::Model &model, int64_t length,
                                    uint64_t step) {
  sluice::testing::Inputs inputs;
  inputs.length = length;
  inputs.step = step;
  for (int64_t i = 0; i <= length; ++i) {
    inputs.tokens.push_back(static_cast<int32_t>(i * i % model.plan().model.vocabulary));
  }
  return inputs;
}

/// Change of the loss of `row` as the sequence grows from `shorter` to `longer` tokens.
double measureGrowthChange(sluice::testing::Model &model, const std::string &mode, int64_t row,
                           int64_t shorter, int64_t longer, uint64_t step) {
  auto loss = [&](int64_t length) {
    sluice::testing::Inputs inputs = buildInputs(model, length, step);
    return mode == "train" ? model.gradient(inputs).losses.at(static_cast<size_t>(row))
                           : model.evaluate(inputs).at(static_cast<size_t>(row));
  };
  return std::fabs(loss(longer) - loss(shorter));
}

/// Change of the last row's logits with `token`, which the row may read: a leak only where the row
/// is scored against that token.
double measureTokenChange(sluice::testing::Model &model, int64_t row, int64_t token) {
  sluice::testing::Inputs inputs = buildInputs(model, row + 1, 1);
  std::vector<float> before = model.predict(inputs);
  int32_t &changed = inputs.tokens.at(static_cast<size_t>(token));
  changed = static_cast<int32_t>((changed + 1) % model.plan().model.vocabulary);
  std::vector<float> after = model.predict(inputs);
  double change = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    change = std::max(change, std::fabs(static_cast<double>(after[i]) - before[i]));
  }
  return change;
}

double replay(sluice::testing::Model &model, const CausalVerdict &verdict) {
  const CausalWitness &witness = *verdict.witness;
  if (witness.token <= witness.row) {
    return measureTokenChange(model, witness.row, witness.token);
  }
  bool missing = witness.token >= witness.length;
  int64_t shorter = missing ? witness.length : witness.row + 1;
  int64_t longer = missing ? witness.token + 1 : witness.length;
  double change = 0;
  for (uint64_t step = 1; step <= 4; ++step) { // dropout may drop the path
    change = std::max(change, measureGrowthChange(model, verdict.refusedMode, witness.row, shorter,
                                                  longer, step));
  }
  return change;
}

} // namespace

TEST(CompiledReplay, KilledMutantsChangeTheirRowSlow) {
  std::map<std::string, Killed> killed = collectKilledMutants();
  EXPECT_GE(killed.size(), 20u);
  sluice::testing::Folder folder;
  std::string target = runtime::machineTargets().front();
  for (const auto &[mutation, mutant] : killed) {
    std::string source = folder.write("mutant.mlir", mutant.text);
    sluice::testing::Model model(
        sluice::testing::compile(folder, source, target, /*allowLeak=*/true), target);
    model.setWeights(sluice::testing::randomWeights(model.shapes(), 3));
    double change = replay(model, mutant.verdict);
    EXPECT_GT(change, visible) << mutation << ": " << mutant.verdict.message;
    std::printf("%-52s row changed by %.3g\n", mutation.c_str(), change);
  }
}

TEST(CompiledReplay, GrowthChangesNoRowOfCausalModels) {
  sluice::testing::Folder folder;
  std::string target = runtime::machineTargets().front();
  for (const char *name : {"dropout", "windows"}) {
    sluice::testing::Model model(
        sluice::testing::compile(
            folder, std::string(SLUICE_SOURCE_DIR) + "/test/causality/causal/" + name + ".json",
            target),
        target);
    model.setWeights(sluice::testing::randomWeights(model.shapes(), 3));
    for (int64_t row = 0; row < 20; ++row) {
      for (const char *mode : {"eval", "train"}) {
        EXPECT_LT(measureGrowthChange(model, mode, row, row + 1, 24, 1), visible / 10)
            << name << row;
      }
    }
  }
}
