// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Demonstrates a leak by running the program or the reference twice.
#include "sluice/Explain/Replay.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/ReadWalk.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Explain/SegmentWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Scales.h"
#include <cmath>
#include <map>
#include <random>

using namespace mlir;
using namespace sluice;

namespace {

/// Maximum number of multiplications of a replay: a few seconds.
constexpr double mostReplayWork = 5e7;
/// Number of runs with different random numbers: dropout may drop the path.
constexpr uint64_t attempts = 4;

/// Sets uniform numbers in [-0.5, 0.5) for every parameter and table, large enough that every path
/// has a measurable effect.
void setParameters(ModuleOp module, reference::Evaluator<double> &evaluator) {
  std::mt19937_64 generator(1);
  for (auto parameter : module.getOps<ParameterOp>()) {
    std::vector<double> data(
        static_cast<size_t>(cast<RankedTensorType>(parameter.getType()).getNumElements()));
    for (double &number : data) {
      number = static_cast<double>(generator() >> 11) * 0x1p-53 - 0.5;
    }
    if (parameter.getInitial() == "members") { // a rule's table keeps its contents
      std::ranges::fill(data, 0);
      for (int64_t row : parameter.getMembers().value_or(ArrayRef<int64_t>())) {
        data[static_cast<size_t>(row)] = 1;
      }
    }
    evaluator.setParameter(parameter.getSymName(), std::move(data));
  }
}

/// Returns row `row` of the loss's input, for `length` tokens; nothing if the evaluation failed.
std::vector<double> evaluateRow(func::FuncOp function, CrossEntropyOp loss, int64_t length,
                                int64_t row, uint64_t step, std::vector<int32_t> tokens,
                                const ForcedBits &bits = {}) {
  auto module = function->getParentOfType<ModuleOp>();
  reference::RuntimeValues setting;
  setting.length = length;
  setting.step = step;
  reference::Evaluator<double> evaluator(module, setting);
  setParameters(module, evaluator);
  for (auto [i, rows] : llvm::enumerate(bits)) {
    if (!rows.empty()) {
      evaluator.setParameter(forcedName(i), {rows.begin(), rows.end()});
    }
  }
  Scales scales(function);
  for (BlockArgument argument : function.getArguments()) {
    auto rows = static_cast<size_t>(evaluator.getPositions(argument));
    bool isTarget = scales.isOnTargetAxis(argument);
    evaluator.setTokens(argument, isTarget ? tokens : std::vector<int32_t>(rows));
  }
  if (failed(evaluator.evaluate(function))) {
    return {};
  }
  std::vector<double> all = evaluator.getSequence(loss.getInput());
  size_t columns = static_cast<size_t>(reference::getColumns(loss.getInput()));
  auto first = all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * columns);
  return {first, first + static_cast<std::ptrdiff_t>(columns)};
}

/// Maximum length of a chain of maps: the reference evaluates chains recursively.
constexpr int64_t longestChain = 1000;

int64_t getChainLength(func::FuncOp function) {
  int64_t longest = 0;
  DenseMap<Value, int64_t> chains;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      int64_t chain = isLazy(&op) ? chains.lookup(op.getOperand(0)) + 1 : 0;
      chains[op.getResult(0)] = chain;
      longest = std::max(longest, chain);
    }
  }
  return longest;
}

double estimateWork(func::FuncOp function, int64_t length) {
  auto module = function->getParentOfType<ModuleOp>();
  double elements = 0;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      elements += static_cast<double>(cast<SequenceType>(op.getResult(0).getType()).getWidth() + 1);
    }
  }
  for (auto parameter : module.getOps<ParameterOp>()) {
    elements += static_cast<double>(cast<RankedTensorType>(parameter.getType()).getNumElements());
  }
  return elements * static_cast<double>(length);
}

/// Returns the reason why the reference cannot run so many tokens; empty if it can.
std::string explainUnreplayable(func::FuncOp function, int64_t length) {
  if (int64_t context = getContext(function); length > context) {
    return "it takes " + std::to_string(length) + " tokens, and the context is " +
           std::to_string(context) + "; give it a context of " + std::to_string(length) +
           ", as with --set context=" + std::to_string(length);
  }
  if (int64_t chain = getChainLength(function); chain > longestChain) {
    return "a row is read through " + std::to_string(chain) +
           " maps that are not stored, and the reference follows at most " +
           std::to_string(longestChain) + "; chain fewer shifts and upsamplings";
  }
  if (double work = estimateWork(function, length); work > mostReplayWork) {
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "about %.2g multiplications, above its limit of %.2g",
                  work, mostReplayWork);
    return "the compiled program is not available, and the reference would take " +
           std::string(numbers) +
           "; make the model's widths smaller or its layers fewer, as with --set width=64";
  }
  return "";
}

} // namespace

static void replayOnce(func::FuncOp function, FoundLeak &leak) {
  auto module = function->getParentOfType<ModuleOp>();
  CausalWitness &witness = leak.witness;
  int64_t longer = std::max(witness.length, witness.token + 1);
  witness.whyNotRun = explainUnreplayable(function, longer);
  if (!witness.whyNotRun.empty()) {
    return;
  }
  auto vocabulary = getFact<SluiceDialect::VocabularyAttrHelper>(module).getInt();
  int64_t targets = 1;
  for (CrossEntropyOp loss : getLossOps(function)) {
    auto offset = static_cast<int64_t>(loss.getOffset());
    if (offset < 0) {
      witness.whyNotRun = "a loss scores rows against tokens before them";
      return;
    }
    targets = std::max(targets, offset);
  }
  std::vector<int32_t> tokens(static_cast<size_t>(longer + targets));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(static_cast<int64_t>(i) % vocabulary);
  }
  std::vector<int32_t> changed = tokens;
  int32_t &token = changed[static_cast<size_t>(witness.token)];
  token = static_cast<int32_t>((token + 1) % vocabulary);
  for (uint64_t step = 1; step <= attempts && witness.change == 0; ++step) {
    std::vector<double> before =
        evaluateRow(function, leak.loss, witness.length, witness.row, step, tokens);
    std::vector<double> after =
        evaluateRow(function, leak.loss, longer, witness.row, step, changed);
    if (before.empty() || after.empty()) {
      witness.whyNotRun = "the reference cannot run the model";
      return;
    }
    for (auto [x, y] : llvm::zip_equal(before, after)) {
      witness.change = std::max(witness.change, std::abs(x - y));
    }
  }
  witness.replay = witness.change > 0 ? Replay::Changed : Replay::Unchanged;
}

/// Replays with another token of the same row if the first token causes no change.
static void replayEither(const ReadPlan &plan, FoundLeak &leak) {
  FoundLeak target = leak;
  preferTarget(plan, target);
  replayOnce(plan.function, target);
  if (target.witness.replay != Replay::Unchanged || target.witness.token == leak.witness.token) {
    leak = std::move(target);
    return;
  }
  replayOnce(plan.function, leak);
}

/// Tries a few leaks of later rows at some greater lengths too, because numbers may hide a path: a
/// missing row and a row of zeros read the same.
void sluice::replayLeak(const ReadPlan &plan, FoundLeak &leak) {
  constexpr int64_t moreLengths = 120;
  constexpr int triesOfAToken = 2;
  constexpr double mostPositions = 2e8; // a few seconds
  replayOnce(plan.function, leak);
  bool missing = leak.witness.token >= leak.witness.length;
  int64_t first = leak.witness.length;
  std::map<int64_t, int> tries;
  double positions = 0;
  for (int64_t length = first + 1;
       leak.witness.replay == Replay::Unchanged && length <= first + moreLengths; ++length) {
    positions += static_cast<double>(length) * static_cast<double>(length) *
                 static_cast<double>(plan.ops.size());
    if (positions > mostPositions) {
      return;
    }
    std::optional<FoundLeak> other = findLeakAt(plan, length, missing, /*firstRow=*/length / 2);
    if (!other || ++tries[other->witness.token] > triesOfAToken) {
      continue;
    }
    replayEither(plan, *other);
    if (other->witness.replay == Replay::Changed) {
      leak = std::move(*other);
    }
  }
}

/// Runs a copy of the module that reads the forced bits.
static void replayRuns(FoundLeak &leak) {
  CausalWitness &witness = leak.witness;
  auto function = leak.loss->getParentOfType<func::FuncOp>();
  witness.whyNotRun = explainUnreplayable(function, witness.length);
  if (!witness.whyNotRun.empty()) {
    return;
  }
  if (witness.runs.size() < 2) {
    witness.whyNotRun = "no other token gives boundaries to compare with";
    return;
  }
  OwningOpRef<ModuleOp> module(function->getParentOfType<ModuleOp>().clone());
  forceBits(*module, witness.runs[0].bits);
  auto copy = module->lookupSymbol<func::FuncOp>(function.getSymName());
  SmallVector<CrossEntropyOp> losses = getLossOps(function), copies = getLossOps(copy);
  CrossEntropyOp loss = copies[static_cast<size_t>(llvm::find(losses, leak.loss) - losses.begin())];
  int64_t targets = 1;
  for (CrossEntropyOp each : copies) {
    targets = std::max(targets, static_cast<int64_t>(each.getOffset()));
  }
  auto computeRow = [&](const SegmentRun &run, uint64_t step) {
    std::vector<int32_t> tokens = run.tokens;
    tokens.resize(static_cast<size_t>(witness.length + targets));
    return evaluateRow(copy, loss, witness.length, witness.row, step, tokens, run.bits);
  };
  for (uint64_t step = 1; step <= attempts && witness.change == 0; ++step) {
    std::vector<double> before = computeRow(witness.runs[0], step);
    for (size_t i = 1; i < witness.runs.size() && witness.change == 0; ++i) {
      std::vector<double> after = computeRow(witness.runs[i], step);
      if (before.empty() || after.empty()) {
        witness.whyNotRun = "the reference cannot run the model";
        return;
      }
      for (auto [x, y] : llvm::zip_equal(before, after)) {
        witness.change = std::max(witness.change, std::abs(x - y));
      }
      witness.shown = witness.change > 0 ? i : 0;
    }
  }
  witness.replay = witness.change > 0 ? Replay::Changed : Replay::Unchanged;
}

void sluice::replaySegments(FoundLeak &leak, Boundaries &boundaries) {
  constexpr int mostTries = 240, triesOfARow = 60;
  replayRuns(leak);
  if (leak.witness.replay != Replay::Unchanged) {
    return;
  }
  auto function = leak.loss->getParentOfType<func::FuncOp>();
  int tries = 0;
  std::map<int64_t, int> rowTries;
  double work = 0;
  auto isShown = [&](FoundLeak &other) {
    if (other.witness.length > getContext(function)) {
      return false; // no compiled row has it
    }
    if (++rowTries[other.witness.row] > triesOfARow) {
      return false;
    }
    work += estimateWork(function, other.witness.length);
    if (++tries <= mostTries && work <= mostReplayWork) {
      replayRuns(other);
    }
    return other.witness.replay == Replay::Changed;
  };
  Boundaries others;
  int64_t longest = 0;
  if (auto shown = findSegmentLeak(function, others, longest, isShown)) {
    leak = std::move(*shown);
    boundaries = std::move(others);
  }
}
