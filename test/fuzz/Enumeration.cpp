// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Enumeration.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "sluice/Dialect/Sluice/Hashed.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Recurrence.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace sluice;
using namespace sluice::fuzz;

/// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014) over a running combination.
static uint64_t mixHash(uint64_t seed, uint64_t value) {
  uint64_t z = seed * 0x9E3779B97F4A7C15 + value + 0x632BE59BD9B4E019;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return (z ^ (z >> 31)) | 1; // never null
}

static void add(Computation &sum, Computation part) {
  sum.hash = mixHash(sum.hash, part.hash);
  sum.latest = std::max(sum.latest, part.latest);
}

static int64_t floorDiv(int64_t x, int64_t k) { return x >= 0 ? x / k : -((k - 1 - x) / k); }

bool MaskTable::allows(IntegerSet mask, int64_t p, int64_t q, int64_t n) {
  auto usesLength = [](AffineExpr expression) { return expression.isFunctionOfSymbol(0); };
  auto found = known.find(mask);
  if (found == known.end()) {
    bool byLength = llvm::any_of(mask.getConstraints(), usesLength);
    size_t size = byLength ? 0 : static_cast<size_t>(side * side);
    found = known.try_emplace(mask, std::vector<signed char>(size, -1)).first;
  }
  if (found->second.empty() || p >= side || q >= side) {
    return reference::contains(mask, p, q, n);
  }
  signed char &answer = found->second[static_cast<size_t>(p * side + q)];
  if (answer < 0) {
    answer = reference::contains(mask, p, q, n) ? 1 : 0;
  }
  return answer != 0;
}

/// Rows of a segment axis at every length; the axis is larger than the enumerated bits.
static constexpr int64_t mostSegments = 12;
/// Rows of a given axis: any token of an encoder, not the target's tokens.
static constexpr int64_t givenLength = 7;

static bool isRead(Operation *op) {
  return isa<ShiftOp, UpsampleOp, UnfoldOp, LastOp>(op); // no storage of their own
}

Enumeration::Enumeration(func::FuncOp function, int64_t length, MaskTable &masks, int64_t changed,
                         SegmentEnds given)
    : length(length), changed(changed), ends(std::move(given)), masks(masks) {
  DenseMap<Attribute, Attribute> axes;
  DenseMap<Attribute, int64_t> segments; // rows by axis
  for (auto axis : function->getParentOfType<ModuleOp>().getOps<AxisOp>()) {
    if (axis.getSegmentsAttr()) {
      segments[FlatSymbolRefAttr::get(axis.getSymNameAttr())] = mostSegments;
    }
  }
  for (auto cut : function.getOps<SegmentOp>()) {
    cuts.insert({cut, cuts.size()});
  }
  for (auto scale : function->getParentOfType<ModuleOp>().getOps<ScaleOp>()) {
    auto name = FlatSymbolRefAttr::get(scale.getSymNameAttr());
    axes[name] = scale.getAxisAttr();
    scales[name] = {static_cast<int64_t>(scale.getFactor()), false, segments.lookup(axes[name])};
  }
  for (auto loss : function.getOps<CrossEntropyOp>()) {
    Attribute target = axes.at(loss.getTokens().getType().getScale());
    for (auto &[name, scale] : scales) {
      scale.isTarget |= axes.at(name) == target;
    }
  }
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0 || !isa<SequenceType>(op.getResult(0).getType()) || isRead(&op)) {
      continue;
    }
    if (isa<SegmentOp, PoolSegmentsOp, SelectSegmentsOp, SpreadSegmentsOp, AttendSegmentsOp>(op)) {
      for (OpResult result : op.getResults()) {
        stored[result] = evaluateRows(result);
      }
      continue;
    }
    std::vector<Computation> rows;
    for (int64_t p = 0; p < positions(op.getResult(0)); ++p) {
      rows.push_back(compute(&op, p));
    }
    for (Value result : op.getResults()) {
      stored[result] = rows;
    }
  }
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

const std::vector<int64_t> &Enumeration::getSegmentEnds(Value endsOrCounts) const {
  while (auto shift = endsOrCounts.getDefiningOp<ShiftOp>()) {
    endsOrCounts = shift.getInput();
  }
  return ends.at(cuts.lookup(endsOrCounts.getDefiningOp()));
}

std::vector<Computation> Enumeration::evaluateRows(OpResult result) const {
  std::vector<Computation> rows;
  for (int64_t p = 0; p < positions(result); ++p) {
    rows.push_back(computeSegmentRow(result, p));
  }
  return rows;
}

Computation Enumeration::bitsUpTo(Value bits, int64_t position) const {
  Computation all = {5, -1};
  for (int64_t q = 0; q <= position; ++q) {
    add(all, at(bits, q));
  }
  return all;
}

/// The rows of a closed segment, and the values that its begin and end depend on.
Computation Enumeration::pool(PoolSegmentsOp op, int64_t segment) const {
  Computation result = {mixHash(6, reinterpret_cast<uintptr_t>(op.getOperation())), -1};
  const std::vector<int64_t> &at_ = getSegmentEnds(op.getEnds());
  auto closed = static_cast<size_t>(segment + (op.getStarts() ? 1 : 0));
  if (closed >= at_.size()) {
    return result;
  }
  add(result, at(op.getEnds(), static_cast<int64_t>(closed)));
  int64_t last = at_[closed] - (op.getStarts() ? 1 : 0);
  int64_t first = op.getStarts() ? at_[closed - 1] : closed == 0 ? 0 : at_[closed - 1] + 1;
  for (int64_t q = first; q <= last; ++q) {
    add(result, at(op.getInput(), q));
  }
  return result;
}

/// A segment's own row, and the keys and values with which it closes.
Computation Enumeration::attend(AttendSegmentsOp op, int64_t segment) const {
  Computation result = {mixHash(8, reinterpret_cast<uintptr_t>(op.getOperation())), -1};
  const std::vector<int64_t> &at_ = getSegmentEnds(op.getEnds());
  add(result, at(op.getQuery(), segment));
  if (static_cast<size_t>(segment) >= at_.size()) {
    return result;
  }
  add(result, at(op.getEnds(), segment));
  int64_t first = segment == 0 ? 0 : at_[static_cast<size_t>(segment - 1)] + 1;
  for (int64_t q = first; q <= at_[static_cast<size_t>(segment)]; ++q) {
    add(result, at(op.getKey(), q));
    add(result, at(op.getValue(), q));
  }
  return result;
}

Computation Enumeration::computeSegmentRow(OpResult result, int64_t p) const {
  Operation *op = result.getOwner();
  Computation own = {mixHash(7 + result.getResultNumber(), reinterpret_cast<uintptr_t>(op)), -1};
  if (auto pooled = dyn_cast<PoolSegmentsOp>(op)) {
    return pool(pooled, p);
  }
  if (auto attended = dyn_cast<AttendSegmentsOp>(op)) {
    return attend(attended, p);
  }
  if (auto cut = dyn_cast<SegmentOp>(op)) {
    bool isEnd = result == cut.getEnds();
    const std::vector<int64_t> &at_ = ends.at(cuts.lookup(op));
    bool isThere = !isEnd || p < static_cast<int64_t>(at_.size());
    if (isThere) {
      add(own, bitsUpTo(cut.getBits(), isEnd ? at_[static_cast<size_t>(p)] : p));
    }
    return own;
  }
  if (auto select = dyn_cast<SelectSegmentsOp>(op)) {
    const std::vector<int64_t> &at_ = getSegmentEnds(select.getEnds());
    if (p < static_cast<int64_t>(at_.size())) {
      add(own, at(select.getEnds(), p));
      add(own, at(select.getInput(), at_[static_cast<size_t>(p)]));
    }
    return own;
  }
  auto spread = cast<SpreadSegmentsOp>(op);
  Value counts = spread.getCounts();
  int64_t t = p - (spread.getOwn() ? 1 : 0);
  while (auto shift = counts.getDefiningOp<ShiftOp>()) {
    t -= static_cast<int64_t>(shift.getBy());
    counts = shift.getInput();
  }
  int64_t count = llvm::count_if(getSegmentEnds(counts), [&](int64_t end) { return end <= t; });
  add(own, at(counts, t));
  Computation row = at(spread.getInput(), count - static_cast<int64_t>(spread.getBy()));
  own.hash = mixHash(own.hash, static_cast<uint64_t>(count));
  add(own, row);
  return own;
}

int64_t Enumeration::positions(Value value) const {
  Scale scale = findScale(value);
  int64_t tokens = scale.isTarget ? length : scale.rows > 0 ? scale.rows : givenLength;
  return scale.factor == 0 ? 1 : (tokens + scale.factor - 1) / scale.factor;
}

Computation Enumeration::at(Value value, int64_t position) const {
  if (isa<BlockArgument>(value)) {
    if (!findScale(value).isTarget) {
      return {mixHash(4, static_cast<uint64_t>(position)), -1};
    }
    return position < 0 || position >= length
               ? Computation{}
               : Computation{mixHash(position == changed ? 2 : 1, static_cast<uint64_t>(position)),
                             position};
  }
  Operation *op = value.getDefiningOp();
  if (auto shift = dyn_cast<ShiftOp>(op)) {
    return at(shift.getInput(), position - static_cast<int64_t>(shift.getBy()));
  }
  if (auto upsample = dyn_cast<UpsampleOp>(op)) {
    return at(upsample.getInput(), floorDiv(position, static_cast<int64_t>(upsample.getFactor())));
  }
  if (auto unfold = dyn_cast<UnfoldOp>(op)) {
    auto k = static_cast<int64_t>(unfold.getFactor());
    int64_t group = floorDiv(position, k);
    Computation row = at(unfold.getInput(), group);
    if (row.hash != 0) {
      row.hash = mixHash(row.hash, static_cast<uint64_t>(position - group * k));
    }
    return row;
  }
  if (auto last = dyn_cast<LastOp>(op)) {
    return at(last.getInput(), positions(last.getInput()) - 1);
  }
  const std::vector<Computation> &rows = stored.at(value);
  bool there = position >= 0 && position < static_cast<int64_t>(rows.size());
  return there ? rows[static_cast<size_t>(position)] : Computation{};
}

Computation Enumeration::attend(AttentionOp op, int64_t p) const {
  Computation result = at(op.getQuery(), p);
  int64_t n = positions(op.getKey());
  for (int64_t q = 0; q < n; ++q) {
    if (masks.allows(op.getMask(), p, q, n)) {
      result.hash = mixHash(result.hash, static_cast<uint64_t>(q));
      add(result, at(op.getKey(), q));
      add(result, at(op.getValue(), q));
    }
  }
  if (op.getTerms().rows) {
    add(result, at(op.getTerms().query, p));
    for (int64_t distance = 0; distance <= p; ++distance) {
      add(result, at(op.getTerms().rows, distance));
    }
  }
  return result;
}

/// An integer of a map's region at row p; none if it depends on any other value.
static std::optional<int64_t> evaluateAt(Value value, int64_t p) {
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast_or_null<arith::ConstantOp>(op)) {
    auto number = dyn_cast<IntegerAttr>(constant.getValue());
    return number ? std::optional(number.getInt()) : std::nullopt;
  }
  if (isa_and_nonnull<dispatch::PositionOp>(op)) {
    return p;
  }
  if (!isa_and_nonnull<arith::AddIOp, arith::RemSIOp, arith::CmpIOp>(op)) {
    return std::nullopt;
  }
  std::optional<int64_t> x = evaluateAt(op->getOperand(0), p), y = evaluateAt(op->getOperand(1), p);
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!x || !y || (compare && compare.getPredicate() != arith::CmpIPredicate::eq) ||
      (isa<arith::RemSIOp>(op) && *y <= 0)) {
    return std::nullopt;
  }
  return isa<arith::AddIOp>(op) ? *x + *y : compare ? *x == *y : *x % *y;
}

/// Operands that a map's row p uses.
static void collectUsed(Value value, int64_t p, std::set<unsigned> &used) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    used.insert(argument.getArgNumber());
    return;
  }
  if (auto select = value.getDefiningOp<arith::SelectOp>()) {
    if (std::optional<int64_t> holds = evaluateAt(select.getCondition(), p)) {
      return collectUsed(*holds != 0 ? select.getTrueValue() : select.getFalseValue(), p, used);
    }
  }
  for (Value operand : value.getDefiningOp()->getOperands()) {
    collectUsed(operand, p, used);
  }
}

Computation Enumeration::compute(Operation *op, int64_t p) const {
  // The op itself is part of the computation; its address is unique while the module is alive.
  Computation result = {mixHash(3, reinterpret_cast<uintptr_t>(op)), -1};
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    add(result, attend(attention, p));
    return result;
  }
  if (auto hashed = dyn_cast<HashedAttentionOp>(op)) { // any earlier row may share a bucket
    int64_t end = hashed.getSorted() ? positions(hashed.getKey()) : p + 1;
    for (int64_t q = 0; q < end; ++q) {
      result.hash = mixHash(result.hash, static_cast<uint64_t>(q));
      for (Value read :
           {Value(hashed.getKey()), Value(hashed.getValue()), Value(hashed.getBuckets())}) {
        add(result, at(read, q));
      }
    }
    return result;
  }
  if (auto recurrence = dyn_cast<RecurrenceOp>(op)) { // the rows that are computed up to its own
    bool isReversed = recurrence.getReversed();
    int64_t end = isReversed ? positions(recurrence.getInputs().front()) : p + 1;
    for (Value operand : op->getOperands()) {
      for (int64_t q = isReversed ? p : 0; isa<SequenceType>(operand.getType()) && q < end; ++q) {
        add(result, at(operand, q));
      }
    }
    return result;
  }
  if (auto total = dyn_cast<TotalOp>(op)) {
    for (int64_t q = 0; q < positions(total.getInput()); ++q) {
      add(result, at(total.getInput(), q));
    }
    return result;
  }
  int64_t group = 1, window = 1;
  if (isa<ShortenOp, FoldOp>(op)) {
    group = op->getAttrOfType<IntegerAttr>("factor").getInt();
    auto given = op->getAttrOfType<IntegerAttr>("window");
    window = given && given.getInt() != 0 ? given.getInt() : group;
  } else if (auto start = dyn_cast<StartOp>(op)) { // its own row replaces a missing one
    p -= static_cast<int64_t>(start.getBy());
  } else if (isa<PositionOp>(op)) {
    result.hash = mixHash(result.hash, static_cast<uint64_t>(p));
  } else if (auto labels = dyn_cast<LabelsOp>(op)) { // each may follow from any token
    for (int64_t q = 0; q < positions(labels.getTokens()); ++q) {
      add(result, at(labels.getTokens(), q));
    }
  } else if (auto contrast = dyn_cast<ContrastOp>(op)) { // every row is a candidate
    for (int64_t q = 0; q < positions(contrast.getCandidates()); ++q) {
      add(result, at(contrast.getCandidates(), q));
    }
  }
  std::set<unsigned> used;
  auto map = dyn_cast<MapOp>(op);
  if (map && map->getNumOperands() == 2) {
    collectUsed(map.getBody().front().getTerminator()->getOperand(0), p, used);
    result.hash = mixHash(result.hash, used.size() == 1 ? *used.begin() + 1 : 0);
  }
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    bool isTarget = isa<CrossEntropyOp>(op) && i > 0;
    bool isUnused = !used.empty() && !used.contains(static_cast<unsigned>(i));
    if (!isa<SequenceType>(operand.getType()) || isTarget || isUnused) {
      continue;
    }
    for (int64_t j = group - window; j < group; ++j) {
      add(result, at(operand, group * p + j));
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// The theorem at small lengths
//===----------------------------------------------------------------------===//

namespace {
/// Constants of a mask: its maximum reach and its period in rows.
struct MaskSize {
  explicit MaskSize(IntegerSet mask) {
    for (AffineExpr constraint : mask.getConstraints()) {
      constraint.walk([&](AffineExpr part) { add(part); });
    }
  }
  int64_t reach = 0, period = 1;

private:
  void add(AffineExpr part) {
    auto binary = dyn_cast<AffineBinaryOpExpr>(part);
    auto constant = binary ? dyn_cast<AffineConstantExpr>(binary.getRHS()) : AffineConstantExpr();
    if (!constant) {
      return;
    }
    if (binary.getKind() == AffineExprKind::Add) {
      reach += std::abs(constant.getValue());
    } else if (binary.getKind() != AffineExprKind::Mul) {
      period = std::lcm(period, constant.getValue());
    }
  }
};
} // namespace

int64_t fuzz::longestToEnumerate(func::FuncOp function) {
  int64_t period = 1, reach = 0;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0 || !isa<SequenceType>(op.getResult(0).getType())) {
      continue;
    }
    int64_t factor = getFactor(&op, cast<SequenceType>(op.getResult(0).getType()));
    period = std::lcm(period, std::max<int64_t>(1, factor));
    if (isa<ShiftOp, StartOp>(op)) {
      int64_t by = op.getAttrOfType<IntegerAttr>("by").getInt();
      reach = std::max(reach, factor * std::abs(by));
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      MaskSize mask(attention.getMask());
      reach = std::max(reach, factor * mask.reach);
      period = std::lcm(period, std::max<int64_t>(1, factor) * mask.period);
    } else if (auto map = dyn_cast<MapOp>(op)) { // remainders that select an operand
      map.walk([&](arith::RemSIOp remainder) {
        int64_t k = evaluateAt(remainder.getRhs(), 0).value_or(1);
        period = std::lcm(period, std::max<int64_t>(1, factor) * std::max<int64_t>(1, k));
      });
    }
  }
  return 2 * period + reach;
}

std::optional<Violation> fuzz::enumerateViolation(func::FuncOp function, int64_t longest) {
  MaskTable masks;
  auto losses = llvm::to_vector(function.getOps<CrossEntropyOp>());
  std::vector<std::vector<uint64_t>> first(losses.size()); // hash of row t at length t + 1
  for (int64_t length = 1; length <= longest; ++length) {
    Enumeration rows(function, length, masks);
    for (auto [loss, hashes] : llvm::zip_equal(losses, first)) {
      hashes.push_back(rows.at(loss.getInput(), length - 1).hash);
      int64_t ahead = std::min<int64_t>(0, static_cast<int64_t>(loss.getOffset()) - 1);
      for (int64_t row = 0; row < length; ++row) {
        Computation found = rows.at(loss.getInput(), row);
        if (found.latest > row + ahead) {
          return Violation{length, row, found.latest};
        }
        if (found.hash != hashes[static_cast<size_t>(row)]) {
          return Violation{length, row, -1};
        }
      }
    }
  }
  return std::nullopt;
}

namespace {
/// Enumerates all bits of a function's cuts, level by level.
class SegmentStrings {
public:
  explicit SegmentStrings(func::FuncOp function)
      : function(function), losses(function.getOps<CrossEntropyOp>()) {
    for (auto cut : function.getOps<SegmentOp>()) {
      cuts.push_back(cut);
    }
  }
  std::optional<Violation> find(int64_t length) { return extend(length, {}); }

private:
  int64_t countEndPlaces(size_t cut, const SegmentEnds &ends, int64_t length) const;
  std::optional<Violation> extend(int64_t length, SegmentEnds ends);
  std::optional<Violation> findViolation(int64_t length, const SegmentEnds &ends);
  SegmentEnds shorterBy(int64_t length, SegmentEnds ends) const;

  func::FuncOp function;
  SmallVector<CrossEntropyOp> losses;
  SmallVector<SegmentOp> cuts;
  MaskTable masks;
  std::map<std::pair<int64_t, SegmentEnds>, std::vector<uint64_t>> known; ///< hashes of all rows
};

/// Closed segments have bits.
int64_t SegmentStrings::countEndPlaces(size_t cut, const SegmentEnds &ends, int64_t length) const {
  SegmentOp own = cuts[cut];
  SequenceType type = own.getBits().getType();
  for (size_t i = 0; i < cut; ++i) {
    SegmentOp outer = cuts[i];
    if (outer.getEnds().getType().getScale() == type.getScale()) {
      return static_cast<int64_t>(ends[i].size());
    }
  }
  int64_t factor = getFactor(own, type);
  return ((isGiven(own, type) ? givenLength : length) + factor - 1) / factor;
}

std::optional<Violation> SegmentStrings::extend(int64_t length, SegmentEnds ends) {
  size_t cut = ends.size();
  if (cut == cuts.size()) {
    return findViolation(length, ends);
  }
  int64_t places = countEndPlaces(cut, ends, length);
  ends.emplace_back();
  // A bit closes the last segment of a given axis.
  bool isClosed = isGiven(cuts[cut], cuts[cut].getBits().getType());
  for (int64_t bits = isClosed ? int64_t{1} << (places - 1) : 0; bits < (int64_t{1} << places);
       ++bits) {
    ends.back().clear();
    for (int64_t p = 0; p < places; ++p) {
      if (bits >> p & 1) {
        ends.back().push_back(p);
      }
    }
    if (auto violation = extend(length, ends)) {
      return violation;
    }
  }
  return std::nullopt;
}

/// Bits of the sequence without its last token.
SegmentEnds SegmentStrings::shorterBy(int64_t length, SegmentEnds ends) const {
  for (size_t cut = 0; cut < cuts.size(); ++cut) {
    int64_t places = countEndPlaces(cut, ends, length);
    llvm::erase_if(ends[cut], [&](int64_t end) { return end >= places; });
  }
  return ends;
}

std::optional<Violation> SegmentStrings::findViolation(int64_t length, const SegmentEnds &ends) {
  Enumeration rows(function, length, masks, -1, ends);
  std::vector<uint64_t> &hashes = known[{length, ends}];
  for (CrossEntropyOp loss : losses) {
    int64_t ahead = std::min<int64_t>(0, static_cast<int64_t>(loss.getOffset()) - 1);
    for (int64_t row = 0; row < length; ++row) {
      Computation found = rows.at(loss.getInput(), row);
      if (found.latest > row + ahead) {
        return Violation{length, row, found.latest};
      }
      hashes.push_back(found.hash);
    }
  }
  if (length == 1) {
    return std::nullopt;
  }
  const std::vector<uint64_t> &before = known.at({length - 1, shorterBy(length - 1, ends)});
  auto rowsOfLoss = static_cast<size_t>(length);
  for (size_t i = 0; i < hashes.size(); ++i) {
    size_t loss = i / rowsOfLoss, row = i % rowsOfLoss;
    if (row + 1 < rowsOfLoss && hashes[i] != before[loss * (rowsOfLoss - 1) + row]) {
      return Violation{length, static_cast<int64_t>(row), -1};
    }
  }
  return std::nullopt;
}
} // namespace

std::optional<Violation> fuzz::enumerateSegments(func::FuncOp function, int64_t longest) {
  SegmentStrings strings(function);
  for (int64_t length = 1; length <= longest; ++length) {
    if (auto violation = strings.find(length)) {
      return violation;
    }
  }
  return std::nullopt;
}

bool fuzz::rowDependsOn(func::FuncOp function, int64_t length, int64_t row, int64_t token) {
  MaskTable masks;
  Enumeration before(function, length, masks);
  Enumeration after(function, std::max(length, token + 1), masks, token < length ? token : -1);
  for (auto loss : function.getOps<CrossEntropyOp>()) {
    if (before.at(loss.getInput(), row).hash != after.at(loss.getInput(), row).hash) {
      return true;
    }
  }
  return false;
}
