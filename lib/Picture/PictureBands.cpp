// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds bands and the edges between them, with the positions that a row reads.
#include "PictureBands.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Recurrence.h"
#include "sluice/Explain/FixedSegments.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/Reach.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Picture/Picture.h"
#include "sluice/Proof/Scales.h"

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Returns true if the bits that define these ends or counts begin segments.
static bool beginSegments(Value endsOrCounts) {
  auto cut = endsOrCounts.getDefiningOp<SegmentOp>();
  return cut && BoundaryRules(cut->getParentOfType<func::FuncOp>()).begins(cut);
}

static std::string nameOfMask(AttentionOp op, IntegerSet mask) {
  if (ScaleRatio scales = getScaleRatio(op); scales.query != scales.key) {
    MaskWords words = describeMask(mask, scales);
    return words.kind == MaskWords::Causal          ? "causal"
           : words.kind == MaskWords::Complete      ? "complete"
           : words.kind == MaskWords::Bidirectional ? "bidirectional"
           : words.kind == MaskWords::Window
               ? "window " + std::to_string(words.begin) + " to " + std::to_string(words.end)
           : words.kind == MaskWords::Tokens
               ? "tokens " + std::to_string(words.begin) + " to " + std::to_string(words.end)
               : "own mask";
  }
  if (MaskWords words = describeMask(mask, {}); words.kind == MaskWords::Block) {
    return "blocks of " + std::to_string(words.end) + " from " + std::to_string(words.begin);
  }
  MaskBounds bounds = solveMask(mask);
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

/// Returns the name of a mask: "causal from 3" if keys begin at row 3.
static std::string nameOfMask(AttentionOp op) {
  auto [strided, first] = splitFirstKey(op.getMask());
  auto [mask, stride] = splitStride(strided);
  return nameOfMask(op, mask) + (stride > 1 ? " step " + std::to_string(stride) : "") +
         (first > 0 ? " from " + std::to_string(first) : "");
}

/// Returns the name of a group: "4" or, with a different window, "4, window 8".
static std::string nameOfGroup(RowGroup group) {
  return std::to_string(group.factor) +
         (group.window == group.factor ? "" : ", window " + std::to_string(group.window));
}

StringRef sluice::findScan(Operation *op) {
  StringRef part = getOriginPart(op); // a part such as "smooth.left.wide"
  for (StringRef kind : {"smooth", "greatest"}) {
    if (part == kind || part.starts_with((kind + ".").str())) {
      return kind;
    }
  }
  return {};
}

static std::string nameOfMap(Operation *op) {
  if (StringRef scan = findScan(op); !scan.empty()) {
    return scan == "smooth" ? "moving average" : "maxima within segments";
  }
  if (auto shift = dyn_cast<ShiftOp>(op)) {
    return "shift " + std::to_string(static_cast<int64_t>(shift.getBy()));
  }
  if (auto start = dyn_cast<StartOp>(op)) {
    return "learned start " + std::to_string(static_cast<int64_t>(start.getBy()));
  }
  if (auto upsample = dyn_cast<UpsampleOp>(op)) {
    return "upsample " + std::to_string(upsample.getFactor());
  }
  if (auto unfold = dyn_cast<UnfoldOp>(op)) {
    return "linear upsample " + std::to_string(unfold.getFactor());
  }
  if (auto shorten = dyn_cast<ShortenOp>(op)) {
    return shorten.getWord().str() + " of " + nameOfGroup(shorten.getRowGroup());
  }
  if (auto fold = dyn_cast<FoldOp>(op)) {
    return "linear map of " + nameOfGroup(fold.getRowGroup());
  }
  if (auto spread = dyn_cast<SpreadSegmentsOp>(op)) {
    int64_t back =
        static_cast<int64_t>(spread.getBy()) - (beginSegments(spread.getCounts()) ? 1 : 0);
    return back < 0    ? "next segment"
           : back == 0 ? "own segment"
                       : std::to_string(back) + " segment" + (back == 1 ? "" : "s") + " back";
  }
  if (isa<PoolSegmentsOp>(op)) {
    return "means of segments";
  }
  if (auto select = dyn_cast<SelectSegmentsOp>(op)) {
    return beginSegments(select.getEnds()) ? "first rows of segments" : "last rows of segments";
  }
  if (isa<AttendSegmentsOp, AttendPartsOp>(op)) {
    return isa<AttendPartsOp>(op) ? "attention over a segment" : "attention of segments";
  }
  if (isa<HashedAttentionOp>(op)) {
    return "LSH attention";
  }
  return isa<MapOp>(op) ? "add" : op->getName().stripDialect().str();
}

static std::string getBandLabel(const BandDraft &draft) {
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
         !isOfBoundaries(op->getOpOperand(operand)) && flow.getRelation(operand).has_value();
}

/// Returns true if a row reads the row of the segment that its count selects.
static bool readsItsSegment(const BandSource &source) {
  auto findScale = [](Value value) { return cast<SequenceType>(value.getType()).getScale(); };
  auto segments = dyn_cast_if_present<SegmentsInterface>(source.reader);
  return segments && segments.movesRows(source.operand) &&
         findScale(source.reader->getResult(0)) == findScale(segments.getCounts());
}

BandSource Bands::findSource(Operation *op, unsigned operand) const {
  BandSource source{op->getOperand(operand), {}, op, operand};
  while (isLazy(source.root.getDefiningOp())) {
    source.maps.push_back(source.root.getDefiningOp());
    source.root = source.root.getDefiningOp()->getOperand(0);
  }
  return source;
}

/// Returns the band of a value that is read position by position. Creates a separate band for a map
/// that is not stored.
int Bands::bandFor(Value value) {
  auto found = known.find(value);
  if (found != known.end() || !isLazy(value.getDefiningOp())) {
    return found == known.end() ? -1 : found->second;
  }
  BandSource source = findSource(value.getDefiningOp(), 0);
  source.maps.insert(source.maps.begin(), value.getDefiningOp());
  source.reader = nullptr;
  int band = makeBand(value.getDefiningOp(), {source});
  drafts.back().label = isa<ShiftOp>(value.getDefiningOp()) ? "shifted" : "upsampled";
  drafts[static_cast<size_t>(band)].values.push_back(value);
  return known[value] = band;
}

int Bands::makeBand(Operation *op, std::vector<BandSource> sources) {
  drafts.push_back({op, nameOfMap(op), "", 0, false, {}, false});
  for (BandSource &source : sources) {
    edges.emplace_back(drafts.size() - 1, std::move(source));
  }
  return static_cast<int>(drafts.size()) - 1;
}

/// Drops an attention's read of its own position, if another read of the same band includes it.
void Bands::dropOwnPosition(Operation *op, std::vector<BandSource> &sources) {
  for (size_t i = 0; isa<AttentionOp>(op) && i < sources.size(); ++i) {
    bool isCovered =
        isPointwise(op, sources[i].operand) && llvm::any_of(sources, [&](const BandSource &other) {
          return &other != &sources[i] && bandFor(other.root) == bandFor(sources[i].root);
        });
    if (isCovered) {
      sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
}

/// Adds one operand to the sources, and to `pointwise` the band that the op may join. A sum of an
/// upsampled stream and another stream is an upsampling into a separate band.
void Bands::addSource(Operation *op, unsigned operand, SmallVector<int> &pointwise,
                      std::vector<BandSource> &sources) {
  BandSource source = findSource(op, operand);
  bool isOwn = isPointwise(op, operand);
  bool isKnown = llvm::any_of(sources, [&](const BandSource &other) {
    return bandFor(other.root) == bandFor(source.root) && other.maps == source.maps &&
           isOwn == isPointwise(op, other.operand);
  });
  if (isKnown) {
    return;
  }
  bool sums = isa<MapOp>(op) && op->getNumOperands() > 1;
  if (isOwn && (source.maps.empty() || !sums || known.count(op->getOperand(operand)))) {
    int band = bandFor(op->getOperand(operand));
    if (band < 0 || llvm::is_contained(pointwise, band)) {
      return;
    }
    pointwise.push_back(band);
    source.maps.clear();
    source.root = op->getOperand(operand);
  }
  sources.push_back(std::move(source));
}

/// Returns the only band that is read, or the band of an attention whose input is added to it; -1
/// if the op needs a new band.
int Bands::bandToJoin(size_t sources, ArrayRef<int> pointwise) {
  if (sources == 1 && pointwise.size() == 1) {
    return pointwise[0];
  }
  if (sources != 2 || pointwise.size() != 2) {
    return -1;
  }
  auto [low, high] = std::minmax(pointwise[0], pointwise[1]);
  BandDraft &attention = drafts[static_cast<size_t>(high)];
  bool isResidual =
      !attention.mask.empty() && llvm::all_of(edges, [&, low = low, high = high](const auto &edge) {
        return edge.first != static_cast<size_t>(high) || bandFor(edge.second.root) == low;
      });
  if (!isResidual) {
    return -1;
  }
  attention.residual = true;
  attention.values.clear(); // values before the sum are inside the band
  return high;
}

/// Adds a scan's band. Rows with the numbers of segments belong to it; their computation is not
/// drawn.
bool Bands::addToScan(Operation *op) {
  if (findScan(op).empty()) {
    return false;
  }
  if (!isa<RecurrenceOp>(op)) {
    return true;
  }
  bandFor(op->getOperand(0));
  makeBand(op, {BandSource{op->getOperand(0), {}, op, 0}});
  drafts.back().isScan = true;
  drafts.back().values = {op->getResult(0)};
  known[op->getResult(0)] = static_cast<int>(drafts.size()) - 1;
  return true;
}

/// Adds the op to the band that it reads position by position. A residual sum joins the band of the
/// attention; any other op that reads several bands, or other positions, gets a new band.
void Bands::add(Operation *op) {
  if (addToScan(op)) {
    return;
  }
  SmallVector<int> pointwise;
  std::vector<BandSource> sources;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (readsSequence(op, i)) {
      addSource(op, i, pointwise, sources);
    }
  }
  int band = bandToJoin(sources.size(), pointwise);
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

/// Merges a layer into the next layer if only that layer reads it and both have the same mask.
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

/// Returns the name of tokens that are not predicted: the name of the given input.
static std::string nameOfTokens(BlockArgument argument) {
  std::optional<InputTokens> given = findInputTokens(argument);
  return given ? given->name.str() : "other tokens";
}

Bands::Bands(CrossEntropyOp loss) : loss(loss) {
  auto function = loss->getParentOfType<func::FuncOp>();
  llvm::DenseSet<Operation *> live = {loss};
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    // Values that only define segments are drawn as segments.
    if (llvm::any_of(op.getUses(), [&](OpOperand &use) {
          return live.contains(use.getOwner()) && !isOfBoundaries(use);
        })) {
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
      drafts.push_back({nullptr, nameOfTokens(argument), "", 0, false, {argument}, false});
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

/// Adds the positions of the root that `position` of the edge's upper band reads: through all
/// merged layers for layers, through the maps for other ops.
void Bands::appendReads(const ReachGraph &graph, const BandDraft &draft, const BandSource &source,
                        PictureEdge &edge) const {
  Value top = draft.op->getResult(0), root = source.root;
  int64_t positions = graph.getLength(top), n = graph.getLength(root);
  for (int64_t p = 0; p < positions; ++p) {
    int64_t first = n, last = -1;
    bool reachesFar = !draft.mask.empty() && !isPointwise(source.reader, source.operand);
    if (draft.isScan || reachesFar) {
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

/// Returns the index of a band among the drawn bands.
size_t Bands::getBandIndex(size_t draft) const {
  size_t index = 0;
  for (size_t i = 0; i < draft; ++i) {
    index += !drafts[i].merged;
  }
  return index;
}

std::optional<size_t> Bands::findBand(Value value) const {
  auto found = known.find(value);
  if (found == known.end() || found->second < 0) {
    return std::nullopt;
  }
  auto draft = static_cast<size_t>(found->second);
  return drafts[draft].merged ? std::nullopt : std::optional(getBandIndex(draft));
}

PictureBand Bands::finishBand(const ReachGraph &graph, const BandDraft &draft,
                              const ReachSets &sets) const {
  Value top = draft.op ? draft.op->getResult(0) : draft.values.front();
  PictureBand band;
  band.label = getBandLabel(draft);
  band.place = draft.op ? getOpLocation(draft.op) : spec::SourceLocation();
  band.factor = getFactor(loss, cast<SequenceType>(top.getType()));
  for (int64_t row = 0; graph.getFirstToken(top, row) && row <= graph.getLength(top); ++row) {
    band.starts.push_back(*graph.getFirstToken(top, row));
    band.axis =
        Scales(loss->getParentOfType<func::FuncOp>()).findSequenceAxis(top).getValue().str();
  }
  band.seen.resize(static_cast<size_t>(graph.getLength(top)));
  for (Value value : draft.values) {
    auto set = sets.find(value);
    if (set != sets.end()) {
      for (unsigned p : set->second.set_bits()) {
        band.seen[p] = true;
      }
    }
  }
  return band;
}

PictureEdge Bands::finishEdge(const ReachGraph &graph, size_t above,
                              const BandSource &source) const {
  const BandDraft &draft = drafts[above];
  PictureEdge edge;
  edge.below = *findBand(source.root);
  edge.above = getBandIndex(above);
  for (Operation *map : llvm::reverse(source.maps)) {
    edge.shifts |= cast<CausalFlowInterface>(map).getShift().value_or(0) != 0;
    edge.label += (edge.label.empty() ? "" : ", ") + nameOfMap(map);
  }
  bool own = !source.reader || isPointwise(source.reader, source.operand);
  edge.kind = draft.isScan                  ? PictureEdge::Kind::Scan
              : !own && !draft.mask.empty() ? PictureEdge::Kind::Attention
              : readsItsSegment(source)     ? PictureEdge::Kind::Map
              : !own                        ? PictureEdge::Kind::Group
              : source.maps.empty()         ? PictureEdge::Kind::Same
                                            : PictureEdge::Kind::Map;
  appendReads(graph, draft, source, edge);
  return edge;
}

Picture Bands::finish(const ReachGraph &graph, int64_t row) const {
  Picture picture;
  picture.row = row;
  picture.target = row + static_cast<int64_t>(loss.getOffset());
  ReachSets sets = graph.sees(loss.getInput(), row);
  for (const BandDraft &draft : drafts) {
    if (!draft.merged) {
      picture.bands.push_back(finishBand(graph, draft, sets));
    }
  }
  for (const auto &[above, source] : edges) {
    if (!drafts[above].merged && findBand(source.root)) {
      picture.edges.push_back(finishEdge(graph, above, source));
    }
  }
  llvm::sort(picture.edges, [](const auto &x, const auto &y) {
    return std::tie(x.above, x.below, x.label) < std::tie(y.above, y.below, y.label);
  });
  return picture;
}
