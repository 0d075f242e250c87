// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From frontiers to a verdict that a user can act on.
#include "sluice/Analysis/CausalFlow.h"
#include "Remedy.h"
#include "sluice/Analysis/Proof.h"
#include "sluice/Analysis/Reach.h"
#include "sluice/Analysis/SpecFix.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Transforms/ImportSpec.h"

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// What a spec calls an op; the op's own name where it was not made from one.
static std::string wordOf(Operation *op) {
  StringRef part = stageNameOf(op).part;
  if (isa<FoldOp>(op) && part == "fold") {
    return "shorten (linear)";
  }
  if ((isa<UnfoldOp>(op) && !part.empty()) || (isa<FoldOp>(op) && part == "window")) {
    return "upsample (linear)";
  }
  if (isa<StartOp>(op)) {
    return "shift";
  }
  if (isa<EmbedOp, PositionOp>(op) || part == "sum") {
    return "embedding";
  }
  bool isLayer = part.starts_with("attention.") || part.starts_with("feed_forward.");
  if (isa<HashedAttentionOp>(op)) {
    return "attention";
  }
  if (isLayer && !isa<AttentionOp>(op)) {
    return "layer";
  }
  return isa<MapOp>(op) && !part.empty() ? part.str() : op->getName().stripDialect().str();
}

/// "position 3 of the shorten at a.json:7:5"
static std::string nameOf(Value value, int64_t position) {
  Operation *op = value.getDefiningOp();
  return "position " + std::to_string(position) + " of the " + wordOf(op) + " at " +
         spec::toString(placeOf(op));
}

/// What the path goes through that neither the token nor the row makes exist; empty where all of it
/// stands as soon as these do.
static std::string longerSequence(const FoundLeak &leak) {
  const CausalWitness &witness = leak.witness;
  int64_t most = std::max(witness.token, witness.row);
  const std::pair<Value, int64_t> *last = nullptr;
  for (const auto &step : leak.path) {
    Operation *op = step.first.getDefiningOp();
    int64_t first = op && !isLazy(op)
                        ? getFactor(op, cast<SequenceType>(step.first.getType())) * step.second
                        : -1;
    if (first > most) {
      most = first;
      last = &step;
    }
  }
  return last ? ", through " + nameOf(last->first, last->second) + ", which only sequences of " +
                    std::to_string(most + 1) + " tokens or more have"
              : "";
}

static std::string describe(const FoundLeak &leak) {
  const CausalWitness &witness = leak.witness;
  CrossEntropyOp loss = leak.loss;
  int64_t target = witness.row + static_cast<int64_t>(loss.getOffset());
  std::string row = "row " + std::to_string(witness.row);
  if (witness.token < witness.length) {
    return "of " + std::to_string(witness.length) + " tokens, " + row + ", which predicts token " +
           std::to_string(target) + ", reads token " + std::to_string(witness.token) +
           longerSequence(leak);
  }
  auto [value, position] = leak.path.back();
  std::string through = value.getDefiningOp() ? ": it reads " + nameOf(value, position) +
                                                    ", which does not exist before"
                                              : "";
  return row + " changes when the sequence grows to token " + std::to_string(witness.token) +
         through;
}

/// Steps from the token to the row. Of one stage those that stay at their position are told with
/// the one that does not.
static std::vector<CausalStep> stepsOf(FoundLeak &leak) {
  std::vector<CausalStep> steps;
  StringRef stage; // of the last step
  for (size_t i = leak.path.size() - 1; i-- > 0;) {
    Operation *op = leak.path[i].first.getDefiningOp();
    CausalStep step = {placeOf(op), wordOf(op), leak.path[i + 1].second, leak.path[i].second};
    StringRef own = stageNameOf(op).stage;
    bool isSame = !steps.empty() && !own.empty() && own == stage;
    bool stayed = isSame && steps.back().from == steps.back().to;
    stage = own;
    if (isSame && step.from == step.to && !(stayed && steps.back().op == "linear")) {
      continue;
    }
    if (stayed) {
      steps.back() = step;
    } else {
      steps.push_back(step);
    }
  }
  int64_t row = leak.witness.row;
  bool isOther = stageNameOf(leak.loss).part == "loss";
  steps.push_back({placeOf(leak.loss), isOther ? "loss" : "head", row, row});
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
static std::optional<Violation> findViolation(func::FuncOp function,
                                              const DenseMap<Value, Frontier> &frontiers) {
  AffineExpr p = getAffineDimExpr(0, function.getContext());
  for (CrossEntropyOp loss : lossesOf(function)) {
    const Frontier &frontier = frontiers.at(loss.getInput());
    if (frontier.unbounded || !frontier.ends.empty()) {
      return Violation{loss, frontier.unbounded ? frontier.unbounded : loss, true, 0, 0};
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

/// Lengths within which a leak is looked for: all shifts together, and some groups.
static int64_t longestLength(func::FuncOp function) {
  constexpr int64_t most = int64_t{1} << 34;
  Scales scales(function);
  int64_t shifts = 8, coarsest = 1;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      int64_t factor = scales.factorOf(op.getResult(0)); // below 2^31, as shifts are
      coarsest = std::max(coarsest, factor);
      auto flow = dyn_cast<CausalFlowInterface>(op);
      int64_t by = flow ? flow.getShift().value_or(0) : 0;
      shifts = std::min(most, shifts + factor * std::abs(by));
    }
  }
  return std::min(most, 4 * coarsest + 2 * shifts);
}

/// By the bound first, as it says how long a sequence to look at.
static std::optional<FoundLeak> findLeakOf(const ReadPlan &plan, const Violation &violation,
                                           LeakSearch &search) {
  std::optional<FoundLeak> leak;
  if (violation.decided && !violation.unbounded) {
    leak = findLeak(plan, violation.token + 1, violation.row, search);
  }
  // That row may read a null where its bound is too large; a later one then leaks.
  return leak ? leak : findLeak(plan, longestLength(plan.function), violation.row, search);
}

/// The changes that make the model causal as a whole, in their order, and the place of the first.
/// Where these few are not enough, the first, and that it is not.
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
        next = findLeakOf(ReadPlan(mode), *violation, search);
        if (!next) {
          return first; // whether it leaks still is not known
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

static bool isProvedAsItIs(ModuleOp module);

/// The first of some changes, or two of them, after which the model is proved; empty where none
/// are. `place` is then that of the first.
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

/// " where boundaries stand at 0 and 2, those of the next segmentation at 1": in the order of the
/// function.
static std::string describe(const Boundaries &boundaries) {
  std::string text;
  for (const std::vector<int64_t> &ends : boundaries) {
    text += text.empty() ? " where boundaries stand at " : ", those of the next segmentation at ";
    for (size_t i = 0; i < ends.size(); ++i) {
      text += (i == 0 ? "" : i + 1 < ends.size() ? ", " : " and ") + std::to_string(ends[i]);
    }
    text += ends.empty() ? "no position" : "";
  }
  return text;
}

/// Whether segments are on a leak's way: who leaves them reads an op of theirs.
static bool passesSegments(const FoundLeak &leak) {
  return llvm::any_of(llvm::make_first_range(leak.path), [](Value value) {
    return isa_and_nonnull<SegmentsInterface>(value.getDefiningOp());
  });
}

constexpr const char *simplify =
    "give factors and shifts common divisors and masks small constants, or allow more with "
    "--operations";

/// Describes the bound that was not found, or the budget that was exhausted first.
static std::string describeFailure(const CausalVerdict &verdict, const std::string &failure) {
  return verdict.exhausted > 0
             ? "not proved causal: " + WorkBudget::describe(verdict.exhausted) +
                   " were spent, and the bound of what this stage reads is not known yet; " +
                   simplify + ". "
             : "not proved causal: " + failure;
}

/// Returns true where the remedy of an op only explains why it leaks, and no edit repairs it.
static bool hasCauseAlone(Operation *op) {
  OpRemedy own = remedyOf(op);
  return !own.words.empty() && own.attribute.empty();
}

/// By all boundaries of short sequences. The path starts where a row first holds a later token.
static void explainSegments(func::FuncOp function, const Violation &violation, bool replay,
                            CausalVerdict &verdict) {
  Boundaries boundaries;
  int64_t longest = 0;
  std::optional<FoundLeak> leak = findSegmentLeak(function, boundaries, longest);
  if (!leak) {
    CrossEntropyOp loss = violation.loss;
    verdict.place = placeOf(violation.unbounded ? violation.unbounded : loss.getOperation());
    verdict.message =
        describeFailure(verdict, "no bound was found for what this stage reads of "
                                 "segments; let rows read segments that are closed. ") +
        "Whether it leaks is not known either: under all boundaries of up to " +
        std::to_string(longest) + " tokens no row reads a later one";
    return;
  }
  Operation *op = opOfLateRead(Scales(function), *leak);
  verdict.kind = CausalVerdict::Kind::Leak;
  verdict.place = placeOf(op);
  leak->witness.path = stepsOf(*leak);
  if (replay) {
    replaySegments(*leak, boundaries);
  }
  auto module = function->getParentOfType<ModuleOp>();
  std::string remedy;
  bool isCause = hasCauseAlone(op);
  if (isCause) {
    remedy = "; " + remedyOf(op).words; // wherever segments are
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

static void explain(func::FuncOp function, const Violation &violation, bool replay,
                    CausalVerdict &verdict) {
  if (hasSegments(function->getParentOfType<ModuleOp>())) {
    return explainSegments(function, violation, replay, verdict);
  }
  ReadPlan plan(function);
  LeakSearch search;
  std::optional<FoundLeak> leak = findLeakOf(plan, violation, search);
  if (!leak) {
    Operation *op =
        violation.unbounded ? violation.unbounded : CrossEntropyOp(violation.loss).getOperation();
    verdict.kind = CausalVerdict::Kind::NotProved;
    verdict.place = placeOf(op);
    verdict.message = describeFailure(verdict, "no bound was found for what this stage reads; make "
                                               "its mask, shift and factors simpler. ") +
                      "Whether it leaks is not known either: " + search.describe();
    return;
  }
  verdict.kind = CausalVerdict::Kind::Leak;
  preferTarget(plan, *leak);
  if (replay) {
    replayLeak(plan, *leak);
  }
  leak->witness.path = stepsOf(*leak);
  std::string what = describe(*leak);
  bool isCause = hasCauseAlone(opAtFault(*leak));
  verdict.remedy = "; " + findRemedy(function, *leak, verdict.place);
  verdict.message = "not causal: " + what + verdict.remedy;
  verdict.remedy = isCause ? "" : verdict.remedy;
  verdict.witness = std::move(leak->witness);
}

bool sluice::isCausal(func::FuncOp function) {
  return !findViolation(function, computeFrontiers(function));
}

/// Decides every obligation; sets the verdict's message and returns false where one does not hold,
/// or where `limit`, the operations of the check, are spent. The bounds were found by composition,
/// so this is a second judge of every step.
static bool proves(const ModeProof &proof, ObligationDecider &decider, int64_t limit,
                   CausalVerdict &verdict) {
  constexpr int64_t cost = 100; // of one at least
  for (const Obligation &obligation : proof.obligations) {
    Decision decision =
        spendWork(cost) ? decider.decide(proof, obligation) : Decision{Decision::Undecided};
    if (decision.kind == Decision::Holds) {
      ++verdict.obligations;
      continue;
    }
    verdict.refusedMode = proof.mode;
    verdict.place = placeOf(obligation.op);
    verdict.exhausted = decision.kind == Decision::Undecided && isWorkExhausted() ? limit : 0;
    verdict.message =
        verdict.exhausted > 0
            ? "not proved causal: " + WorkBudget::describe(limit) + " were spent when " +
                  std::to_string(verdict.obligations) + " obligations were decided; " + simplify
        : decision.kind == Decision::Vacuous
            ? "not proved causal: this stage reads nothing at all, so that a proof "
              "about it would be empty; give its mask or shift positions to read"
        : decision.kind == Decision::Undecided
            ? "not proved causal: the bound of what this stage reads repeats only after too many "
              "positions to be decided; make its mask, shift and factors simpler"
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

/// Whether the modes that have losses are, without a search for what is wrong. Model IR may write
/// generation in other places, which a change of theirs does not reach.
static bool isProvedAsItIs(ModuleOp module) {
  ObligationDecider decider;
  CausalVerdict verdict;
  for (auto [mode, name] : {std::pair("eval", "evaluate"), std::pair("train", "train")}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (!function || lossesOf(function).empty()) {
      continue;
    }
    DenseMap<Value, Frontier> frontiers = computeFrontiers(function);
    if (findViolation(function, frontiers) ||
        !proves(collectProof(function, mode, frontiers), decider, 0, verdict)) {
      return false;
    }
  }
  return true;
}

/// Proves one mode. What is not proved is searched for a leak, so a proof takes half of the
/// operations that are left.
static bool provesMode(func::FuncOp function, StringRef mode, ObligationDecider &decider,
                       bool replay, CausalVerdict &verdict) {
  WorkBudget &whole = *WorkBudget::getCurrent();
  WorkBudget half(whole.getLeft() / 2);
  std::optional<Violation> violation;
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
  verdict.exhausted = verdict.kind == CausalVerdict::Kind::NotProved ? verdict.exhausted : 0;
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
  }
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
    if (!provesMode(function, mode, decider, replay, verdict)) {
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

CausalVerdict sluice::checkModel(const spec::Model &model, bool replay,
                                 const std::function<void(const CausalVerdict &)> &tell,
                                 int64_t adviceOperations) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::vector<ImportedVariant> variants = importVariants(context, model);
  CausalVerdict verdict = checkCausality(variants, replay);
  verdict.dropRemedy();
  if (tell) {
    tell(verdict);
  }
  findFix(model, verdict);
  if (verdict.isProved()) { // of the coarsest, which needs the largest shift
    spec::Model coarsest = model.withFactor(variants.back().factor);
    findAdvice(*variants.back().module, verdict, {&coarsest, adviceOperations});
  }
  return verdict;
}
