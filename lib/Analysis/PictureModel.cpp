// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a function to bands. What works position by position joins the band that it reads; maps that
// are not stored become the way in which others read; layers of one kind in a row are one band.
#include "sluice/Analysis/Reach.h"
#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;

namespace {

constexpr int64_t widest = 512;

/// A band while it is built.
struct Draft {
  Operation *op = nullptr; ///< that made it; null for tokens
  std::string label;
  std::string mask; ///< of an attention
  int64_t layers = 0;
  bool residual = false;
  SmallVector<Value> values; ///< at its top
  bool merged = false;       ///< into a band above
};

/// One read of a band: the stored value at the end of a chain of maps.
struct Source {
  Value root;
  std::vector<Operation *> maps; ///< from the reader down
  Operation *reader = nullptr;
  unsigned operand = 0;
};

class Bands {
public:
  explicit Bands(CrossEntropyOp loss);
  Picture finish(const ReachGraph &graph, int64_t row) const;
  /// The band that shows a value, if one does.
  std::optional<size_t> bandOf(Value value) const;

private:
  void add(Operation *op);
  int bandFor(Value value);
  Source sourceOf(Operation *op, unsigned operand) const;
  int makeBand(Operation *op, std::vector<Source> sources);
  void dropOwnPosition(Operation *op, std::vector<Source> &sources);
  void mergeLayers();
  void readsOf(const ReachGraph &graph, const Draft &draft, const Source &source,
               PictureEdge &edge) const;

  mutable CrossEntropyOp loss; ///< whose accessors are not const
  std::vector<Draft> drafts;
  std::vector<std::pair<size_t, Source>> edges; ///< band above, source
  DenseMap<Value, int> known;
};

} // namespace

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string nameOfMask(AttentionOp op) {
  MaskBounds bounds = solveMask(op.getMask());
  AffineExpr p = getAffineDimExpr(0, op.getContext());
  auto distance = [&](ArrayRef<AffineExpr> list) -> std::optional<int64_t> {
    auto constant = list.size() == 1
                        ? dyn_cast<AffineConstantExpr>(simplifyAffineExpr(p - list[0], 1, 1))
                        : AffineConstantExpr();
    return constant ? std::optional(constant.getValue()) : std::nullopt;
  };
  std::optional<int64_t> end = distance(bounds.upper), begin = distance(bounds.lower);
  if (bounds.upper.empty()) {
    return "bidirectional";
  }
  if (end == 0 && bounds.lower.empty()) {
    return "causal";
  }
  return end && begin ? "window " + std::to_string(*end) + " to " + std::to_string(*begin + 1)
                      : "own mask";
}

static std::string nameOfMap(Operation *op) {
  if (auto shift = dyn_cast<ShiftOp>(op)) {
    return "shift " + std::to_string(static_cast<int64_t>(shift.getBy()));
  }
  if (auto upsample = dyn_cast<UpsampleOp>(op)) {
    return "upsample " + std::to_string(upsample.getFactor());
  }
  if (auto unfold = dyn_cast<UnfoldOp>(op)) {
    return "linear upsample " + std::to_string(unfold.getFactor());
  }
  if (auto shorten = dyn_cast<ShortenOp>(op)) {
    return "average of " + std::to_string(shorten.getFactor());
  }
  if (auto fold = dyn_cast<FoldOp>(op)) {
    return "linear map of " + std::to_string(fold.getFactor());
  }
  return isa<MapOp>(op) ? "add" : op->getName().stripDialect().str();
}

static std::string labelOf(const Draft &draft) {
  if (draft.mask.empty()) {
    return draft.label;
  }
  std::string what = draft.residual ? "layer" : "attention";
  return (draft.layers == 1 ? what : std::to_string(draft.layers) + " " + what + "s") + ", " +
         draft.mask;
}

//===----------------------------------------------------------------------===//
// Bands
//===----------------------------------------------------------------------===//

static bool isPointwise(Operation *op, unsigned operand) {
  auto relation = cast<CausalFlowInterface>(op).getRelation(operand);
  AffineExpr p = getAffineDimExpr(0, op->getContext()), q = getAffineDimExpr(1, op->getContext());
  return relation && *relation == IntegerSet::get(2, 1, {q - p}, {true});
}

static bool readsSequence(Operation *op, unsigned operand) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  return flow && isa<SequenceType>(op->getOperand(operand).getType()) &&
         flow.getRelation(operand).has_value();
}

Source Bands::sourceOf(Operation *op, unsigned operand) const {
  Source source{op->getOperand(operand), {}, op, operand};
  while (isLazy(source.root.getDefiningOp())) {
    source.maps.push_back(source.root.getDefiningOp());
    source.root = source.root.getDefiningOp()->getOperand(0);
  }
  return source;
}

/// The band of a value that is read position by position. A map that is not stored gets a band of
/// its own only here.
int Bands::bandFor(Value value) {
  auto found = known.find(value);
  if (found != known.end() || !isLazy(value.getDefiningOp())) {
    return found == known.end() ? -1 : found->second;
  }
  Source source = sourceOf(value.getDefiningOp(), 0);
  source.maps.insert(source.maps.begin(), value.getDefiningOp());
  source.reader = nullptr;
  int band = makeBand(value.getDefiningOp(), {source});
  drafts.back().label = isa<ShiftOp>(value.getDefiningOp()) ? "shifted" : "upsampled";
  drafts[static_cast<size_t>(band)].values.push_back(value);
  return known[value] = band;
}

int Bands::makeBand(Operation *op, std::vector<Source> sources) {
  drafts.push_back({op, nameOfMap(op), "", 0, false, {}, false});
  for (Source &source : sources) {
    edges.emplace_back(drafts.size() - 1, std::move(source));
  }
  return static_cast<int>(drafts.size()) - 1;
}

/// The position that an attention's query stands at is one of those that its mask holds.
void Bands::dropOwnPosition(Operation *op, std::vector<Source> &sources) {
  for (size_t i = 0; isa<AttentionOp>(op) && i < sources.size(); ++i) {
    bool isCovered =
        isPointwise(op, sources[i].operand) && llvm::any_of(sources, [&](const Source &other) {
          return &other != &sources[i] && bandFor(other.root) == bandFor(sources[i].root);
        });
    if (isCovered) {
      sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
}

/// Joins the band that it reads position by position. A residual sum joins the attention's; any
/// other reader of several bands, or of other positions, begins one.
void Bands::add(Operation *op) {
  SmallVector<int> pointwise;
  std::vector<Source> sources;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (!readsSequence(op, i)) {
      continue;
    }
    Source source = sourceOf(op, i);
    bool isKnown = llvm::any_of(sources, [&](const Source &other) {
      return bandFor(other.root) == bandFor(source.root) && other.maps == source.maps &&
             isPointwise(op, i) == isPointwise(op, other.operand);
    });
    if (isKnown) {
      continue;
    }
    bool sums = isa<MapOp>(op) && op->getNumOperands() > 1;
    bool joins =
        isPointwise(op, i) && (source.maps.empty() || !sums || known.count(op->getOperand(i)));
    if (joins) {
      int band = bandFor(op->getOperand(i));
      if (band >= 0 && !llvm::is_contained(pointwise, band)) {
        pointwise.push_back(band);
        source.maps.clear();
        source.root = op->getOperand(i);
      } else {
        continue;
      }
    }
    sources.push_back(source);
  }
  int band = -1;
  if (sources.size() == 1 && pointwise.size() == 1) {
    band = pointwise[0];
  } else if (sources.size() == 2 && pointwise.size() == 2) {
    auto [low, high] = std::minmax(pointwise[0], pointwise[1]);
    Draft &attention = drafts[static_cast<size_t>(high)];
    bool isResidual = !attention.mask.empty() && llvm::all_of(edges, [&](const auto &edge) {
      return edge.first != static_cast<size_t>(high) || bandFor(edge.second.root) == low;
    });
    if (isResidual) {
      attention.residual = true;
      attention.values.clear(); // what is before the sum is inside
      band = high;
    }
  }
  if (band < 0 && !sources.empty()) {
    dropOwnPosition(op, sources);
    band = makeBand(op, std::move(sources));
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      drafts.back().mask = nameOfMask(attention);
      drafts.back().layers = 1;
    }
  }
  for (Value result : op->getResults()) {
    known[result] = band;
    if (band >= 0) {
      drafts[static_cast<size_t>(band)].values.push_back(result);
    }
  }
}

/// A layer that only the next one reads, with the same mask, is part of it.
void Bands::mergeLayers() {
  for (size_t above = 0; above < drafts.size(); ++above) {
    SmallVector<size_t> below;
    for (auto &[band, source] : edges) {
      if (band == above) {
        below.push_back(static_cast<size_t>(known.lookup(source.root)));
      }
    }
    if (below.size() != 1 || drafts[above].mask.empty() ||
        drafts[below[0]].mask != drafts[above].mask ||
        drafts[below[0]].residual != drafts[above].residual) {
      continue;
    }
    auto readers = llvm::count_if(edges, [&](const auto &edge) {
      return static_cast<size_t>(known.lookup(edge.second.root)) == below[0];
    });
    if (readers != 1) {
      continue;
    }
    drafts[above].layers += drafts[below[0]].layers;
    drafts[below[0]].merged = true;
    llvm::erase_if(edges, [&](const auto &edge) { return edge.first == above; });
    for (auto &edge : edges) {
      edge.first = edge.first == below[0] ? above : edge.first;
    }
  }
}

Bands::Bands(CrossEntropyOp loss) : loss(loss) {
  auto function = loss->getParentOfType<func::FuncOp>();
  llvm::DenseSet<Operation *> live = {loss};
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (llvm::any_of(op.getUsers(), [&](Operation *user) { return live.contains(user); })) {
      live.insert(&op);
    }
  }
  drafts.push_back({nullptr, "tokens", "", 0, false, {loss.getTokens()}, false});
  known[loss.getTokens()] = 0;
  for (BlockArgument argument : function.getArguments()) {
    bool isRead =
        llvm::any_of(argument.getUsers(), [&](Operation *op) { return live.contains(op); });
    if (argument != loss.getTokens() && isRead && isa<SequenceType>(argument.getType())) {
      known[argument] = static_cast<int>(drafts.size());
      drafts.push_back({nullptr, "other tokens", "", 0, false, {argument}, false});
    }
  }
  for (Operation &op : function.getBody().front()) {
    if (&op != loss && live.contains(&op) && op.getNumResults() > 0 &&
        isa<SequenceType>(op.getResult(0).getType()) && !isLazy(&op)) {
      add(&op);
    }
  }
  bandFor(loss.getInput());
  mergeLayers();
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

/// Positions of the root that `position` of the edge's upper band reads: layers through all that
/// were merged, other ops through their maps.
void Bands::readsOf(const ReachGraph &graph, const Draft &draft, const Source &source,
                    PictureEdge &edge) const {
  Value top = draft.op->getResult(0), root = source.root;
  int64_t positions = graph.getLength(top), n = graph.getLength(root);
  for (int64_t p = 0; p < positions; ++p) {
    int64_t first = n, last = -1;
    if (!draft.mask.empty() && !isPointwise(source.reader, source.operand)) {
      ReachSets sets = graph.sees(top, p);
      llvm::BitVector set = sets.lookup(root);
      first = set.any() ? set.find_first() : n;
      last = set.any() ? set.find_last() : -1;
    } else {
      auto [low, high] =
          source.reader ? graph.readRange(source.reader, source.operand, p) : std::pair(p, p);
      for (int64_t q = low; q <= high; ++q) {
        int64_t at = q;
        for (Operation *map : source.maps) {
          at = graph.readRange(map, 0, at).first;
        }
        if (at >= 0 && at < n) {
          first = std::min(first, at);
          last = std::max(last, at);
        }
      }
    }
    if (first <= last) {
      edge.reads.push_back({p, first, last});
    }
  }
}

std::optional<size_t> Bands::bandOf(Value value) const {
  auto found = known.find(value);
  if (found == known.end() || found->second < 0 ||
      drafts[static_cast<size_t>(found->second)].merged) {
    return std::nullopt;
  }
  size_t index = 0;
  for (int i = 0; i < found->second; ++i) {
    index += !drafts[static_cast<size_t>(i)].merged;
  }
  return index;
}

Picture Bands::finish(const ReachGraph &graph, int64_t row) const {
  Picture picture;
  picture.row = row;
  picture.target = row + static_cast<int64_t>(loss.getOffset());
  ReachSets sets = graph.sees(loss.getInput(), row);
  for (const Draft &draft : drafts) {
    if (draft.merged) {
      continue;
    }
    Value top = draft.op ? draft.op->getResult(0) : draft.values.front();
    PictureBand band{labelOf(draft),
                     draft.op ? placeOf(draft.op) : spec::SourceLocation(),
                     getFactor(loss, cast<SequenceType>(top.getType())),
                     {}};
    band.seen.resize(static_cast<size_t>(graph.getLength(top)));
    for (Value value : draft.values) {
      auto set = sets.find(value);
      if (set != sets.end()) {
        for (unsigned p : set->second.set_bits()) {
          band.seen[p] = true;
        }
      }
    }
    picture.bands.push_back(std::move(band));
  }
  for (const auto &[above, source] : edges) {
    const Draft &draft = drafts[above];
    if (draft.merged || !bandOf(source.root)) {
      continue;
    }
    PictureEdge edge;
    edge.below = *bandOf(source.root);
    edge.above = above;
    for (size_t i = 0; i < above; ++i) {
      edge.above -= drafts[i].merged;
    }
    for (Operation *map : llvm::reverse(source.maps)) {
      edge.shifts |= isa<ShiftOp>(map) && cast<ShiftOp>(map).getBy() != 0;
      edge.label += (edge.label.empty() ? "" : ", ") + nameOfMap(map);
    }
    bool own = !source.reader || isPointwise(source.reader, source.operand);
    edge.kind = !own && !draft.mask.empty() ? PictureEdge::Kind::Attention
                : !own                      ? PictureEdge::Kind::Group
                : source.maps.empty()       ? PictureEdge::Kind::Same
                                            : PictureEdge::Kind::Map;
    readsOf(graph, draft, source, edge);
    picture.edges.push_back(std::move(edge));
  }
  llvm::sort(picture.edges, [](const auto &x, const auto &y) {
    return std::tie(x.above, x.below, x.label) < std::tie(y.above, y.below, y.label);
  });
  return picture;
}

//===----------------------------------------------------------------------===//
// Which row
//===----------------------------------------------------------------------===//

/// Tokens that the largest shift moves by.
static int64_t largestShift(func::FuncOp function) {
  int64_t most = 0;
  for (auto shift : function.getOps<ShiftOp>()) {
    int64_t factor = getFactor(shift, cast<SequenceType>(shift.getResult().getType()));
    most = std::max(most, factor * std::abs(static_cast<int64_t>(shift.getBy())));
  }
  return most;
}

/// The row of a period with most holes, else the middle one.
static int64_t informativeRow(CrossEntropyOp loss, int64_t period) {
  BlindPattern pattern = findBlindSpots(loss);
  int64_t best = period / 2, most = 0;
  for (size_t row = 0; row < pattern.rows.size(); ++row) {
    int64_t holes = 0;
    for (auto [first, last] : pattern.rows[row].holes) {
      holes += last - first + 1;
    }
    if (holes > most) {
      best = static_cast<int64_t>(row);
      most = holes;
    }
  }
  return best;
}

/// Short enough to read, long enough for two periods after the longest shift and, where that is
/// short, for all that a row sees.
static int64_t lengthFor(CrossEntropyOp loss, int64_t period) {
  constexpr int64_t usual = 20, longContext = 64;
  auto function = loss->getParentOfType<func::FuncOp>();
  int64_t context = 0;
  for (const BlindPattern::Row &row : findBlindSpots(loss).rows) {
    context = std::max(context, row.oldest);
  }
  int64_t tokens = std::max(usual, largestShift(function) + 2 * period);
  tokens = context < longContext ? std::max(tokens, context + 3 * period) : tokens;
  return (tokens + period - 1) / period * period;
}

static std::optional<Picture> pictureOfRow(CrossEntropyOp loss, std::optional<int64_t> row,
                                           std::string &error) {
  auto function = loss->getParentOfType<func::FuncOp>();
  int64_t period = periodOf(function);
  int64_t length = period == 0 || period > widest ? widest + 1 : lengthFor(loss, period);
  if (row && *row >= widest) {
    error = "expected a row below " + std::to_string(widest) + ", found " + std::to_string(*row);
    return std::nullopt;
  }
  if (length > widest) {
    error = "its scales and shifts span more than the " + std::to_string(widest) +
            " tokens that a picture holds";
    return std::nullopt;
  }
  length = std::max(length, row ? *row + 1 : 0);
  int64_t base = std::max<int64_t>(0, length / period - 2) * period;
  int64_t shown = row ? *row : std::min(base + informativeRow(loss, period), length - 1);
  Picture picture = Bands(loss).finish(ReachGraph(function, length), shown);
  picture.length = length;
  return picture;
}

static std::optional<Picture> pictureOfLeak(func::FuncOp function, const CausalWitness &witness,
                                            std::string &error) {
  int64_t length = std::max(witness.length, witness.token + 1);
  std::optional<FoundLeak> leak =
      findLeakAt(function, witness.length, /*missing=*/witness.token >= witness.length);
  if (length > widest || !leak) {
    error = "the leak shows from " + std::to_string(length) + " tokens on, and a picture holds " +
            std::to_string(widest);
    return std::nullopt;
  }
  int64_t period = periodOf(function); // of whole groups, if they fit
  int64_t usual = period == 0 || period > widest ? 0 : lengthFor(leak->loss, period);
  length = usual <= widest ? std::max(length, usual) : length;
  Bands bands(leak->loss);
  ReachGraph graph(function, length);
  Picture picture = bands.finish(graph, witness.row);
  picture.length = length;
  picture.leak = witness.token;
  picture.leakByGrowing = witness.token >= witness.length;
  picture.leakPath.emplace_back(0, witness.token);
  for (auto &[value, position] : llvm::reverse(leak->path)) {
    std::optional<size_t> band = bands.bandOf(value);
    if (band && picture.leakPath.back() != std::pair(*band, position)) {
      picture.leakPath.emplace_back(*band, position);
    }
  }
  return picture;
}

std::optional<Picture> sluice::makePicture(ModuleOp module, const CausalVerdict &verdict,
                                           std::optional<int64_t> row, std::string &error) {
  auto function =
      module.lookupSymbol<func::FuncOp>(verdict.refusedMode == "train" ? "train" : "evaluate");
  if (!function || lossesOf(function).empty()) {
    error = "expected a model with a loss, found none";
    return std::nullopt;
  }
  std::optional<Picture> picture = verdict.witness
                                       ? pictureOfLeak(function, *verdict.witness, error)
                                       : pictureOfRow(lossesOf(function).front(), row, error);
  auto name = module->getAttrOfType<StringAttr>("sluice.name");
  if (picture && name) {
    picture->name = name.str();
  }
  return picture;
}
