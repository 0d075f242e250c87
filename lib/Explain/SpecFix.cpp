// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Applies every edit of the set to the spec's text, which is then parsed, imported and checked like
// any spec: first by the bounds of its losses, which is fast; only the best edit is checked by the
// whole proof. A pair begins with an edit near the leak's path that ends this leak; its second edit
// is near the path of the leak that remains.
#include "sluice/Explain/SpecFix.h"
#include "AdviceShifts.h"
#include "SpecEdits.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Explain/BlindSpots.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/ReadWalk.h"
#include "sluice/Explain/SegmentWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/ProveModel.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/SegmentBounds.h"
#include "sluice/Support/WorkBudget.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
using spec::SpecText;

namespace {

/// A rejected spec on which edits are tried.
struct Refused {
  /// Takes in `leak` the locations on the leak's path.
  Refused(const std::string &text, ArrayRef<spec::SourceLocation> leak, int64_t mostShift);
  /// Returns the edits of stages on the leak's path, or of `defaults`, with edits of keys first.
  std::vector<const SpecEdit *> nearPath() const;

  SpecText text;
  std::string source;
  std::vector<SpecEdit> edits;
  llvm::DenseSet<int64_t> path; ///< indices of the stages on the path and of their neighbors
};

/// Rank of a repaired spec: smaller is better, compared field by field in order.
struct FixScore {
  int tier = 0;
  double hidden = 0; ///< average number of tokens that a row never sees
  int edits = 1;
  int64_t delay = 0; ///< change of the sum of all shifts, in tokens
  int kinds = 0;
  int64_t distance = 0;
  size_t order = 0; ///< order of discovery

  bool operator<(const FixScore &other) const {
    return std::tie(tier, hidden, edits, delay, kinds, distance, order) <
           std::tie(other.tier, other.hidden, other.edits, other.delay, other.kinds, other.distance,
                    other.order);
  }
};

/// An edited spec whose losses read no later token.
struct Mended {
  std::string words, text;
  spec::SourceLocation place;
  FixScore score;
  /// Adds the same edits with numbers that are proved; empty if the numbers of these edits are
  /// proved.
  std::function<void()> retry;
  bool isMeasured = false; ///< `score.hidden` is known
};

/// One search: its context, its budget, and the texts that were checked.
class FixSearch {
public:
  FixSearch(const ParsedSpec &refused, const CausalVerdict &verdict, int64_t operations);
  void run(CausalVerdict &result);

private:
  struct Judged {
    bool isCausal = false;        ///< causal by the bounds of its losses
    std::optional<bool> isProved; ///< unset if not tried
    int64_t delay = 0;
    size_t dead = 0;
  };
  /// Locations on the path of a leak, as offsets in the text of the rejected spec.
  using LeakPath = std::vector<size_t>;

  /// Returns true if only the operations that later parts of the search need are left.
  bool isOver();
  std::optional<ParsedSpec> read(const std::string &text);
  std::vector<ImportedVariant> import(const ParsedSpec &edited);
  /// Returns the locations on the path of a leak of short sequences; empty if there is no such
  /// leak.
  std::vector<spec::SourceLocation> findLeakPath(const ParsedSpec &edited);
  LeakPath locate(const std::vector<spec::SourceLocation> &leak, const SpecText &text,
                  const spec::TextEdits &edits) const;
  /// Returns the verdict of an edited spec; not causal if the budget is exhausted.
  Judged &judge(const std::string &text);
  bool isProved(const std::string &text);
  bool isMended(const std::string &text, bool isStrict) {
    return judge(text).isCausal && (!isStrict || isProved(text));
  }
  double hiddenTokens(const std::string &text);
  /// Returns the smallest number in a range for which `proves` holds; none if it fails for the
  /// largest.
  static std::optional<int64_t> leastNumber(int64_t least, int64_t most,
                                            llvm::function_ref<bool(int64_t)> proves);
  void trySingles(int tier);
  void trySingle(const SpecEdit &edit, bool isStrict);
  void tryPairs();
  void tryPairsAfter(const SpecEdit &first);
  void tryPair(const SpecEdit &first, std::shared_ptr<const Refused> rest, size_t second,
               bool isStrict);
  /// Returns the best proved spec among those repaired since the last call.
  std::optional<Mended> takeBest();
  size_t chooseBest();

  const ParsedSpec &refused;
  WorkBudget budget; ///< shared by all edited specs
  WorkScope scope;
  int64_t tried = 0,
          floor = 0;      ///< `floor`: operations reserved for later parts
  bool isStopped = false; ///< true if some edit was not tried
  MLIRContext context;
  llvm::StringMap<Judged> known;
  Judged original;
  int64_t mostShift = 1;
  std::optional<Refused> base;
  LeakPath baseLeak;
  std::vector<Mended> mended;
};

} // namespace

//===----------------------------------------------------------------------===//
// Specs
//===----------------------------------------------------------------------===//

Refused::Refused(const std::string &source, ArrayRef<spec::SourceLocation> leak, int64_t mostShift)
    : text(source), source(source), edits(collectEdits(text, mostShift)) {
  for (const spec::SourceLocation &place : leak) {
    int64_t stage = place.line == 0 ? -1 : text.stageAt(text.getOffsetAt(place));
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
  llvm::sort(near, [](const SpecEdit *a, const SpecEdit *b) {
    return std::tie(a->kind, a) < std::tie(b->kind, b);
  });
  return near;
}

/// Counts stages none of whose ops is on a path to a loss.
static size_t countDeadStages(func::FuncOp function) {
  llvm::DenseSet<Operation *> live = advice::liveOps(function);
  llvm::StringSet<> all, alive;
  for (Operation &op : function.getBody().front()) {
    StringRef stage = getOriginStage(&op);
    if (!stage.empty()) {
      all.insert(stage);
      if (live.contains(&op)) {
        alive.insert(stage);
      }
    }
  }
  return all.size() - alive.size();
}

/// Returns the sum of the delays of all shifts in tokens; a segment counts as one token. A stage
/// with several keys and values spreads segments once for each of them, with one number.
static int64_t sumDelays(func::FuncOp function) {
  Scales scales(function);
  // Locations and segments that are already counted.
  llvm::DenseSet<std::pair<Attribute, Value>> spread;
  int64_t sum = 0;
  for (Operation &op : function.getBody().front()) {
    if (auto shift = dyn_cast<ShiftOp>(op)) {
      sum += scales.getScaleFactor(shift.getResult()) * static_cast<int64_t>(shift.getBy());
    } else if (auto late = dyn_cast<SpreadSegmentsOp>(op);
               late &&
               spread.insert({late->getLoc()->findInstanceOf<FileLineColLoc>(), late.getEnds()})
                   .second) {
      sum += static_cast<int64_t>(late.getBy());
    }
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Judging
//===----------------------------------------------------------------------===//

FixSearch::FixSearch(const ParsedSpec &refused, const CausalVerdict &verdict, int64_t operations)
    : refused(refused), budget(operations), scope(budget),
      context(MLIRContext::Threading::DISABLED) {
  constexpr int64_t longest = int64_t{1} << 20;
  std::vector<ImportedVariant> variants = import(*read(refused.text));
  if (auto evaluate = variants.back().module->lookupSymbol<func::FuncOp>("evaluate")) {
    mostShift = std::clamp<int64_t>(computePeriod(evaluate), 1, longest);
    original.delay = sumDelays(evaluate);
    original.dead = countDeadStages(evaluate);
  }
  std::vector<spec::SourceLocation> leak = {verdict.place};
  if (verdict.witness) {
    for (const CausalStep &step : verdict.witness->path) {
      leak.push_back(step.place);
    }
  }
  base.emplace(refused.text, leak, mostShift);
}

bool FixSearch::isOver() {
  bool isOver = budget.getLeft() <= floor;
  isStopped |= isOver;
  return isOver;
}

std::optional<ParsedSpec> FixSearch::read(const std::string &text) {
  spec::Diagnostic ignored;
  return parseSpec(context, text, refused.file, ignored);
}

std::vector<ImportedVariant> FixSearch::import(const ParsedSpec &edited) {
  // Cost of reading, expanding, importing and bounding an op, in microseconds.
  constexpr int64_t costOfOp = 100;
  std::vector<ImportedVariant> variants = importVariants(edited);
  for (const ImportedVariant &variant : variants) {
    for (auto function : ModuleOp(variant.module.get()).getOps<func::FuncOp>()) {
      spendWork(costOfOp * static_cast<int64_t>(llvm::range_size(function.getOps())));
    }
  }
  return variants;
}

FixSearch::Judged &FixSearch::judge(const std::string &text) {
  static Judged unjudged;
  if (auto found = known.find(text); found != known.end()) {
    return found->second;
  }
  if (isOver()) {
    return unjudged = Judged();
  }
  Judged &judged = known[text];
  std::optional<ParsedSpec> edited = read(text);
  if (!edited) {
    return judged;
  }
  ++tried;
  std::vector<ImportedVariant> variants = import(*edited);
  judged.isCausal = llvm::all_of(variants, [](const ImportedVariant &variant) {
    auto functions = ModuleOp(variant.module.get()).getOps<func::FuncOp>();
    return llvm::all_of(functions, [](func::FuncOp function) {
      return getLossOps(function).empty() || sluice::isCausal(function);
    });
  });
  auto evaluate = variants.back().module->lookupSymbol<func::FuncOp>("evaluate");
  if (judged.isCausal && evaluate) {
    judged.delay = sumDelays(evaluate);
    judged.dead = countDeadStages(evaluate);
  }
  return judged;
}

bool FixSearch::isProved(const std::string &text) {
  Judged &judged = judge(text);
  if (judged.isCausal && !judged.isProved && !isOver()) {
    judged.isProved = checkCausality(import(*read(text)), /*replay=*/false).isProved();
  }
  return judged.isProved.value_or(false);
}

/// Finds the leak of the shortest sequences, with a limit on reads that is low enough for many
/// edits.
static std::optional<FoundLeak> findShortLeak(func::FuncOp function, int64_t &reads) {
  constexpr int64_t longest = 256, longestGrowing = 16;
  if (hasSegments(function->getParentOfType<ModuleOp>())) {
    Boundaries boundaries;
    int64_t walked = 0;
    reads -= 100'000; // all boundaries of short sequences
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

std::vector<spec::SourceLocation> FixSearch::findLeakPath(const ParsedSpec &edited) {
  constexpr int64_t mostReads = 200'000;
  std::vector<ImportedVariant> variants = import(edited);
  std::vector<spec::SourceLocation> places;
  int64_t reads = mostReads;
  for (const ImportedVariant &variant : variants) {
    for (auto function : ModuleOp(variant.module.get()).getOps<func::FuncOp>()) {
      if (!places.empty() || getLossOps(function).empty() || sluice::isCausal(function)) {
        continue;
      }
      if (std::optional<FoundLeak> leak = findShortLeak(function, reads)) {
        places.push_back(getOpLocation(leak->loss));
        for (Value value : llvm::make_first_range(leak->path)) {
          if (Operation *op = value.getDefiningOp()) {
            places.push_back(getOpLocation(op));
          }
        }
      }
    }
  }
  spendWork(mostReads - reads);
  return places;
}

FixSearch::LeakPath FixSearch::locate(const std::vector<spec::SourceLocation> &leak,
                                      const SpecText &text, const spec::TextEdits &edits) const {
  LeakPath path;
  for (const spec::SourceLocation &place : leak) {
    path.push_back(spec::offsetBefore(text.getOffsetAt(place), edits));
  }
  return path;
}

/// Returns the average number of hidden tokens per row; infinity if the visible tokens have no
/// pattern.
double FixSearch::hiddenTokens(const std::string &text) {
  std::optional<ParsedSpec> edited = read(text);
  std::vector<ImportedVariant> variants = importVariants(*edited);
  auto evaluate = variants.back().module->lookupSymbol<func::FuncOp>("evaluate");
  BlindPattern pattern = findBlindSpots(getMainLoss(evaluate));
  if (!pattern.repeats) {
    return std::numeric_limits<double>::infinity();
  }
  int64_t hidden = 0;
  for (const BlindPattern::BlindRow &row : pattern.rows) {
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
  int64_t low = least, high = most; // `low` is known to be insufficient
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (proves(middle) ? high : low) = middle;
  }
  return high;
}

//===----------------------------------------------------------------------===//
// Trying
//===----------------------------------------------------------------------===//

void FixSearch::trySingle(const SpecEdit &edit, bool isStrict) {
  auto applyTwoEdits = [&](int64_t number) { return applyEdits(base->source, edit.apply(number)); };
  std::optional<int64_t> number = leastNumber(
      edit.least, edit.most, [&](int64_t n) { return isMended(applyTwoEdits(n), isStrict); });
  if (!number) {
    return;
  }
  std::string text = applyTwoEdits(*number);
  const Judged &judged = judge(text);
  if (edit.tier() > 0 && judged.dead > original.dead) {
    return; // the edit cut stages off instead of repairing the leak
  }
  const std::string &file = refused.file;
  auto locate = [&](size_t offset) { return spec::toString(base->text.locate(offset, file)); };
  std::function<void()> retry = [this, &edit] { trySingle(edit, /*isStrict=*/true); };
  mended.push_back({edit.describe(*number, locate),
                    text,
                    base->text.locate(edit.offset, file),
                    {edit.tier(), 0, 1, std::abs(judged.delay - original.delay),
                     static_cast<int>(edit.kind), edit.distance, mended.size()},
                    isStrict ? nullptr : retry});
}

void FixSearch::trySingles(int tier) {
  for (const SpecEdit &edit : base->edits) {
    if (edit.tier() == tier && !isOver()) {
      trySingle(edit, /*isStrict=*/false);
    }
  }
}

void FixSearch::tryPair(const SpecEdit &first, std::shared_ptr<const Refused> rest, size_t second,
                        bool isStrict) {
  // Finds the smallest second number for the first one, then the smallest first number for that
  // second number.
  auto applyTwoEdits = [&](int64_t x, int64_t y) -> std::string {
    std::string between = applyEdits(base->source, first.apply(x));
    SpecText text(between);
    std::vector<SpecEdit> edits = collectEdits(text, mostShift);
    if (second >= edits.size() || edits[second].kind != rest->edits[second].kind) {
      return "";
    }
    return applyEdits(between, edits[second].apply(y));
  };
  auto proves = [&](int64_t x, int64_t y) { return isMended(applyTwoEdits(x, y), isStrict); };
  const SpecEdit &other = rest->edits[second];
  std::optional<int64_t> y = leastNumber(
      other.least, other.most, [&](int64_t number) { return proves(first.most, number); });
  std::optional<int64_t> x = leastNumber(first.least, first.most, [&](int64_t number) {
    return proves(number, y.value_or(other.most));
  });
  if (!x || !y) {
    return;
  }
  spec::TextEdits before = first.apply(*x);
  const std::string &file = refused.file;
  auto locate = [&](size_t offset) { return spec::toString(base->text.locate(offset, file)); };
  auto locateAfter = [&](size_t offset) { return locate(spec::offsetBefore(offset, before)); };
  std::string between = applyEdits(base->source, before);
  SpecText text(between);
  std::vector<SpecEdit> edits = collectEdits(text, mostShift);
  const Judged &judged = judge(applyTwoEdits(*x, *y));
  std::function<void()> retry = [this, &first, rest, second] {
    tryPair(first, rest, second, /*isStrict=*/true);
  };
  mended.push_back(
      {first.describe(*x, locate) + "; then " + edits[second].describe(*y, locateAfter),
       applyTwoEdits(*x, *y),
       base->text.locate(first.offset, file),
       {std::max(first.tier(), other.tier()), 0, 2, std::abs(judged.delay - original.delay),
        static_cast<int>(first.kind) + static_cast<int>(other.kind),
        first.distance + other.distance, mended.size()},
       isStrict ? nullptr : retry});
}

/// Tries pairs whose first edit is `first`: one edit of a pair must end the spec's own leak, and
/// can be chosen as the first.
void FixSearch::tryPairsAfter(const SpecEdit &first) {
  if (isOver()) {
    return;
  }
  spec::TextEdits edits = first.apply(first.most);
  std::string text = applyEdits(base->source, edits);
  std::optional<ParsedSpec> edited = read(text);
  if (!edited) {
    return;
  }
  std::vector<spec::SourceLocation> leak = findLeakPath(*edited);
  auto rest = std::make_shared<const Refused>(text, leak, mostShift);
  if (leak.empty() || locate(leak, rest->text, edits) == baseLeak) {
    return;
  }
  for (const SpecEdit *second : rest->nearPath()) {
    if (!isOver() && judge(applyEdits(text, second->apply(second->most))).isCausal) {
      tryPair(first, rest, static_cast<size_t>(second - rest->edits.data()),
              /*isStrict=*/false);
    }
  }
}

void FixSearch::tryPairs() {
  baseLeak = locate(findLeakPath(*read(refused.text)), base->text, {});
  for (const SpecEdit *first : base->nearPath()) {
    tryPairsAfter(*first);
  }
}

/// Chooses the best repaired spec. Computes hidden tokens only for the few specs that are best in
/// all other fields, until one hides no token.
size_t FixSearch::chooseBest() {
  constexpr size_t most = 8;
  llvm::sort(mended, [](const Mended &a, const Mended &b) { return a.score < b.score; });
  size_t best = 0;
  for (size_t i = 0; i < std::min(mended.size(), most); ++i) {
    if (!mended[i].isMeasured) {
      mended[i].score.hidden = hiddenTokens(mended[i].text);
      mended[i].isMeasured = true;
    }
    best = mended[i].score < mended[best].score ? i : best;
    if (mended[best].score.hidden == 0) {
      break;
    }
  }
  return best;
}

std::optional<Mended> FixSearch::takeBest() {
  std::optional<Mended> result;
  while (!mended.empty() && !result) {
    size_t best = chooseBest();
    Mended chosen = std::move(mended[best]);
    mended.erase(mended.begin() + static_cast<std::ptrdiff_t>(best));
    if (isProved(chosen.text)) {
      result = std::move(chosen);
    } else if (chosen.retry) {
      chosen.retry();
    }
  }
  mended.clear();
  return result;
}

void FixSearch::run(CausalVerdict &result) {
  const int64_t quarter = budget.getLimit() / 4;
  auto search = [&](int64_t reserve, llvm::function_ref<void()> tryAll) {
    floor = reserve;
    tryAll();
    floor = 0;
    return takeBest();
  };
  std::optional<Mended> found = search(quarter, [&] { trySingles(0); });
  if (!found || found->score.hidden > 0) {
    std::optional<Mended> pair = search(quarter, [&] { tryPairs(); });
    found = pair && (!found || pair->score < found->score) ? pair : found;
  }
  for (int tier = 1; tier <= 2 && !found; ++tier) {
    found = search(quarter / 2, [&] { trySingles(tier); });
  }
  if (found) {
    result.fix = SpecFix{found->words, found->place, found->text, found->score.hidden > 0};
    return;
  }
  std::string count = " (" + std::to_string(tried) +
                      (tried == 1 ? " edited spec was checked" : " edited specs were checked");
  result.noFix = isStopped ? "none of the edits tried makes the spec causal" + count +
                                 ", as many as a search may)"
                           : "no value of a key and no shift or stage that is moved, "
                             "added or removed, "
                             "alone or with a second such edit, makes the spec causal" +
                                 count + ")";
}

void sluice::findFix(const ParsedSpec &spec, CausalVerdict &verdict, int64_t operations) {
  if (!verdict.isProved()) {
    FixSearch(spec, verdict, operations).run(verdict);
  }
}
