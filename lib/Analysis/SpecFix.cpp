// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every edit of the set is done to the spec's text, which is then read, imported and proved like
// any spec. A pair begins with an edit near the leak's path, and its second edit is near the path
// of the leak that remains.
#include "sluice/Analysis/SpecFix.h"
#include "Advice.h"
#include "SpecEdits.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
using spec::SpecText;

namespace {

/// A refused spec that edits are tried on.
struct Refused {
  /// `leak` is places on the leak's path.
  Refused(const std::string &text, ArrayRef<spec::SourceLocation> leak, int64_t mostShift);
  /// The edits of stages that the leak's path passes, or of `defaults`.
  std::vector<const SpecEdit *> nearPath() const;

  SpecText text;
  std::string source;
  std::vector<SpecEdit> edits;
  llvm::DenseSet<int64_t> path; ///< stages, and those right before and after one
};

/// What orders mended specs: less is better, in this order.
struct FixScore {
  int tier = 0;
  double hidden = 0; ///< tokens that a row never sees, on average
  int edits = 1;
  int64_t delay = 0; ///< change of all shifts together, in tokens
  int kinds = 0;
  int64_t distance = 0;
  size_t order = 0; ///< in which they were found

  bool operator<(const FixScore &other) const {
    return std::tie(tier, hidden, edits, delay, kinds, distance, order) <
           std::tie(other.tier, other.hidden, other.edits, other.delay, other.kinds, other.distance,
                    other.order);
  }
};

struct Mended {
  std::string words, text;
  spec::SourceLocation place;
  FixScore score;
};

/// One search: its context, its budget and what it knows of texts.
class FixSearch {
public:
  FixSearch(const spec::Model &model, const CausalVerdict &verdict, int64_t operations);
  void run(CausalVerdict &result);

private:
  struct Judged {
    bool isProved = false;
    int64_t delay = 0;
    size_t dead = 0;
  };
  std::optional<spec::Model> read(const std::string &text) const;
  /// Places on the path of a leak that short sequences show; empty where none does.
  std::vector<spec::SourceLocation> findLeakOf(const spec::Model &edited);
  /// What became of an edited spec; not proved where the budget is spent.
  const Judged &judge(const std::string &text);
  bool isProved(const std::string &text) { return judge(text).isProved; }
  double hiddenTokens(const std::string &text);
  /// The least number in a range for which `proves`; none where the largest does not.
  static std::optional<int64_t> leastNumber(int64_t least, int64_t most,
                                            llvm::function_ref<bool(int64_t)> proves);
  void trySingles(int tier);
  void tryPairs();
  void tryPairsAfter(const SpecEdit &first);
  void add(const SpecEdit &edit, int64_t number);
  void addPair(const SpecEdit &first, const Refused &rest, size_t second, int64_t a, int64_t b);
  /// The best of what was mended since the last call.
  std::optional<Mended> takeBest();

  const spec::Model &model;
  int64_t operations, tried = 0;
  int64_t floor = 0; ///< operations that are left for what comes after
  MLIRContext context;
  llvm::StringMap<Judged> known;
  Judged original;
  int64_t mostShift = 1;
  std::optional<Refused> base;
  std::vector<Mended> mended;
};

} // namespace

//===----------------------------------------------------------------------===//
// Specs
//===----------------------------------------------------------------------===//

Refused::Refused(const std::string &source, ArrayRef<spec::SourceLocation> leak, int64_t mostShift)
    : text(source), source(source), edits(collectEdits(text, mostShift)) {
  for (const spec::SourceLocation &place : leak) {
    int64_t stage = place.line == 0 ? -1 : text.stageAt(text.offsetOf(place));
    for (int64_t near = stage - 1; stage >= 0 && near <= stage + 1; ++near) {
      path.insert(near);
    }
  }
}

std::vector<const SpecEdit *> Refused::nearPath() const {
  std::vector<const SpecEdit *> near;
  for (const SpecEdit &edit : edits) {
    int64_t stage = text.stageAt(edit.offset);
    bool isLongMove = edit.kind == EditKind::Move && edit.distance > 3;
    if ((stage < 0 || path.contains(stage)) && !isLongMove && edit.tier() == 0) {
      near.push_back(&edit);
    }
  }
  return near;
}

/// Stages that have no op on the way to a loss.
static size_t countDeadStages(func::FuncOp function) {
  llvm::DenseSet<Operation *> live = advice::liveOps(function);
  llvm::StringSet<> all, alive;
  for (Operation &op : function.getBody().front()) {
    StringRef stage = stageNameOf(&op).stage;
    if (!stage.empty()) {
      all.insert(stage);
      if (live.contains(&op)) {
        alive.insert(stage);
      }
    }
  }
  return all.size() - alive.size();
}

/// Tokens by which all shifts together make rows later; a segment counts as one.
static int64_t sumDelays(func::FuncOp function) {
  Scales scales(function);
  int64_t sum = 0;
  for (Operation &op : function.getBody().front()) {
    if (auto shift = dyn_cast<ShiftOp>(op)) {
      sum += scales.factorOf(shift.getResult()) * static_cast<int64_t>(shift.getBy());
    } else if (auto spread = dyn_cast<SpreadSegmentsOp>(op)) {
      sum += static_cast<int64_t>(spread.getBy());
    }
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Judging
//===----------------------------------------------------------------------===//

FixSearch::FixSearch(const spec::Model &model, const CausalVerdict &verdict, int64_t operations)
    : model(model), operations(operations), context(MLIRContext::Threading::DISABLED) {
  constexpr int64_t longest = int64_t{1} << 20;
  std::vector<ImportedVariant> variants = importVariants(context, model);
  if (auto evaluate = variants.back().module->lookupSymbol<func::FuncOp>("evaluate")) {
    mostShift = std::clamp<int64_t>(periodOf(evaluate), 1, longest);
    original.delay = sumDelays(evaluate);
    original.dead = countDeadStages(evaluate);
  }
  std::vector<spec::SourceLocation> leak = {verdict.place};
  if (verdict.witness) {
    for (const CausalStep &step : verdict.witness->path) {
      leak.push_back(step.place);
    }
  }
  base.emplace(model.text, leak, mostShift);
}

std::optional<spec::Model> FixSearch::read(const std::string &text) const {
  spec::Diagnostic ignored;
  return spec::readText(text, model.location.file, ignored);
}

const FixSearch::Judged &FixSearch::judge(const std::string &text) {
  static const Judged unjudged;
  if (auto found = known.find(text); found != known.end()) {
    return found->second;
  }
  if (operations <= floor) {
    return unjudged;
  }
  Judged &judged = known[text];
  std::optional<spec::Model> edited = read(text);
  if (!edited) {
    return judged;
  }
  ++tried;
  std::vector<ImportedVariant> variants = importVariants(context, *edited);
  bool isCausal = true;
  for (const ImportedVariant &variant : variants) {
    for (auto function : ModuleOp(variant.module.get()).getOps<func::FuncOp>()) {
      operations -= static_cast<int64_t>(llvm::range_size(function.getOps()));
      isCausal = isCausal && (lossesOf(function).empty() || sluice::isCausal(function));
    }
  }
  judged.isProved = isCausal && checkCausality(variants, /*replay=*/false).isProved();
  auto evaluate = variants.back().module->lookupSymbol<func::FuncOp>("evaluate");
  if (judged.isProved && evaluate) {
    judged.delay = sumDelays(evaluate);
    judged.dead = countDeadStages(evaluate);
  }
  return judged;
}

/// The leak of the shortest sequences, with as few reads as a choice of edits is worth.
static std::optional<FoundLeak> findShortLeak(func::FuncOp function, int64_t &reads) {
  constexpr int64_t longest = 256, longestGrowing = 16;
  if (hasSegments(function->getParentOfType<ModuleOp>())) {
    Boundaries boundaries;
    int64_t walked = 0;
    reads -= 100'000; // all boundaries of some tokens
    return findSegmentLeak(function, boundaries, walked);
  }
  ReadPlan plan(function);
  std::optional<FoundLeak> leak;
  for (int64_t length = 2; !leak && reads > 0 && length <= longest; length *= 2) {
    leak = findLeakAt(plan, length, /*missing=*/false, 0, &reads);
  }
  for (int64_t length = 1; !leak && reads > 0 && length <= longestGrowing; ++length) {
    leak = findLeakAt(plan, length, /*missing=*/true, 0, &reads);
  }
  return leak;
}

std::vector<spec::SourceLocation> FixSearch::findLeakOf(const spec::Model &edited) {
  constexpr int64_t mostReads = 200'000, readsOfOperation = 50;
  std::vector<ImportedVariant> variants = importVariants(context, edited);
  std::vector<spec::SourceLocation> places;
  int64_t reads = mostReads;
  for (const ImportedVariant &variant : variants) {
    for (auto function : ModuleOp(variant.module.get()).getOps<func::FuncOp>()) {
      operations -= static_cast<int64_t>(llvm::range_size(function.getOps()));
      if (!places.empty() || lossesOf(function).empty() || sluice::isCausal(function)) {
        continue;
      }
      if (std::optional<FoundLeak> leak = findShortLeak(function, reads)) {
        places.push_back(placeOf(leak->loss));
        for (Value value : llvm::make_first_range(leak->path)) {
          if (Operation *op = value.getDefiningOp()) {
            places.push_back(placeOf(op));
          }
        }
      }
    }
  }
  operations -= (mostReads - reads) / readsOfOperation;
  return places;
}

/// Infinite where what rows see makes no pattern.
double FixSearch::hiddenTokens(const std::string &text) {
  std::optional<spec::Model> edited = read(text);
  std::vector<ImportedVariant> variants = importVariants(context, *edited);
  auto evaluate = variants.back().module->lookupSymbol<func::FuncOp>("evaluate");
  BlindPattern pattern = findBlindSpots(mainLossOf(evaluate));
  if (!pattern.repeats) {
    return std::numeric_limits<double>::infinity();
  }
  int64_t hidden = 0;
  for (const BlindPattern::Row &row : pattern.rows) {
    hidden += static_cast<int64_t>(row.farHoles.size());
    for (auto [first, last] : row.holes) {
      hidden += last - first + 1;
    }
  }
  return static_cast<double>(hidden) /
         static_cast<double>(std::max<size_t>(pattern.rows.size(), 1));
}

std::optional<int64_t> FixSearch::leastNumber(int64_t least, int64_t most,
                                              llvm::function_ref<bool(int64_t)> proves) {
  if (proves(least)) {
    return least;
  }
  if (least >= most || !proves(most)) {
    return std::nullopt;
  }
  int64_t low = least, high = most; // `low` is not enough
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (proves(middle) ? high : low) = middle;
  }
  return high;
}

//===----------------------------------------------------------------------===//
// Trying
//===----------------------------------------------------------------------===//

void FixSearch::add(const SpecEdit &edit, int64_t number) {
  std::string text = applyEdits(base->source, edit.apply(number));
  const Judged &judged = judge(text);
  if (edit.tier() > 0 && judged.dead > original.dead) {
    return; // cut off and not mended
  }
  const std::string &file = model.location.file;
  auto locate = [&](size_t offset) { return spec::toString(base->text.locate(offset, file)); };
  mended.push_back({edit.describe(number, locate),
                    text,
                    base->text.locate(edit.offset, file),
                    {edit.tier(), 0, 1, std::abs(judged.delay - original.delay),
                     static_cast<int>(edit.kind), edit.distance, mended.size()}});
}

void FixSearch::trySingles(int tier) {
  for (const SpecEdit &edit : base->edits) {
    if (edit.tier() != tier) {
      continue;
    }
    auto proves = [&](int64_t number) {
      return isProved(applyEdits(base->source, edit.apply(number)));
    };
    if (std::optional<int64_t> number = leastNumber(edit.least, edit.most, proves)) {
      add(edit, *number);
    }
  }
}

void FixSearch::addPair(const SpecEdit &first, const Refused &rest, size_t second, int64_t a,
                        int64_t b) {
  // The least second number for the first one, then the least first number for that.
  auto textOf = [&](int64_t x, int64_t y) -> std::string {
    std::string between = applyEdits(base->source, first.apply(x));
    SpecText text(between);
    std::vector<SpecEdit> edits = collectEdits(text, mostShift);
    if (second >= edits.size() || edits[second].kind != rest.edits[second].kind) {
      return "";
    }
    return applyEdits(between, edits[second].apply(y));
  };
  auto proves = [&](int64_t x, int64_t y) { return isProved(textOf(x, y)); };
  const SpecEdit &other = rest.edits[second];
  std::optional<int64_t> y =
      leastNumber(other.least, b, [&](int64_t number) { return proves(a, number); });
  std::optional<int64_t> x =
      leastNumber(first.least, a, [&](int64_t number) { return proves(number, y.value_or(b)); });
  if (!x || !y) {
    return;
  }
  spec::TextEdits before = first.apply(*x);
  const std::string &file = model.location.file;
  auto locate = [&](size_t offset) { return spec::toString(base->text.locate(offset, file)); };
  auto locateAfter = [&](size_t offset) { return locate(spec::offsetBefore(offset, before)); };
  std::string between = applyEdits(base->source, before);
  SpecText text(between);
  std::vector<SpecEdit> edits = collectEdits(text, mostShift);
  const Judged &judged = judge(textOf(*x, *y));
  mended.push_back(
      {first.describe(*x, locate) + "; then " + edits[second].describe(*y, locateAfter),
       textOf(*x, *y),
       base->text.locate(first.offset, file),
       {std::max(first.tier(), other.tier()), 0, 2, std::abs(judged.delay - original.delay),
        static_cast<int>(first.kind) + static_cast<int>(other.kind),
        first.distance + other.distance, mended.size()}});
}

void FixSearch::tryPairsAfter(const SpecEdit &first) {
  std::string text = applyEdits(base->source, first.apply(first.most));
  std::optional<spec::Model> edited = operations > floor ? read(text) : std::nullopt;
  if (!edited) {
    return;
  }
  std::vector<spec::SourceLocation> leak = findLeakOf(*edited);
  if (leak.empty()) {
    return;
  }
  Refused rest(text, leak, mostShift);
  for (const SpecEdit *second : rest.nearPath()) {
    if (isProved(applyEdits(text, second->apply(second->most)))) {
      addPair(first, rest, static_cast<size_t>(second - rest.edits.data()), first.most,
              second->most);
    }
  }
}

void FixSearch::tryPairs() {
  for (const SpecEdit *first : base->nearPath()) {
    tryPairsAfter(*first);
  }
}

/// What rows see is looked at of the few that are best in all else.
std::optional<Mended> FixSearch::takeBest() {
  constexpr size_t most = 8;
  llvm::sort(mended, [](const Mended &a, const Mended &b) { return a.score < b.score; });
  mended.resize(std::min(mended.size(), most));
  for (Mended &each : mended) {
    each.score.hidden = hiddenTokens(each.text);
  }
  auto found = std::min_element(mended.begin(), mended.end(),
                                [](const Mended &a, const Mended &b) { return a.score < b.score; });
  std::optional<Mended> result = found == mended.end() ? std::nullopt : std::optional(*found);
  mended.clear();
  return result;
}

void FixSearch::run(CausalVerdict &result) {
  trySingles(0);
  std::optional<Mended> found = takeBest();
  if (!found || found->score.hidden > 0) {
    floor = operations / 4;
    tryPairs();
    floor = 0;
    std::optional<Mended> pair = takeBest();
    found = pair && (!found || pair->score < found->score) ? pair : found;
  }
  for (int tier = 1; tier <= 2 && !found; ++tier) {
    trySingles(tier);
    found = takeBest();
  }
  if (found) {
    result.fix = SpecFix{found->words, found->place, found->text, found->score.hidden > 0};
    return;
  }
  result.noFix =
      "no value of a key and no shift or stage that is moved, added or removed, alone or "
      "with a second such edit, makes the spec causal (" +
      std::to_string(tried) + " edited specs were checked" +
      (operations > 0 ? "" : ", as many as a search may") + ")";
}

void sluice::findFix(const spec::Model &model, CausalVerdict &verdict, int64_t operations) {
  if (!verdict.isProved()) {
    WorkBudget budget; // of all edited specs together
    WorkScope scope(budget);
    FixSearch(model, verdict, operations).run(verdict);
  }
}
