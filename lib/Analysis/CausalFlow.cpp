// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From frontiers to a verdict that a user can act on.
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Analysis/Proof.h"
#include "sluice/Analysis/Reach.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Transforms/ImportSpec.h"

using namespace mlir;
using namespace sluice;

/// Factor of an op that reads groups; 1 for any other.
static int64_t groupOf(Operation *op) {
  if (auto shorten = dyn_cast<ShortenOp>(op)) {
    return static_cast<int64_t>(shorten.getFactor());
  }
  auto fold = dyn_cast<FoldOp>(op);
  return fold ? static_cast<int64_t>(fold.getFactor()) : 1;
}

namespace {
/// The shifts that stand right before a shortening.
struct ShiftChain {
  explicit ShiftChain(Operation *shorten) {
    for (Operation *op = shorten->getOperand(0).getDefiningOp(); isa_and_nonnull<ShiftOp>(op);
         op = op->getOperand(0).getDefiningOp()) {
      nearest = nearest ? nearest : op;
      total += static_cast<int64_t>(cast<ShiftOp>(op).getBy());
      ++count;
    }
  }
  Operation *nearest = nullptr;
  int64_t total = 0;
  int count = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// The first op on the way from the token whose result reads a token past the start of its own
/// position.
static Operation *opAtFault(FoundLeak &leak) {
  for (size_t i = leak.path.size() - 1; i-- > 0;) { // the last is what is read, not a reader
    auto [value, position] = leak.path[i];
    Operation *op = value.getDefiningOp();
    int64_t factor = getFactor(op, cast<SequenceType>(value.getType()));
    if (!isLazy(op) && leak.witness.token > factor * position) {
      return op;
    }
  }
  return leak.loss;
}

/// What to change, and the place to change it at.
static std::string remedyFor(Operation *fault, spec::SourceLocation &place) {
  place = placeOf(fault);
  if (int64_t k = groupOf(fault); k > 1) {
    ShiftChain shifts(fault);
    std::string least = std::to_string(k - 1);
    if (!shifts.nearest) {
      return "no shift stands right before this shortening by " + std::to_string(k) +
             "; shift by " + least + " directly before it";
    }
    int64_t by = static_cast<int64_t>(cast<ShiftOp>(shifts.nearest).getBy());
    place = placeOf(shifts.nearest);
    return "a group of " + std::to_string(k) + " shifted by " + std::to_string(shifts.total) +
           " holds later tokens than its first row may read; shift by " +
           std::to_string(by + k - 1 - shifts.total) + ", not " + std::to_string(by) + ", at " +
           spec::toString(place);
  }
  if (auto loss = dyn_cast<CrossEntropyOp>(fault)) {
    return "row t is scored against token t + " +
           std::to_string(static_cast<int64_t>(loss.getOffset())) +
           ", which it reads; score it against token t + 1, at " + spec::toString(place);
  }
  auto attention = dyn_cast<AttentionOp>(fault);
  if (attention && mentionsLength(attention.getMask())) {
    return "what its mask lets a position read changes as the sequence grows; use the mask "
           "\"causal\" or a window, at " +
           spec::toString(place);
  }
  if (attention) {
    return "its mask lets a position read later ones; use the mask \"causal\" or a window, at " +
           spec::toString(place);
  }
  return "this stage reads a position of its input that is not there yet";
}

static std::string describe(const FoundLeak &leak) {
  const CausalWitness &witness = leak.witness;
  CrossEntropyOp loss = leak.loss;
  int64_t target = witness.row + static_cast<int64_t>(loss.getOffset());
  std::string row = "row " + std::to_string(witness.row), length = std::to_string(witness.length);
  if (witness.token < witness.length) {
    return "of " + length + " tokens, " + row + ", which predicts token " + std::to_string(target) +
           ", reads token " + std::to_string(witness.token);
  }
  return row + " of " + length + " tokens is another one once token " +
         std::to_string(witness.token) + " is there";
}

/// Steps from the token to the row. A stage's steps that stay at their position are one.
static std::vector<CausalStep> stepsOf(FoundLeak &leak) {
  std::vector<CausalStep> steps;
  for (size_t i = leak.path.size() - 1; i-- > 0;) {
    Operation *op = leak.path[i].first.getDefiningOp();
    CausalStep step = {placeOf(op), op->getName().stripDialect().str(), leak.path[i + 1].second,
                       leak.path[i].second};
    bool same = !steps.empty() && step.from == step.to &&
                spec::toString(steps.back().place) == spec::toString(step.place);
    if (!same) {
      steps.push_back(step);
    }
  }
  int64_t row = leak.witness.row;
  steps.push_back({placeOf(leak.loss), "head", row, row});
  return steps;
}

//===----------------------------------------------------------------------===//
// Verdict
//===----------------------------------------------------------------------===//

namespace {
/// The first row whose frontier is not at most itself.
struct Violation {
  CrossEntropyOp loss;
  Operation *unbounded = nullptr;
  bool decided = true;
  int64_t row = 0;
  int64_t token = 0; ///< the frontier there
};
} // namespace

/// Row p may need tokens up to p, and not the target p + offset.
static std::optional<Violation> findViolation(func::FuncOp function) {
  DenseMap<Value, Frontier> frontiers = computeFrontiers(function);
  AffineExpr p = getAffineDimExpr(0, function.getContext());
  for (CrossEntropyOp loss : lossesOf(function)) {
    const Frontier &frontier = frontiers.at(loss.getInput());
    if (frontier.unbounded) {
      return Violation{loss, frontier.unbounded, true, 0, 0};
    }
    int64_t allowed = latestAllowed(loss);
    for (AffineExpr candidate : frontier.candidates) {
      SignAnswer answer = isNeverPositive(simplifyAffineExpr(candidate - p - allowed, 1, 0));
      if (answer.kind == SignAnswer::Always) {
        continue;
      }
      int64_t token = reference::evaluateAffine(candidate, answer.at, 0, 0);
      return Violation{loss, nullptr, answer.kind == SignAnswer::Fails, answer.at, token};
    }
  }
  return std::nullopt;
}

/// Lengths within which a leak must show, if there is one.
static int64_t longestLength(func::FuncOp function) {
  int64_t reach = 8;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      int64_t factor = getFactor(&op, cast<SequenceType>(op.getResult(0).getType()));
      auto shift = dyn_cast<ShiftOp>(op);
      int64_t tokens = factor * (shift ? 2 + static_cast<int64_t>(shift.getBy()) : 2);
      reach = std::max(reach, 4 * std::min(tokens, int64_t{1} << 32));
    }
  }
  return reach;
}

static void explain(func::FuncOp function, const Violation &violation, bool replay,
                    CausalVerdict &verdict) {
  std::optional<FoundLeak> leak;
  if (violation.decided && !violation.unbounded) {
    leak = findLeak(function, violation.token + 1);
  }
  if (!leak) { // that row may read a null where its bound is too large; a later one then leaks
    leak = findLeak(function, longestLength(function));
  }
  if (!leak) {
    Operation *op =
        violation.unbounded ? violation.unbounded : CrossEntropyOp(violation.loss).getOperation();
    verdict.kind = CausalVerdict::Kind::NotProved;
    verdict.place = placeOf(op);
    verdict.message = "not proved causal: no bound was found for what this stage reads, and no "
                      "leak either; make its mask, "
                      "shift and factors simpler";
    return;
  }
  verdict.kind = CausalVerdict::Kind::Leak;
  if (replay) {
    replayLeak(function, *leak);
  }
  leak->witness.path = stepsOf(*leak);
  std::string remedy = remedyFor(opAtFault(*leak), verdict.place);
  verdict.message = "not causal: " + describe(*leak) + "; " + remedy;
  verdict.witness = std::move(leak->witness);
}

bool sluice::isCausal(func::FuncOp function) { return !findViolation(function); }

/// Decides every obligation; sets the verdict's message and returns false where one does not hold.
/// The bounds were found by composition, so this is a second judge of every step.
static bool proves(const ModeProof &proof, ObligationDecider &decider, CausalVerdict &verdict) {
  for (const Obligation &obligation : proof.obligations) {
    Decision decision = decider.decide(proof, obligation);
    if (decision.kind == Decision::Holds) {
      ++verdict.obligations;
      continue;
    }
    verdict.refusedMode = proof.mode;
    verdict.place = placeOf(obligation.op);
    verdict.message =
        decision.kind == Decision::Vacuous
            ? "not proved causal: this stage reads nothing at all, so that a proof "
              "about it would be empty; give its mask or shift positions to read"
            : "not proved causal: the bound of what this stage reads does not hold at "
              "position " +
                  std::to_string(decision.p) +
                  "; make its mask, shift and factors "
                  "simpler";
    return false;
  }
  return true;
}

/// Refuses where one head is trained against another token than it is evaluated against.
static bool trainsWhatIsEvaluated(ModuleOp module, CausalVerdict &verdict) {
  auto evaluate = module.lookupSymbol<func::FuncOp>("evaluate");
  auto train = module.lookupSymbol<func::FuncOp>("train");
  if (!evaluate || !train) {
    return true;
  }
  auto headOf = [](CrossEntropyOp loss) {
    auto read = loss.getWeight().getDefiningOp<ReadOp>();
    return read ? read.getParameterAttr() : FlatSymbolRefAttr();
  };
  for (CrossEntropyOp evaluated : lossesOf(evaluate)) {
    SmallVector<CrossEntropyOp> losses = lossesOf(train);
    if (!losses.empty() && llvm::none_of(losses, [&](CrossEntropyOp trained) {
          return headOf(trained) == headOf(evaluated);
        })) {
      verdict.kind = CausalVerdict::Kind::Misaligned;
      verdict.refusedMode = "train";
      verdict.place = placeOf(losses.front());
      verdict.message =
          "not aligned: no loss of training has the weights that are evaluated; train "
          "what is evaluated, at " +
          spec::toString(verdict.place);
      return false;
    }
  }
  for (CrossEntropyOp trained : lossesOf(train)) {
    for (CrossEntropyOp evaluated : lossesOf(evaluate)) {
      auto target = static_cast<int64_t>(trained.getOffset());
      auto other = static_cast<int64_t>(evaluated.getOffset());
      bool alike = llvm::any_of(lossesOf(evaluate), [&](CrossEntropyOp loss) {
        return headOf(loss) == headOf(trained) && loss.getOffset() == trained.getOffset();
      });
      if (alike || headOf(trained) != headOf(evaluated)) {
        continue;
      }
      verdict.kind = CausalVerdict::Kind::Misaligned;
      verdict.refusedMode = "train";
      verdict.place = placeOf(trained);
      verdict.message = "not aligned: in training, row t is scored against token t + " +
                        std::to_string(target) + ", but in evaluation against token t + " +
                        std::to_string(other) + "; score it alike, at " +
                        spec::toString(verdict.place);
      return false;
    }
  }
  return true;
}

/// Proves generation by what was proved of @evaluate; refuses where it samples anything else.
static bool provesGeneration(ModuleOp module, CausalVerdict &verdict) {
  auto evaluate = module.lookupSymbol<func::FuncOp>("evaluate");
  auto predict = module.lookupSymbol<func::FuncOp>("predict");
  if (!evaluate || !predict) {
    return true;
  }
  Alignment alignment = checkAlignment(evaluate, predict);
  if (alignment.kind == Alignment::Aligned) {
    verdict.modes.push_back("generate");
    return true;
  }
  verdict.refusedMode = "generate";
  verdict.place = placeOf(alignment.op);
  if (alignment.kind == Alignment::OtherPrediction) {
    verdict.message = "not aligned: generation samples a prediction that no loss scores; let "
                      "@predict end in the last row of what a loss reads, under the loss's weights";
  } else {
    verdict.kind = CausalVerdict::Kind::Misaligned;
    verdict.message = "not aligned: row t is scored against token t + " +
                      std::to_string(alignment.offset) +
                      ", but generation appends what it predicts as token t + 1; score it against "
                      "token t + 1, at " +
                      spec::toString(verdict.place);
  }
  return false;
}

CausalVerdict sluice::checkCausality(ModuleOp module, bool replay) {
  CausalVerdict verdict;
  ObligationDecider decider;
  for (auto [mode, name] : {std::pair("eval", "evaluate"), std::pair("train", "train")}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function || lossesOf(function).empty()) {
      continue;
    }
    if (auto beyond = findBeyondTheorem(function)) {
      verdict.refusedMode = mode;
      verdict.place = placeOf(beyond->op);
      verdict.message = "not proved causal: " + beyond->message;
      return verdict;
    }
    if (auto violation = findViolation(function)) {
      verdict.refusedMode = mode;
      explain(function, *violation, replay, verdict);
      return verdict;
    }
    if (!proves(collectProof(function, mode), decider, verdict)) {
      return verdict;
    }
    verdict.modes.push_back(mode);
    for (CrossEntropyOp loss : lossesOf(function)) {
      verdict.losses.push_back({mode, placeOf(loss), static_cast<int64_t>(loss.getOffset())});
    }
  }
  // Without dropout, what is trained is what is evaluated.
  if (verdict.modes == std::vector<std::string>{"eval"} && !module.lookupSymbol("train")) {
    verdict.modes.push_back("train");
  }
  if (verdict.modes.empty()) {
    verdict.message = "not proved causal: the module has no loss, so there is nothing to prove";
    return verdict;
  }
  if (trainsWhatIsEvaluated(module, verdict) && provesGeneration(module, verdict)) {
    verdict.kind = CausalVerdict::Kind::Proved;
  }
  return verdict;
}

CausalVerdict sluice::checkModel(const spec::Model &model, bool replay) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = importSpec(context, model);
  CausalVerdict verdict = checkCausality(*module, replay);
  if (verdict.isProved()) {
    findAdvice(*module, verdict);
  }
  return verdict;
}
