// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Improvements of a causal model: shifts with an unnecessary delay, tokens that no row sees, stages
// that no loss reads. Remedies are tried before they are reported.
#include "sluice/Explain/Advice.h"
#include "AdviceShifts.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/BlindSpots.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Losses.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::advice;

//===----------------------------------------------------------------------===//
// Stages that no loss reads
//===----------------------------------------------------------------------===//

static bool isSequence(Operation &op) {
  return op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType());
}

/// Warns about a stage none of whose ops is on a path to a loss, nor replaced by an op on one. In a
/// chain of dead stages, names the last stage.
static void warnOfDeadStages(func::FuncOp function, CausalVerdict &verdict) {
  llvm::DenseSet<Operation *> live = liveOps(function);
  llvm::MapVector<Location, SmallVector<Operation *>> stages;
  llvm::StringSet<> trained; // stages with weights
  llvm::DenseSet<Attribute> reached;
  for (Operation *op : live) {
    SmallVector<OriginAttr> origins;
    if (isSequence(*op)) { // a read of a shared tensor has the origins of all its readers
      origins = getOrigins(op->getLoc());
    }
    reached.insert(origins.begin(), origins.end());
  }
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (isSequence(op)) {
      stages[op.getLoc()].push_back(&op);
    }
    if (llvm::any_of(op.getOperands(), [](Value v) { return v.getDefiningOp<ReadOp>(); })) {
      trained.insert(getOriginStage(&op));
    }
  }
  for (auto &[location, ops] : stages) {
    if (llvm::any_of(ops, [&](Operation *op) {
          OriginAttr origin = getOrigin(op);
          auto cut = dyn_cast<SegmentOp>(op); // a recurrence reads the bits alone
          return live.contains(op) || (origin && reached.contains(origin)) ||
                 (cut && live.contains(cut.getBits().getDefiningOp()));
        })) {
      continue;
    }
    bool isLast = llvm::all_of(ops, [&](Operation *op) {
      return llvm::all_of(op->getUsers(),
                          [&](Operation *user) { return user->getLoc() == location; });
    });
    if (isLast) {
      bool hasWeights = trained.contains(getOriginStage(ops.front()));
      verdict.warnings.push_back({WarningKind::DeadStage, getOpLocation(ops.front()),
                                  std::string("this stage's result reaches no loss") +
                                      (hasWeights ? ", so its weights are never trained" : "") +
                                      "; read it in a later stage, or remove it"});
    }
  }
}

//===----------------------------------------------------------------------===//
// Blind spots
//===----------------------------------------------------------------------===//

/// Returns the causal mask with the lower bounds of the op's mask; nothing if the mask is not a
/// plain window.
static std::optional<IntegerSet> upToOwn(AttentionOp op) {
  MaskBounds bounds = solveMask(op.getMask());
  if (!bounds.exact || !bounds.conditions.empty()) {
    return std::nullopt;
  }
  AffineExpr q = getAffineDimExpr(1, op.getContext());
  SmallVector<AffineExpr> constraints(
      causalMask(op.getContext(), getScaleRatio(op)).getConstraints());
  for (AffineExpr lower : bounds.lower) {
    constraints.push_back(q - lower);
  }
  return IntegerSet::get(2, 1, constraints, SmallVector<bool>(constraints.size(), false));
}

/// Returns the first attention whose window would leave no hole if it extended to the row itself.
static Operation *windowAtFault(CrossEntropyOp loss, const AdviceBudget &clock) {
  constexpr int mostTries = 16;
  int tries = 0;
  auto module = loss->getParentOfType<ModuleOp>();
  for (auto op : loss->getParentOfType<func::FuncOp>().getOps<AttentionOp>()) {
    IntegerSet mask = op.getMask();
    std::optional<IntegerSet> wider = upToOwn(op);
    AffineExpr latest = op.getLatest(1);
    bool endsAtOwn =
        latest == solveMask(causalMask(op.getContext(), getScaleRatio(op))).upper.front();
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

/// Returns the first stage of a spec with such a window; several layers may share one mask.
static Operation *windowAtFault(const ParsedSpec &spec, const AdviceBudget &clock) {
  constexpr size_t mostTries = 16;
  llvm::DenseSet<Location> tried;
  for (auto layer : spec.getModel().getBody().getOps<spec::LayerSettingsInterface>()) {
    spec::MaskAttr mask = layer.getMask();
    Location place = spec::getKeyLoc(layer, "mask");
    if (mask.getShape() != spec::MaskShape::window || mask.getBegin() <= 0 ||
        tried.size() == mostTries || clock.isOver() || !tried.insert(place).second) {
      continue;
    }
    Revision revision(spec);
    revision.beginWindowsAtZero(getSourceLocation(place));
    if (revision.seesAll()) {
      return layer;
    }
  }
  return nullptr;
}

/// Returns true if a causal layer before the head would leave no hole: row t then sees all tokens
/// that earlier rows see.
static bool layerMends(const BlindPattern &pattern) {
  int64_t period = pattern.period;
  for (int64_t row = 0; row < period; ++row) {
    for (auto [first, last] : pattern.rows[static_cast<size_t>(row)].holes) {
      for (int64_t token = first; token <= last; ++token) {
        bool seen = false;
        // Checks rows from the token on; holes of earlier periods are the same, translated.
        for (int64_t other = row; !seen && other >= token; --other) {
          int64_t residue = ((other % period) + period) % period;
          int64_t offset = token - (other - residue);
          const BlindPattern::BlindRow &holes = pattern.rows[static_cast<size_t>(residue)];
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

/// Returns the last op of a kind through which the loss reads, the nearest to the loss.
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
  std::string text; ///< "; put a layer ..."; empty if no edit is known to repair it
};
} // namespace

/// Tries layers at several places on the spec, in increasing order of the change, and returns the
/// advice for the first that works.
static std::string layerFor(const ParsedSpec &spec, OriginAttr upsampling,
                            const AdviceBudget &clock) {
  const std::string fine = "put a layer of the finest scale after this upsampling (a hierarchy's "
                           "last count at least 1)";
  const std::string both =
      "add a stream of the finest scale after this upsampling, then put a layer there";
  auto mends = [&](auto change) {
    Revision revision(spec);
    return !clock.isOver() && change(revision) && revision.seesAll();
  };
  auto mendsAfter = [&](StringRef path, bool tokens) {
    return mends([&](Revision &revision) {
      revision.addLayerAfter(path, tokens);
      return true;
    });
  };
  StringRef stage = findStage(spec.getModel(), upsampling), head = "";
  bool isFound = !stage.empty();
  bool isFine = isFound && mends([&](Revision &r) { return r.addLayerOnTheWayUp(upsampling); });
  if (isFine || (isFound && mendsAfter(stage, false))) {
    return fine;
  }
  if (mendsAfter(head, false)) {
    return "put a causal layer right before the head";
  }
  if (isFound && mendsAfter(stage, true)) {
    return both;
  }
  return mendsAfter(head, true)
             ? "add the embedding's stream right before the head, then put a causal "
               "layer there"
             : "";
}

static Remedy remedyFor(const BlindPattern &pattern, const ParsedSpec *spec,
                        const AdviceBudget &clock) {
  const std::string window = "; begin this window at 0, so that it ends at the row itself";
  Operation *upsample = lastBefore<UpsampleOp, UnfoldOp>(pattern.loss);
  Operation *shift = lastBefore<ShiftOp>(pattern.loss);
  Operation *place = upsample ? upsample
                     : shift  ? shift
                              : CrossEntropyOp(pattern.loss).getOperation();
  if (!spec) {
    if (Operation *op = windowAtFault(pattern.loss, clock)) {
      return {getOpLocation(op), window};
    }
    // A causal layer reads no token later than its row, so it is always causal before the head.
    return {getOpLocation(place),
            layerMends(pattern) ? "; put a causal layer right before the head" : ""};
  }
  if (Operation *stage = windowAtFault(*spec, clock)) {
    return {getKeyPlace(stage, ""), window};
  }
  OriginAttr origin = upsample ? getOrigin(upsample) : OriginAttr();
  std::string text = layerFor(*spec, origin, clock);
  return {getOpLocation(place), text.empty() ? "" : "; " + text};
}

static std::string howKnown(const BlindPattern &pattern) {
  int64_t first = pattern.firstRow, last = pattern.length - 1;
  return " (rows " + std::to_string(first) + " to " + std::to_string(last) + " of " +
         std::to_string(pattern.length) + " tokens were enumerated; the pattern repeats every " +
         count(pattern.period, "token") +
         (pattern.segments.empty() ? "" : ", with " + pattern.segments) + ")";
}

/// Adds a warning unless the list has an equal one: losses that read one stream have one blind
/// spot.
static void addOnce(std::vector<CausalWarning> &list, CausalWarning warning) {
  bool isKnown = llvm::any_of(
      list, [&](const CausalWarning &other) { return other.format() == warning.format(); });
  if (!isKnown) {
    list.push_back(std::move(warning));
  }
}

static void warnOfHoles(const BlindPattern &pattern, const AdviceRequest &request,
                        const AdviceBudget &clock, CausalVerdict &verdict) {
  auto [place, remedy] = remedyFor(pattern, request.spec, clock);
  addOnce(verdict.warnings, {WarningKind::BlindSpot, place,
                             "blind spot: " + pattern.describe() + remedy + howKnown(pattern)});
  if (remedy.empty() && clock.isOver()) {
    noteUnfinished(pattern.loss, clock, "remedies of the blind spot were not all tried", verdict);
  }
}

/// Notes a context of rows that is shorter than the model's context, which is not a defect.
static void noteContext(const BlindPattern &pattern, int64_t context, CausalVerdict &verdict) {
  int64_t least = std::numeric_limits<int64_t>::max(), most = -1;
  for (const BlindPattern::BlindRow &row : pattern.rows) {
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
  addOnce(verdict.notes,
          {WarningKind::BoundedContext, getOpLocation(pattern.loss), text + howKnown(pattern)});
}

static void noteUnknown(const BlindPattern &pattern, CausalVerdict &verdict) {
  std::string why =
      pattern.length > 0    ? "what rows see did not repeat with the period of the scales"
      : pattern.period == 0 ? "the scales have no common period below 2^30 tokens"
      : pattern.firstRow == 0
          ? "paths reach further back than 2^20 tokens"
          : "at least " + std::to_string(pattern.firstRow) + " tokens would have to be enumerated";
  addOnce(verdict.notes, {WarningKind::NotEnumerated, getOpLocation(pattern.loss),
                          "blind spots not looked for: " + why});
}

void sluice::findAdvice(ModuleOp module, CausalVerdict &verdict, const AdviceRequest &request) {
  func::FuncOp function;
  for (auto each : module.getOps<func::FuncOp>()) {
    function = !function && !getLossOps(each).empty() ? each : function;
  }
  if (!function) {
    return;
  }
  AdviceBudget clock(request.operations);
  warnOfDeadStages(function, verdict);
  Shifts shifts(module);
  // Enumerates blind spots first, which is faster, and only for the main loss: auxiliary losses may
  // see less than sampled rows. Skips a model that only has groups, or whose rows choose among
  // rows: it sees only tokens of whole groups, as intended.
  SmallVector<BlindPattern> patterns;
  CrossEntropyOp loss = getMainLoss(function);
  if (!hasFact<SluiceDialect::GroupAttrHelper>(module) &&
      !isa<SequenceType>(loss.getWeight().getType())) {
    patterns.push_back(findBlindSpots(loss));
  }
  bool wastes = lowerShifts(shifts, module, request, clock, verdict);
  // Holes that only an unnecessary shift causes are reported with the shift.
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
