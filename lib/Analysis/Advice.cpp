// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a causal model can do better: shifts that delay for nothing, tokens that no row sees, stages
// that no loss reads. Remedies are tried before they are named.
#include "sluice/Analysis/Reach.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;
using Kind = CausalWarning::Kind;

//===----------------------------------------------------------------------===//
// Waste
//===----------------------------------------------------------------------===//

namespace {
/// One shift of the spec: an op in each mode that is trained or evaluated.
struct SharedShift {
  SmallVector<ShiftOp, 2> ops;
  int64_t by = 0, least = 0;

  void set(int64_t value) {
    for (ShiftOp op : ops) {
      op.setBy(static_cast<uint64_t>(value));
    }
  }
};

/// The shifts of a module's modes, and what is causal with other values.
class Shifts {
public:
  explicit Shifts(ModuleOp module);
  /// Lowers one shift after the other, the last in the model first, as far as the model stays
  /// causal.
  void lower();
  void restore() {
    for (SharedShift &shift : shifts) {
      shift.set(shift.by);
    }
  }
  std::vector<SharedShift> shifts;

private:
  bool isCausal() {
    return llvm::all_of(modes, [](func::FuncOp mode) { return sluice::isCausal(mode); });
  }
  SmallVector<func::FuncOp, 2> modes;
};
} // namespace

Shifts::Shifts(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (lossesOf(function).empty()) {
      continue;
    }
    modes.push_back(function);
    size_t i = 0;
    for (auto op : function.getOps<ShiftOp>()) {
      shifts.resize(std::max(shifts.size(), i + 1));
      shifts[i].by = static_cast<int64_t>(op.getBy());
      shifts[i++].ops.push_back(op);
    }
  }
}

/// Lower values read later tokens, so the causal values of one shift are all from the least on.
void Shifts::lower() {
  for (SharedShift &shift : llvm::reverse(shifts)) {
    int64_t low = -1, high = shift.by; // -1: not tried, a negative shift looks ahead
    while (high - low > 1) {
      int64_t middle = low + (high - low) / 2;
      shift.set(middle);
      (isCausal() ? high : low) = middle;
    }
    shift.least = high;
    shift.set(high);
  }
}

static std::string count(int64_t n, const std::string &what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

static void warnOfWaste(const Shifts &shifts, CausalVerdict &verdict) {
  for (const SharedShift &shift : shifts.shifts) {
    if (shift.least >= shift.by || shift.by < 0) {
      continue;
    }
    Operation *op = shift.ops.front();
    int64_t factor = getFactor(op, cast<SequenceType>(op->getResult(0).getType()));
    std::string least = shift.least == 0 ? "none is needed to be causal"
                                         : std::to_string(shift.least) + " is enough to be causal";
    verdict.warnings.push_back({Kind::Waste, placeOf(op),
                                "a shift by " + std::to_string(shift.by) + " where " + least +
                                    "; with the least one, all that is read through it is " +
                                    count(factor * (shift.by - shift.least), "token") + " newer"});
  }
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
  llvm::DenseSet<Operation *> live;
  llvm::MapVector<Location, SmallVector<Operation *>> stages;
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    bool used = isa<CrossEntropyOp>(op) ||
                llvm::any_of(op.getUsers(), [&](Operation *user) { return live.contains(user); });
    if (used) {
      live.insert(&op);
    }
    if (isSequence(op)) {
      stages[op.getLoc()].push_back(&op);
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
      verdict.warnings.push_back({Kind::DeadStage, placeOf(ops.front()),
                                  "this stage's result reaches no loss, so its weights are never "
                                  "trained; read it in a later stage, or remove it"});
    }
  }
}

//===----------------------------------------------------------------------===//
// Blind spots
//===----------------------------------------------------------------------===//

/// The mask from its lower bounds up to the row itself; nothing where it is not a plain window.
static std::optional<IntegerSet> upToOwn(AttentionOp op) {
  MaskBounds bounds = solveMask(op.getMask());
  if (!bounds.exact || !bounds.conditions.empty()) {
    return std::nullopt;
  }
  AffineExpr p = getAffineDimExpr(0, op.getContext()), q = getAffineDimExpr(1, op.getContext());
  SmallVector<AffineExpr> constraints = {p - q};
  for (AffineExpr lower : bounds.lower) {
    constraints.push_back(q - lower);
  }
  return IntegerSet::get(2, 1, constraints, SmallVector<bool>(constraints.size(), false));
}

/// The first attention whose window, were it to end at the row itself, would leave no hole.
static Operation *windowAtFault(CrossEntropyOp loss) {
  constexpr int mostTries = 16;
  int tries = 0;
  for (auto op : loss->getParentOfType<func::FuncOp>().getOps<AttentionOp>()) {
    IntegerSet mask = op.getMask();
    std::optional<IntegerSet> wider = upToOwn(op);
    AffineExpr latest = op.getLatest(1);
    if (!wider || !latest || latest == getAffineDimExpr(0, op.getContext()) ||
        ++tries > mostTries) {
      continue;
    }
    op.setMask(*wider);
    bool mends =
        isCausal(loss->getParentOfType<func::FuncOp>()) && !findBlindSpots(loss).hasHoles();
    op.setMask(mask);
    if (mends) {
      return op;
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

static std::pair<Operation *, std::string> remedyFor(const BlindPattern &pattern) {
  if (Operation *window = windowAtFault(pattern.loss)) {
    return {window, "begin this window at 0, so that it ends at the row itself"};
  }
  Operation *upsample = lastBefore<UpsampleOp, UnfoldOp>(pattern.loss);
  Operation *shift = lastBefore<ShiftOp>(pattern.loss);
  Operation *place = upsample ? upsample
                     : shift  ? shift
                              : CrossEntropyOp(pattern.loss).getOperation();
  if (layerMends(pattern)) {
    return {place, upsample
                       ? "put a layer of the finest scale after this upsampling (a hierarchy's "
                         "last count at least 1)"
                       : "put a layer without that shift after it"};
  }
  if (upsample) {
    return {place,
            "add a stream of the finest scale after this upsampling, then put a layer there"};
  }
  return {place, "let a layer read the stream from before it"};
}

static std::string howKnown(const BlindPattern &pattern) {
  int64_t first = pattern.firstRow, last = pattern.length - 1;
  return " (rows " + std::to_string(first) + " to " + std::to_string(last) + " of " +
         std::to_string(pattern.length) + " tokens were enumerated; the pattern repeats every " +
         count(pattern.period, "token") + ")";
}

/// Losses that read one stream have one blind spot.
static void addOnce(std::vector<CausalWarning> &list, CausalWarning warning) {
  bool isKnown = llvm::any_of(
      list, [&](const CausalWarning &other) { return other.format() == warning.format(); });
  if (!isKnown) {
    list.push_back(std::move(warning));
  }
}

static void warnOfHoles(const BlindPattern &pattern, CausalVerdict &verdict) {
  auto [place, remedy] = remedyFor(pattern);
  addOnce(verdict.warnings,
          {Kind::BlindSpot, placeOf(place),
           "blind spot: " + pattern.describe() + "; " + remedy + howKnown(pattern)});
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

void sluice::findAdvice(ModuleOp module, CausalVerdict &verdict) {
  func::FuncOp function;
  for (auto each : module.getOps<func::FuncOp>()) {
    function = !function && !lossesOf(each).empty() ? each : function;
  }
  if (!function) {
    return;
  }
  warnOfDeadStages(function, verdict);
  Shifts shifts(module);
  shifts.lower();
  warnOfWaste(shifts, verdict);
  bool wastes =
      llvm::any_of(shifts.shifts, [](const auto &shift) { return shift.least < shift.by; });
  for (CrossEntropyOp loss : lossesOf(function)) {
    // Holes that a needless shift alone makes are told of with the shift.
    bool onlyWaste = wastes && !findBlindSpots(loss).hasHoles();
    shifts.restore();
    BlindPattern pattern = findBlindSpots(loss);
    if (!pattern.repeats) {
      noteUnknown(pattern, verdict);
      continue;
    }
    if (pattern.hasHoles() && !onlyWaste) {
      warnOfHoles(pattern, verdict);
    }
    noteContext(pattern, getContext(function), verdict);
  }
  shifts.restore();
}
