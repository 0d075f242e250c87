// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Perturbation.h"
#include "CheckersModule.h"
#include "Enumeration.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Scales.h"

#include <random>

using namespace mlir;
using namespace sluice;
using namespace sluice::fuzz;

/// Returns row `row` of the input of each loss, one after the other.
static std::vector<double> evaluateRow(func::FuncOp function, int64_t length, int64_t row,
                                       uint64_t seed, const std::vector<int32_t> &tokens) {
  auto module = function->getParentOfType<ModuleOp>();
  reference::RuntimeValues setting;
  setting.length = length;
  setting.step = seed;
  reference::Evaluator<double> evaluator(module, setting);
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> weights(-1, 1);
  for (auto parameter : module.getOps<ParameterOp>()) {
    std::vector<double> data(
        static_cast<size_t>(cast<RankedTensorType>(parameter.getType()).getNumElements()));
    for (double &number : data) {
      number = weights(generator);
    }
    evaluator.setParameter(parameter.getSymName(), std::move(data));
  }
  Scales scales(function);
  for (BlockArgument argument : function.getArguments()) {
    auto rows = static_cast<size_t>(evaluator.getPositions(argument));
    evaluator.setTokens(argument,
                        scales.isOnTargetAxis(argument) ? tokens : std::vector<int32_t>(rows));
  }
  std::vector<double> numbers;
  if (failed(evaluator.evaluate(function))) {
    return numbers;
  }
  for (auto loss : function.getOps<CrossEntropyOp>()) {
    std::vector<double> all = evaluator.getSequence(loss.getInput());
    auto columns = static_cast<std::ptrdiff_t>(reference::getColumns(loss.getInput()));
    auto first = all.begin() + static_cast<std::ptrdiff_t>(row) * columns;
    numbers.insert(numbers.end(), first, first + columns);
  }
  return numbers;
}

/// Replaces a token of the sequence, or appends a token after its end.
static bool changesNumbers(func::FuncOp function, const CausalWitness &witness) {
  constexpr uint64_t draws = 8;
  constexpr int64_t offsets = 16; // tokens after the sequence that losses score
  auto vocabulary = static_cast<int32_t>(function->getParentOfType<ModuleOp>()
                                             ->getAttrOfType<IntegerAttr>("sluice.vocabulary")
                                             .getInt());
  int64_t longer = std::max(witness.length, witness.token + 1);
  for (uint64_t seed = 1; seed <= draws; ++seed) {
    std::mt19937_64 generator(seed);
    std::uniform_int_distribution<int32_t> any(0, vocabulary - 1), other(1, vocabulary - 1);
    std::vector<int32_t> tokens(static_cast<size_t>(longer + offsets));
    for (int32_t &token : tokens) {
      token = any(generator);
    }
    std::vector<int32_t> changed = tokens;
    int32_t &token = changed[static_cast<size_t>(witness.token)];
    token = (token + other(generator)) % vocabulary;
    if (evaluateRow(function, witness.length, witness.row, seed, tokens) !=
        evaluateRow(function, longer, witness.row, seed, changed)) {
      return true;
    }
  }
  return false;
}

WitnessResult fuzz::verifyWitness(const std::string &text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importText(context, text, "spec.json");
  CausalVerdict verdict = checkCausality(*module, /*replay=*/false);
  WitnessResult result;
  result.message = verdict.message;
  if (!verdict.witness) {
    return result;
  }
  result.exists = true;
  const CausalWitness &witness = *verdict.witness;
  auto function =
      module->lookupSymbol<func::FuncOp>(verdict.refusedMode == "train" ? "train" : "evaluate");
  result.isPath = rowDependsOn(function, witness.length, witness.row, witness.token);
  result.changesRow = changesNumbers(function, witness);
  return result;
}
