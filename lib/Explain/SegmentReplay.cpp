// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replays a leak under given boundaries with inputs that produce these boundaries: tokens if a rule
// determines them, forced bits if a predictor does.
#include "sluice/Explain/SegmentReplay.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Scales.h"

using namespace mlir;
using namespace sluice;

/// Returns the rows that are 1 in the table of a rule that this value reads; none if it reads no
/// such table.
static std::optional<DenseSet<int64_t>> findMembers(Value table) {
  auto read = table.getDefiningOp<ReadOp>();
  auto parameter =
      read ? SymbolTable::lookupNearestSymbolFrom<ParameterOp>(read, read.getParameterAttr())
           : ParameterOp();
  if (!parameter || parameter.getInitial() != "members") {
    return std::nullopt;
  }
  ArrayRef<int64_t> rows = parameter.getMembers().value_or(ArrayRef<int64_t>());
  return DenseSet<int64_t>(rows.begin(), rows.end());
}

/// Records the source of bits that the end of a document forces: tokens, read through shifts and
/// ends of segments.
static bool readDocumentEnds(Value bits, BoundaryRules::BoundarySource &source) {
  SmallVector<SegmentOp> path;
  while (!bits.getDefiningOp<EmbedOp>()) {
    auto shift = bits.getDefiningOp<ShiftOp>();
    auto select = bits.getDefiningOp<SelectSegmentsOp>();
    auto map = bits.getDefiningOp<MapOp>();
    bool isStored = map && map.getNumOperands() == 1 &&
                    map.getBody().front().getTerminator()->getOperand(0) ==
                        map.getBody().front().getArgument(0);
    if (!select && !isStored && (!shift || shift.getBy() != 1)) {
      return false;
    }
    if (!isStored) {
      path.push_back(select ? select.getEnds().getDefiningOp<SegmentOp>() : SegmentOp());
    }
    bits = bits.getDefiningOp()->getOperand(0);
  }
  auto members = findMembers(bits.getDefiningOp<EmbedOp>().getTable());
  source.documentEnds = members.value_or(DenseSet<int64_t>());
  source.toDocument = std::move(path);
  return members.has_value();
}

/// Records the effect of a map of two operands on bits, its first operand. Returns false for other
/// maps.
static bool readMap(MapOp map, BoundaryRules::BoundarySource &source) {
  Value other = map.getInputs().back();
  if (auto position = other.getDefiningOp<PositionOp>()) {
    source.hasFirst = true;
    return findMembers(position.getTable()).has_value();
  }
  auto before = other.getDefiningOp<ShiftOp>();
  if (before && before.getInput() == map.getInputs().front()) {
    source.isChange = true;
    return true;
  }
  if (readDocumentEnds(other, source)) {
    return true;
  }
  return other.getDefiningOp<SelectSegmentsOp>() != nullptr; // bits of closed segments
}

/// Returns the bit that a rule gives the first row, independent of the rule's input: a map yields
/// this constant where a table of positions, its last operand, is 1. Returns none for any other
/// map.
static std::optional<bool> findFirstBit(MapOp map) {
  auto position = map.getInputs().back().getDefiningOp<PositionOp>();
  auto members = position ? findMembers(position.getTable()) : std::nullopt;
  Operation *yield = map.getBody().front().getTerminator();
  auto select = yield->getOperand(0).getDefiningOp<arith::SelectOp>();
  llvm::APFloat first(0.0f);
  if (!members || !members->contains(0) || !select ||
      !matchPattern(select.getTrueValue(), m_ConstantFloat(&first))) {
    return std::nullopt;
  }
  return !first.isZero();
}

static BoundaryRules::BoundarySource findSource(Value bits) {
  BoundaryRules::BoundarySource source;
  for (Operation *op = bits.getDefiningOp(); op; op = bits.getDefiningOp()) {
    auto select = dyn_cast<SelectSegmentsOp>(op);
    auto map = dyn_cast<MapOp>(op);
    if (map && map.getNumOperands() == 1) { // a router rounds its bits after they are forced
      auto inner = map.getOperand(0).getDefiningOp<MapOp>();
      while (inner && inner.getNumOperands() == 2 && readMap(inner, source)) {
        inner = inner.getOperand(0).getDefiningOp<MapOp>();
      }
      return source;
    }
    if (map && map.getNumOperands() > 2) {
      std::optional<bool> first = findFirstBit(map);
      source.isNeverFirst = first && !*first;
      source.hasFirst |= first && *first;
      return source;
    }
    if (select) {
      source.selected.push_back(select.getEnds().getDefiningOp<SegmentOp>());
    } else if (!map || map.getNumOperands() != 2 || !readMap(map, source)) {
      bool isPosition = isa<PositionOp>(op), isToken = isa<EmbedOp>(op);
      auto members = isPosition || isToken ? findMembers(op->getOperands().back()) : std::nullopt;
      if (members && (isToken || source.selected.empty())) {
        source.kind = isToken ? BoundaryRules::ByToken : BoundaryRules::ByPosition;
        source.members = std::move(*members);
      }
      return source;
    }
    bits = op->getOperand(0);
  }
  return source;
}

BoundaryRules::BoundaryRules(func::FuncOp function)
    : function(function), cuts(function.getOps<SegmentOp>()) {
  Scales scales(function);
  for (SegmentOp cut : cuts) {
    sources.push_back(findSource(cut.getBits()));
    sources.back().factor = scales.getScaleFactor(cut.getBits());
    auto scale =
        SymbolTable::lookupNearestSymbolFrom<ScaleOp>(cut, cut.getEnds().getType().getScale());
    auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(cut, scale.getAxisAttr());
    if (auto rows = axis.getRows()) {
      sources.back().capacity = static_cast<int64_t>(*rows);
    }
  }
}

std::optional<size_t> BoundaryRules::findCut(Value bits) const {
  auto at = llvm::find_if(cuts, [&](SegmentOp cut) { return cut.getBits() == bits; });
  return at == cuts.end() ? std::nullopt : std::optional(static_cast<size_t>(at - cuts.begin()));
}

int64_t BoundaryRules::countPlaces(const Boundaries &boundaries, size_t cut, int64_t length) const {
  SegmentOp own = cuts[cut];
  auto scale = cast<SequenceType>(own.getBits().getType()).getScale();
  for (size_t i = 0; i < cut; ++i) { // segments of segments: only closed ones
    SegmentOp outer = cuts[i];
    if (outer.getEnds().getType().getScale() == scale) {
      return static_cast<int64_t>(boundaries[i].size());
    }
  }
  return llvm::divideCeil(length, sources[cut].factor);
}

std::optional<std::vector<int64_t>> BoundaryRules::findRegular(size_t cut, int64_t places) const {
  if (sources[cut].kind != ByPosition) {
    return std::nullopt;
  }
  std::vector<int64_t> ends;
  for (int64_t p = 0; p < places; ++p) {
    if (sources[cut].members.contains(p)) {
      ends.push_back(p);
    }
  }
  return ends;
}

/// Returns true if a run can have these boundaries. Bits at changes of a token's class are never
/// adjacent, except at the first two rows. A run with more segments than an axis has rows ends in
/// an error.
bool BoundaryRules::canBe(const std::vector<int64_t> &ends, size_t cut, int64_t places) const {
  const BoundarySource &source = sources[cut];
  if (static_cast<int64_t>(ends.size()) > source.capacity ||
      (source.isNeverFirst && !source.hasFirst && !ends.empty() && ends.front() == 0)) {
    return false;
  }
  if (source.hasFirst && places > 0 && (ends.empty() || ends.front() != 0)) {
    return false;
  }
  for (size_t i = 1; source.isChange && i < ends.size(); ++i) {
    if (ends[i] == ends[i - 1] + 1 && !(source.hasFirst && ends[i] == 1)) {
      return false;
    }
  }
  return true;
}

bool BoundaryRules::canAllBe(const Boundaries &boundaries, int64_t length) const {
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (!canBe(boundaries[i], i, countPlaces(boundaries, i, length))) {
      return false;
    }
  }
  return true;
}

/// Returns true if a document's end forces a bit at a place.
bool BoundaryRules::endsDocument(const Boundaries &boundaries, size_t cut, int64_t place,
                                 ArrayRef<int32_t> tokens) const {
  for (SegmentOp by : sources[cut].toDocument) {
    place = by ? boundaries[*findCut(by.getBits())][static_cast<size_t>(place)] : place - 1;
    if (place < 0) {
      return false;
    }
  }
  return sources[cut].documentEnds.contains(tokens[static_cast<size_t>(place)]);
}

/// Returns the bits that each token must produce. For bits at changes, tokens with a bit are
/// members; a forced first bit needs no member.
BoundaryRules::Wishes BoundaryRules::computeWishes(const Boundaries &boundaries,
                                                   int64_t length) const {
  Wishes wishes(static_cast<size_t>(length));
  for (size_t i = 0; i < boundaries.size(); ++i) {
    int64_t places = sources[i].kind == ByToken ? countPlaces(boundaries, i, length) : 0;
    for (int64_t p = 0; p < places; ++p) {
      int64_t token = p;
      for (SegmentOp cut : sources[i].selected) {
        token = boundaries[*findCut(cut.getBits())][static_cast<size_t>(token)];
      }
      bool isFirst = sources[i].hasFirst && p == 0;
      bool isMember = llvm::is_contained(boundaries[i], p) && !(isFirst && sources[i].isChange);
      if (!isFirst || sources[i].isChange) {
        wishes[static_cast<size_t>(token)].emplace_back(i, isMember);
      }
    }
  }
  return wishes;
}

/// Returns a token that produces the wanted bits. Never chooses a token that ends a document: all
/// boundaries are possible without it, except adjacent boundaries of a change.
std::optional<int32_t> BoundaryRules::findToken(const Wishes &wishes, int64_t t, bool turned,
                                                std::optional<int32_t> but) const {
  auto module = function->getParentOfType<ModuleOp>();
  auto vocabulary = getFact<SluiceDialect::VocabularyAttrHelper>(module).getInt();
  for (int64_t i = 0; i < vocabulary; ++i) {
    // Adjacent positions get different tokens.
    auto token = static_cast<int32_t>((i + t) % vocabulary);
    bool isEnd = llvm::any_of(
        sources, [&](const BoundarySource &of) { return of.documentEnds.contains(token); });
    if (but != token && !isEnd && llvm::all_of(wishes[static_cast<size_t>(t)], [&](auto wish) {
          return sources[wish.first].members.contains(token) == (wish.second != turned);
        })) {
      return token;
    }
  }
  return std::nullopt;
}

std::optional<std::vector<int32_t>> BoundaryRules::findTokens(const Boundaries &boundaries,
                                                              int64_t length) const {
  if (!canAllBe(boundaries, length)) {
    return std::nullopt;
  }
  Wishes wishes = computeWishes(boundaries, length);
  std::vector<int32_t> tokens;
  for (int64_t t = 0; t < length; ++t) {
    std::optional<int32_t> token = findToken(wishes, t, /*turned=*/false, std::nullopt);
    if (!token) { // a member after a member has no bit, and neither has the token after it
      for (auto &[cut, isMember] : wishes[static_cast<size_t>(t)]) {
        const BoundarySource &source = sources[cut];
        isMember |= source.isChange && source.selected.empty() &&
                    !llvm::is_contained(boundaries[cut], t + 1) &&
                    (t > 0 ? source.members.contains(tokens.back()) : source.hasFirst);
      }
      token = findToken(wishes, t, /*turned=*/false, std::nullopt);
    }
    if (!token) {
      return std::nullopt;
    }
    tokens.push_back(*token);
  }
  return tokens;
}

BoundaryRules::CutRow BoundaryRules::computeRow(const Boundaries &boundaries, size_t cut, int64_t p,
                                                int64_t length) const {
  CutRow row{p, p, p};
  SegmentOp own = cuts[cut];
  for (size_t outer = cut; outer-- > 0;) {
    SegmentOp made = cuts[outer];
    if (made.getEnds().getType().getScale() != own.getBits().getType().getScale()) {
      continue;
    }
    const std::vector<int64_t> &ends = boundaries[outer];
    auto getSegmentEnd = [&](int64_t segment) { return ends[static_cast<size_t>(segment)]; };
    row.asked = getSegmentEnd(row.asked);
    if (begins(outer)) {
      row.first = getSegmentEnd(row.first);
      row.last = (row.last + 1 < static_cast<int64_t>(ends.size())
                      ? getSegmentEnd(row.last + 1)
                      : countPlaces(boundaries, outer, length)) -
                 1;
    } else {
      row.first = row.first == 0 ? 0 : getSegmentEnd(row.first - 1) + 1;
      row.last = getSegmentEnd(row.last);
    }
    own = made;
    ++row.level;
  }
  int64_t factor = Scales(function).getScaleFactor(own.getBits());
  row.first *= factor;
  row.last = std::min(row.last * factor + factor, length) - 1;
  row.asked = std::min(row.asked * factor + factor, length) - 1;
  return row;
}

std::optional<Boundaries> BoundaryRules::replayBoundaries(ArrayRef<int32_t> tokens,
                                                          ArrayRef<int64_t> marks) const {
  auto length = static_cast<int64_t>(tokens.size());
  bool isMarked = llvm::any_of(marks, [](int64_t levels) { return levels > 0; });
  Boundaries boundaries;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const BoundarySource &source = sources[i];
    if (source.kind == Predicted && !isMarked) {
      return std::nullopt;
    }
    auto isMember = [&](int64_t token) {
      return token >= 0 && source.members.contains(tokens[static_cast<size_t>(token)]);
    };
    auto isMarkedBehind = [&](int64_t token, int64_t level) {
      return token >= 0 && marks[static_cast<size_t>(token)] >= level;
    };
    int64_t places = countPlaces(boundaries, i, length);
    std::vector<int64_t> ends;
    for (int64_t p = 0; p < places; ++p) {
      CutRow row = computeRow(boundaries, i, p, length);
      bool isEnd = source.kind == ByPosition ? source.members.contains(p)
                   : source.kind == ByToken
                       ? isMember(row.asked) && !(source.isChange && isMember(row.asked - 1))
                       : isMarkedBehind(begins(i) ? row.first - 1 : row.last, row.level);
      if (isEnd || (source.hasFirst && p == 0) || endsDocument(boundaries, i, p, tokens)) {
        ends.push_back(p);
      }
    }
    boundaries.push_back(std::move(ends));
  }
  return boundaries;
}

ForcedBits BoundaryRules::findBits(const Boundaries &boundaries, int64_t length) const {
  int64_t rows = std::max(getContext(function), length) + 1;
  ForcedBits forced(boundaries.size());
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (sources[i].kind == Predicted) {
      forced[i].resize(static_cast<size_t>(rows));
      for (int64_t end : boundaries[i]) {
        forced[i][static_cast<size_t>(end)] = 1;
      }
    }
  }
  return forced;
}

/// Computes, for later segmentations, boundaries of the segments that remain.
Boundaries BoundaryRules::turnedAt(Boundaries boundaries, size_t cut, int64_t position,
                                   int64_t length) const {
  std::vector<int64_t> &ends = boundaries[cut];
  auto at = llvm::lower_bound(ends, position);
  if (at != ends.end() && *at == position) {
    ends.erase(at);
  } else {
    ends.insert(at, position);
  }
  for (size_t i = cut + 1; i < boundaries.size(); ++i) {
    int64_t places = countPlaces(boundaries, i, length);
    llvm::erase_if(boundaries[i], [&](int64_t end) { return end >= places; });
  }
  return boundaries;
}

std::vector<SegmentRun> BoundaryRules::findRuns(const FoundLeak &leak,
                                                const Boundaries &boundaries) const {
  int64_t length = leak.witness.length, token = leak.witness.token;
  std::optional<std::vector<int32_t>> tokens = findTokens(boundaries, length);
  if (!tokens) {
    return {};
  }
  Wishes wishes = computeWishes(boundaries, length);
  auto at = static_cast<size_t>(token);
  auto with = [&](bool turned) {
    std::optional<std::vector<int32_t>> changed;
    if (auto other = findToken(wishes, token, turned, tokens->at(at))) {
      changed = tokens;
      changed->at(at) = *other;
    }
    return changed;
  };
  std::string changed = "token " + std::to_string(token) + " changed";
  std::vector<SegmentRun> runs = {{*tokens, findBits(boundaries, length), ""}};
  auto same = with(/*turned=*/false);
  if (same) {
    runs.push_back({*same, runs[0].bits, changed + " under the same boundaries"});
  }
  for (auto [value, position] : leak.path) {
    std::optional<size_t> cut = findCut(value);
    if (!cut || runs[0].bits[*cut].empty()) {
      continue;
    }
    Boundaries turned = turnedAt(boundaries, *cut, position, length);
    if (canAllBe(turned, length)) {
      runs.push_back(
          {same.value_or(*tokens), findBits(turned, length),
           changed + " and the bit at " + std::to_string(position) + " that is predicted from it"});
    }
  }
  auto other = wishes[at].empty() ? std::nullopt : with(/*turned=*/true);
  if (other) {
    runs.push_back({*other, runs[0].bits, changed + " and the bit that it decides"});
  }
  return runs;
}

void sluice::forceBits(ModuleOp module, const ForcedBits &bits) {
  for (auto [i, rows] : llvm::enumerate(bits)) {
    if (rows.empty()) {
      continue;
    }
    OpBuilder b(module.getBodyRegion());
    auto type = RankedTensorType::get({static_cast<int64_t>(rows.size()), 1}, b.getF32Type());
    std::string name = forcedName(i);
    ParameterOp::create(b, module.getLoc(), name, type, b.getStrArrayAttr({name}),
                        ArrayRef<int64_t>(type.getDimSize(0)), "zeros", llvm::APFloat(0.0),
                        llvm::APFloat(10000.0), /*decay=*/false, /*frozen=*/false, /*stride=*/1,
                        DenseI64ArrayAttr());
    for (auto function : module.getOps<func::FuncOp>()) {
      SmallVector<SegmentOp> cuts(function.getOps<SegmentOp>());
      if (i >= cuts.size()) {
        continue;
      }
      OpBuilder at(cuts[i]);
      Value table = ReadOp::create(at, cuts[i].getLoc(), type, name);
      Value forced = PositionOp::create(at, cuts[i].getLoc(), cuts[i].getBits().getType(), table);
      cuts[i].getBitsMutable().assign(forced);
    }
  }
}
