// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a causal model can do better: shifts that delay for nothing, tokens that no row sees, stages
// that no loss reads. Remedies are tried before they are named.
#include "Revision.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>
#include <ctime>

using namespace mlir;
using namespace sluice;
using Kind = CausalWarning::Kind;

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

namespace {
/// Processor time for one module's advice. Looked at between steps, of which each is short.
class Clock {
public:
  explicit Clock(double seconds) : seconds(seconds), start(std::clock()) {}
  bool isOver() const {
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC > seconds;
  }
  double seconds;

private:
  std::clock_t start;
};
} // namespace

static std::string count(int64_t n, const std::string &what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

static void noteUnfinished(Operation *place, const Clock &clock, const std::string &what,
                           CausalVerdict &verdict) {
  verdict.notes.push_back({Kind::Unfinished, placeOf(place),
                           "advice stopped after " + std::to_string(std::lround(clock.seconds)) +
                               " s of processor time: " + what});
}

//===----------------------------------------------------------------------===//
// Waste
//===----------------------------------------------------------------------===//

namespace {
/// The shifts that one key of the spec sets: of one stage, of every level of an hourglass, in each
/// mode that is trained or evaluated.
struct ShiftKey {
  SmallVector<ShiftOp, 2> ops;
  SmallVector<int64_t, 2> by; ///< of each
  int64_t least = 0;
  size_t levels = 0; ///< that it sets in one mode

  void set(int64_t value) {
    for (ShiftOp op : ops) {
      op.setBy(static_cast<uint64_t>(value));
    }
  }
  void restore() {
    for (auto [op, value] : llvm::zip_equal(ops, by)) {
      op.setBy(static_cast<uint64_t>(value));
    }
  }
  /// Levels that shift by different values are each shifted as they need; one value for all would
  /// be no advice.
  bool isOneValue() const { return llvm::all_equal(by) && by.front() >= 0; }
};

/// The shifts of a module's modes, and what is causal with other values.
class Shifts {
public:
  explicit Shifts(ModuleOp module);
  /// Lowers one key after the other, the last in the model first, as far as the model stays causal.
  /// Returns how many were tried in the time.
  size_t lower(const Clock &clock);
  void restore() {
    for (ShiftKey &key : keys) {
      key.restore();
    }
  }
  /// Leaves the keys lowered that, alone and with all others that are, leave a model that is proved
  /// as a whole. Returns how many were judged in the time; the others are not lowered.
  size_t confirm(ModuleOp module, const spec::Model *model, const Clock &clock);

  std::vector<ShiftKey> keys; ///< in the order of the model

private:
  bool isCausal() {
    return llvm::all_of(modes, [](func::FuncOp mode) { return sluice::isCausal(mode); });
  }
  SmallVector<func::FuncOp, 2> modes;
};
} // namespace

/// Ops that are read on the way to a loss.
static llvm::DenseSet<Operation *> liveOps(func::FuncOp function) {
  llvm::DenseSet<Operation *> live;
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (isa<CrossEntropyOp>(op) ||
        llvm::any_of(op.getUsers(), [&](Operation *user) { return live.contains(user); })) {
      live.insert(&op);
    }
  }
  return live;
}

Shifts::Shifts(ModuleOp module) {
  llvm::MapVector<Attribute, ShiftKey> byPlace;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (lossesOf(function).empty()) {
      continue;
    }
    modes.push_back(function);
    size_t number = 0;
    llvm::DenseSet<Operation *> live = liveOps(function);
    for (auto op : function.getOps<ShiftOp>()) {
      if (!live.contains(op)) { // warned of as a dead stage
        continue;
      }
      auto place = op->getLoc()->findInstanceOf<FileLineColLoc>();
      // IR without places: the n-th shift of each function.
      Attribute name = place ? Attribute(place)
                             : Attribute(IntegerAttr::get(IndexType::get(op.getContext()),
                                                          static_cast<int64_t>(number)));
      ShiftKey &key = byPlace[name];
      key.ops.push_back(op);
      key.by.push_back(static_cast<int64_t>(op.getBy()));
      key.levels += modes.size() == 1;
      ++number;
    }
  }
  for (auto &[place, key] : byPlace) {
    key.least = key.by.front();
    keys.push_back(std::move(key));
  }
}

/// Lower values read later tokens, so the causal values of one shift are all from the least on.
/// Most shifts are the least ones, so the next lower value is tried first.
size_t Shifts::lower(const Clock &clock) {
  size_t tried = 0;
  for (ShiftKey &key : llvm::reverse(keys)) {
    if (clock.isOver()) {
      return tried;
    }
    ++tried;
    if (!key.isOneValue()) {
      continue;
    }
    int64_t low = -1, high = key.by.front(); // -1: not tried, a negative shift looks ahead
    for (int64_t middle = high - 1; high - low > 1; middle = low + (high - low) / 2) {
      key.set(middle);
      (isCausal() ? high : low) = middle;
      if (high < key.by.front() && clock.isOver()) {
        break; // causal, if not the least
      }
    }
    key.least = high;
    key.set(high);
    if (high == key.by.front()) {
      key.restore();
    }
  }
  return tried;
}

static bool provesWith(ModuleOp module, const spec::Model *model, ArrayRef<ShiftKey *> changes) {
  if (!model) { // the module's other shifts are as they were
    for (ShiftKey *key : changes) {
      key->set(key->least);
    }
    bool proved = checkCausality(module, /*replay=*/false).isProved();
    for (ShiftKey *key : changes) {
      key->restore();
    }
    return proved;
  }
  Revision revision(*model);
  return llvm::all_of(changes,
                      [&](ShiftKey *key) {
                        return revision.setShift(placeOf(key->ops.front()), key->least);
                      }) &&
         revision.isProved();
}

size_t Shifts::confirm(ModuleOp module, const spec::Model *model, const Clock &clock) {
  restore();
  size_t judged = 0;
  SmallVector<ShiftKey *> accepted;
  for (ShiftKey &key : llvm::reverse(keys)) {
    if (key.least == key.by.front()) {
      continue;
    }
    bool inTime = !clock.isOver();
    judged += inTime;
    SmallVector<ShiftKey *> all = accepted;
    all.push_back(&key);
    if (inTime && provesWith(module, model, {&key}) &&
        (accepted.empty() || provesWith(module, model, all))) {
      accepted = all;
    } else {
      key.least = key.by.front();
    }
  }
  for (ShiftKey *key : accepted) {
    key->set(key->least);
  }
  return judged;
}

/// Tokens, or on segments these, by which what is read through all levels of a key is late: a
/// position of a level is as many as its factor.
static int64_t delayOf(const ShiftKey &key) {
  int64_t tokens = 0;
  for (ShiftOp op : ArrayRef(key.ops).take_front(key.levels)) { // those of the first mode
    tokens += getFactor(op, cast<SequenceType>(op.getResult().getType()));
  }
  return tokens * (key.by.front() - key.least);
}

/// Least values hold together: which other shifts are lowered is said, where there are any.
static void warnOfWaste(const Shifts &shifts, CausalVerdict &verdict) {
  bool areSeveral = llvm::count_if(shifts.keys, [](const ShiftKey &key) {
                      return key.least < key.by.front();
                    }) > 1;
  std::string together = areSeveral ? ", with the others that are named at their least" : "";
  for (const ShiftKey &key : shifts.keys) {
    int64_t by = key.by.front();
    if (key.least >= by) {
      continue;
    }
    ShiftOp op = key.ops.front();
    bool isOnSegments = Scales(op->getParentOfType<func::FuncOp>()).isSegmented(op.getResult());
    std::string least = key.least == 0 ? "none is needed to be causal"
                                       : std::to_string(key.least) + " is enough to be causal";
    std::string all =
        key.levels > 1
            ? " (it is set for " + count(static_cast<int64_t>(key.levels), "level") + " at once)"
            : "";
    verdict.warnings.push_back({Kind::Waste, placeOf(op),
                                "a shift by " + std::to_string(by) + " where " + least + together +
                                    all + "; with the least one, all that is read through " +
                                    (key.levels > 1 ? "all of them" : "it") + " is " +
                                    count(delayOf(key), isOnSegments ? "segment" : "token") +
                                    " newer"});
  }
}

/// Leaves needless shifts lowered; returns whether there are any.
static bool lowerShifts(Shifts &shifts, ModuleOp module, const AdviceRequest &request,
                        const Clock &clock, CausalVerdict &verdict) {
  auto all = static_cast<int64_t>(shifts.keys.size());
  auto tried = static_cast<int64_t>(shifts.lower(clock));
  int64_t lowered =
      llvm::count_if(shifts.keys, [](const ShiftKey &key) { return key.least < key.by.front(); });
  auto judged = static_cast<int64_t>(shifts.confirm(module, request.model, clock));
  warnOfWaste(shifts, verdict);
  if (tried < all || judged < lowered) {
    Operation *place = ShiftOp(shifts.keys.front().ops.front());
    noteUnfinished(place, clock,
                   "of " + count(all, "shift") + " the last " + std::to_string(tried) +
                       " were tried with smaller values" +
                       (judged < lowered
                            ? ", and of " + std::to_string(lowered) + " that could be smaller " +
                                  std::to_string(judged) + " were proved so"
                            : ""),
                   verdict);
  }
  return llvm::any_of(shifts.keys, [](const ShiftKey &key) { return key.least < key.by.front(); });
}

//===----------------------------------------------------------------------===//
// Stages that no loss reads
//===----------------------------------------------------------------------===//

static bool isSequence(Operation &op) {
  return op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType());
}

/// A stage is dead where none of its ops is read on the way to a loss. The last of a chain of dead
/// stages is named.
static void warnOfDeadStages(func::FuncOp function, CausalVerdict &verdict) {
  llvm::DenseSet<Operation *> live = liveOps(function);
  llvm::MapVector<Location, SmallVector<Operation *>> stages;
  llvm::StringSet<> trained; // stages with weights
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (isSequence(op)) {
      stages[op.getLoc()].push_back(&op);
    }
    if (llvm::any_of(op.getOperands(), [](Value v) { return v.getDefiningOp<ReadOp>(); })) {
      trained.insert(stageNameOf(&op).stage);
    }
  }
  for (auto &[location, ops] : stages) {
    if (llvm::any_of(ops, [&](Operation *op) { return live.contains(op); })) {
      continue;
    }
    bool isLast = llvm::all_of(ops, [&](Operation *op) {
      return llvm::all_of(op->getUsers(),
                          [&](Operation *user) { return user->getLoc() == location; });
    });
    if (isLast) {
      bool hasWeights = trained.contains(stageNameOf(ops.front()).stage);
      verdict.warnings.push_back({Kind::DeadStage, placeOf(ops.front()),
                                  std::string("this stage's result reaches no loss") +
                                      (hasWeights ? ", so its weights are never trained" : "") +
                                      "; read it in a later stage, or remove it"});
    }
  }
}

//===----------------------------------------------------------------------===//
// Blind spots
//===----------------------------------------------------------------------===//

/// The mask from its lower bounds up to the row's own place; nothing where it is not a plain
/// window.
static std::optional<IntegerSet> upToOwn(AttentionOp op) {
  MaskBounds bounds = solveMask(op.getMask());
  if (!bounds.exact || !bounds.conditions.empty()) {
    return std::nullopt;
  }
  AffineExpr q = getAffineDimExpr(1, op.getContext());
  SmallVector<AffineExpr> constraints(causalMask(op.getContext(), scalesOf(op)).getConstraints());
  for (AffineExpr lower : bounds.lower) {
    constraints.push_back(q - lower);
  }
  return IntegerSet::get(2, 1, constraints, SmallVector<bool>(constraints.size(), false));
}

/// The first attention whose window, were it to end at the row itself, would leave no hole.
static Operation *windowAtFault(CrossEntropyOp loss, const Clock &clock) {
  constexpr int mostTries = 16;
  int tries = 0;
  auto module = loss->getParentOfType<ModuleOp>();
  for (auto op : loss->getParentOfType<func::FuncOp>().getOps<AttentionOp>()) {
    IntegerSet mask = op.getMask();
    std::optional<IntegerSet> wider = upToOwn(op);
    AffineExpr latest = op.getLatest(1);
    bool endsAtOwn = latest == solveMask(causalMask(op.getContext(), scalesOf(op))).upper.front();
    if (!wider || !latest || endsAtOwn || ++tries > mostTries || clock.isOver()) {
      continue;
    }
    op.setMask(*wider);
    bool mends =
        checkCausality(module, /*replay=*/false).isProved() && !findBlindSpots(loss).hasHoles();
    op.setMask(mask);
    if (mends) {
      return op;
    }
  }
  return nullptr;
}

/// The same of a spec: a mask may stand in one place for many layers. The first stage of those.
static const spec::Stage *windowAtFault(const spec::Model &model, const Clock &clock) {
  constexpr size_t mostTries = 16;
  std::vector<spec::SourceLocation> tried;
  for (const spec::Stage &stage : model.stages) {
    const spec::SourceLocation &place = stage.at("mask");
    const auto *layer = std::get_if<spec::Layer>(&stage.settings);
    const auto *layers = std::get_if<spec::Layers>(&stage.settings);
    const auto *hourglass = std::get_if<spec::Hourglass>(&stage.settings);
    const auto *topDown = std::get_if<spec::TopDown>(&stage.settings);
    const spec::Layer *settings = layer       ? layer
                                  : layers    ? &layers->layer
                                  : hourglass ? &hourglass->layer
                                  : topDown   ? &topDown->layer
                                              : nullptr;
    bool isKnown = llvm::any_of(tried, [&](const spec::SourceLocation &other) {
      return std::tie(other.line, other.column) == std::tie(place.line, place.column);
    });
    if (!settings || settings->mask.kind != spec::MaskKind::Window || settings->mask.begin <= 0 ||
        isKnown || tried.size() == mostTries || clock.isOver()) {
      continue;
    }
    tried.push_back(place);
    Revision revision(model);
    revision.beginWindowsAtZero(place);
    if (revision.seesAll()) {
      return &stage;
    }
  }
  return nullptr;
}

/// Whether a causal layer in front of the head would leave no hole: row t then sees all that the
/// rows before it see.
static bool layerMends(const BlindPattern &pattern) {
  int64_t period = pattern.period;
  for (int64_t row = 0; row < period; ++row) {
    for (auto [first, last] : pattern.rows[static_cast<size_t>(row)].holes) {
      for (int64_t token = first; token <= last; ++token) {
        bool seen = false;
        // Of the rows from the token on; holes of earlier periods are the same, moved.
        for (int64_t other = row; !seen && other >= token; --other) {
          int64_t residue = ((other % period) + period) % period;
          int64_t offset = token - (other - residue);
          const BlindPattern::Row &holes = pattern.rows[static_cast<size_t>(residue)];
          seen = (holes.oldest < 0 || other - token <= holes.oldest) &&
                 llvm::none_of(holes.holes, [&](auto hole) {
                   return hole.first <= offset && offset <= hole.second;
                 });
        }
        if (!seen) {
          return false;
        }
      }
    }
  }
  return llvm::all_of(pattern.rows, [](auto &row) { return row.farHoles.empty(); });
}

/// The last op of a kind that the loss reads through, the nearest to it.
template <typename... Ops> static Operation *lastBefore(CrossEntropyOp loss) {
  SmallVector<Operation *> open = {loss};
  llvm::DenseSet<Operation *> known;
  Operation *last = nullptr;
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    if (isa<Ops...>(op) && (!last || last->isBeforeInBlock(op))) {
      last = op;
    }
    for (Value operand : op->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (definition && isa<SequenceType>(operand.getType()) && known.insert(definition).second) {
        open.push_back(definition);
      }
    }
  }
  return last;
}

namespace {
struct Remedy {
  spec::SourceLocation place;
  std::string text; ///< "; put a layer ..."; empty where none is known to mend it
};
} // namespace

/// Where to put a layer, tried on the spec in the order of how little they change.
static std::string layerFor(const spec::Model &model, StringRef upsampling, const Clock &clock) {
  const std::string fine = "put a layer of the finest scale after this upsampling (a hierarchy's "
                           "last count at least 1)";
  const std::string both =
      "add a stream of the finest scale after this upsampling, then put a layer there";
  auto mends = [&](auto change) {
    Revision revision(model);
    return !clock.isOver() && change(revision) && revision.seesAll();
  };
  auto behind = [&](int64_t stage, bool tokens) {
    return mends([&](Revision &revision) {
      revision.addLayerBehind(stage, tokens);
      return true;
    });
  };
  int64_t stage = stageIndexOf(upsampling);
  bool isFine = stage >= 0 && mends([&](Revision &r) { return r.addLayerOnTheWayUp(upsampling); });
  if (isFine || (stage >= 0 && behind(stage, false))) {
    return fine;
  }
  if (behind(-1, false)) {
    return "put a causal layer right before the head";
  }
  if (stage >= 0 && behind(stage, true)) {
    return both;
  }
  return behind(-1, true) ? "add the embedding's stream right before the head, then put a causal "
                            "layer there"
                          : "";
}

static Remedy remedyFor(const BlindPattern &pattern, const spec::Model *model, const Clock &clock) {
  const std::string window = "; begin this window at 0, so that it ends at the row itself";
  Operation *upsample = lastBefore<UpsampleOp, UnfoldOp>(pattern.loss);
  Operation *shift = lastBefore<ShiftOp>(pattern.loss);
  Operation *place = upsample ? upsample
                     : shift  ? shift
                              : CrossEntropyOp(pattern.loss).getOperation();
  if (!model) {
    if (Operation *op = windowAtFault(pattern.loss, clock)) {
      return {placeOf(op), window};
    }
    // A causal layer reads no later token than its row: before the head it is causal always.
    return {placeOf(place),
            layerMends(pattern) ? "; put a causal layer right before the head" : ""};
  }
  if (const spec::Stage *stage = windowAtFault(*model, clock)) {
    return {stage->location, window};
  }
  auto name = upsample ? upsample->getLoc()->findInstanceOf<NameLoc>() : NameLoc();
  std::string text = layerFor(*model, name ? name.getName().getValue() : "", clock);
  return {placeOf(place), text.empty() ? "" : "; " + text};
}

static std::string howKnown(const BlindPattern &pattern) {
  int64_t first = pattern.firstRow, last = pattern.length - 1;
  return " (rows " + std::to_string(first) + " to " + std::to_string(last) + " of " +
         std::to_string(pattern.length) + " tokens were enumerated; the pattern repeats every " +
         count(pattern.period, "token") +
         (pattern.segments.empty() ? "" : ", with " + pattern.segments) + ")";
}

/// Losses that read one stream have one blind spot.
static void addOnce(std::vector<CausalWarning> &list, CausalWarning warning) {
  bool isKnown = llvm::any_of(
      list, [&](const CausalWarning &other) { return other.format() == warning.format(); });
  if (!isKnown) {
    list.push_back(std::move(warning));
  }
}

static void warnOfHoles(const BlindPattern &pattern, const AdviceRequest &request,
                        const Clock &clock, CausalVerdict &verdict) {
  auto [place, remedy] = remedyFor(pattern, request.model, clock);
  addOnce(verdict.warnings, {Kind::BlindSpot, place,
                             "blind spot: " + pattern.describe() + remedy + howKnown(pattern)});
  if (remedy.empty() && clock.isOver()) {
    noteUnfinished(pattern.loss, clock, "remedies of the blind spot were not all tried", verdict);
  }
}

/// A row's context where it is shorter than the model's: a fact, not a defect.
static void noteContext(const BlindPattern &pattern, int64_t context, CausalVerdict &verdict) {
  int64_t least = std::numeric_limits<int64_t>::max(), most = -1;
  for (const BlindPattern::Row &row : pattern.rows) {
    int64_t oldest = row.oldest < 0 ? std::numeric_limits<int64_t>::max() : row.oldest;
    least = std::min(least, oldest);
    most = std::max(most, oldest);
  }
  if (most >= context - 1) {
    return;
  }
  std::string text = most <= 0 ? "row t sees its own token alone"
                               : "row t sees nothing older than token t-" + std::to_string(most);
  if (least < most) {
    text += " (some rows than t-" + std::to_string(least) + ")";
  }
  addOnce(verdict.notes, {Kind::BoundedContext, placeOf(pattern.loss), text + howKnown(pattern)});
}

static void noteUnknown(const BlindPattern &pattern, CausalVerdict &verdict) {
  std::string why =
      pattern.length > 0    ? "what rows see did not repeat with the period of the scales"
      : pattern.period == 0 ? "the scales have no common period below 2^30 tokens"
      : pattern.firstRow == 0
          ? "paths reach further back than 2^20 tokens"
          : "at least " + std::to_string(pattern.firstRow) + " tokens would have to be enumerated";
  addOnce(verdict.notes,
          {Kind::NotEnumerated, placeOf(pattern.loss), "blind spots not looked for: " + why});
}

void sluice::findAdvice(ModuleOp module, CausalVerdict &verdict, const AdviceRequest &request) {
  func::FuncOp function;
  for (auto each : module.getOps<func::FuncOp>()) {
    function = !function && !lossesOf(each).empty() ? each : function;
  }
  if (!function) {
    return;
  }
  Clock clock(request.seconds);
  warnOfDeadStages(function, verdict);
  Shifts shifts(module);
  // The quicker part first. Losses that only train may see less than what is sampled.
  // A model of groups alone sees no newer tokens than those of whole groups, as it should.
  SmallVector<BlindPattern> patterns;
  if (!module->hasAttr("sluice.group")) {
    patterns.push_back(findBlindSpots(mainLossOf(function)));
  }
  bool wastes = lowerShifts(shifts, module, request, clock, verdict);
  // Holes that a needless shift alone makes are told of with the shift.
  SmallVector<bool> onlyWaste;
  for (const BlindPattern &pattern : patterns) {
    onlyWaste.push_back(wastes && pattern.hasHoles() && !findBlindSpots(pattern.loss).hasHoles());
  }
  shifts.restore();
  for (auto [pattern, isTold] : llvm::zip_equal(patterns, onlyWaste)) {
    if (!pattern.repeats) {
      noteUnknown(pattern, verdict);
      continue;
    }
    if (pattern.hasHoles() && !isTold) {
      warnOfHoles(pattern, request, clock, verdict);
    }
    noteContext(pattern, getContext(function), verdict);
  }
}
