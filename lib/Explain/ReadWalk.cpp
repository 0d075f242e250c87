// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows reads at one length, position by position.
#include "sluice/Explain/ReadWalk.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Proof/Frontier.h"

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

/// Greater than every length, and small enough to compute with.
constexpr int64_t beyond = int64_t{1} << 61;

int64_t LazyMap::at(int64_t p) const {
  __int128 distance = static_cast<__int128>(p) - shift;
  return llvm::divideFloorSigned(
      static_cast<int64_t>(std::clamp<__int128>(distance, -beyond, beyond)), factor);
}

/// Returns the constant operand of a sum or a division; none for any other expression.
static std::optional<int64_t> getConstantValue(AffineExpr expression, AffineExprKind kind) {
  auto binary = dyn_cast_if_present<AffineBinaryOpExpr>(expression);
  auto constant = binary && binary.getKind() == kind ? dyn_cast<AffineConstantExpr>(binary.getRHS())
                                                     : AffineConstantExpr();
  return constant ? std::optional(constant.getValue()) : std::nullopt;
}

/// Composes two maps: floor((floor((p - s) / f) - by) / k) = floor((p - s - f by) / (f k)), where
/// the op that is read first is the inner map.
static std::optional<LazyMap> mapThrough(CausalFlowInterface op, const LazyMap *source) {
  LazyMap map = source ? *source : LazyMap{op->getOperand(0), 0, 1};
  __int128 by = 0, k = 1;
  AffineExpr position = op.getLatest(0); // (p - by) floordiv k
  if (auto divisor = getConstantValue(position, AffineExprKind::FloorDiv)) {
    k = *divisor;
    position = cast<AffineBinaryOpExpr>(position).getLHS();
  }
  if (auto addend = getConstantValue(position, AffineExprKind::Add)) {
    by = -static_cast<__int128>(*addend);
    position = cast<AffineBinaryOpExpr>(position).getLHS();
  }
  if (!isa_and_present<AffineDimExpr>(position)) {
    return std::nullopt;
  }
  // The op reads position (p - by) div k of a value that reads (q - shift) div factor of the root.
  __int128 shift = by + k * map.shift, factor = k * map.factor;
  map.shift = static_cast<int64_t>(std::clamp<__int128>(shift, -beyond, beyond));
  map.factor = static_cast<int64_t>(std::min<__int128>(factor, beyond));
  return map;
}

ReadPlan::ReadPlan(func::FuncOp function) : function(function), scales(function) {
  DenseMap<IntegerSet, std::pair<MaskBounds, bool>> solved;
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0 || !isa<SequenceType>(op.getResult(0).getType())) {
      continue;
    }
    ops.push_back(&op);
    SmallVector<OperandRead, 2> &list = reads[&op];
    auto flow = cast<CausalFlowInterface>(op);
    for (OpOperand &operand : op.getOpOperands()) {
      if (!isa<SequenceType>(operand.get().getType())) {
        continue;
      }
      std::optional<IntegerSet> relation = flow.getRelation(operand.getOperandNumber());
      if (!relation) {
        continue;
      }
      auto [entry, isNew] = solved.try_emplace(*relation);
      if (isNew) {
        entry->second = {solveMask(*relation), sluice::mentionsLength(*relation)};
      }
      list.push_back({operand.get(), *relation, entry->second.first, entry->second.second,
                      endsLazySource(*relation, operand.get(), scales)});
    }
    if (isLazy(&op)) {
      if (auto map = mapThrough(flow, getLazyMap(op.getOperand(0)))) {
        maps[op.getResult(0)] = *map;
      }
    }
  }
}

const LazyMap *ReadPlan::getLazyMap(Value value) const {
  auto found = maps.find(value);
  return found == maps.end() ? nullptr : &found->second;
}

int64_t ReadPlan::computeLength(Value value, int64_t length) const {
  int64_t factor = scales.getScaleFactor(value);
  return factor == 0 ? 1 : (length + factor - 1) / factor;
}

//===----------------------------------------------------------------------===//
// Walk
//===----------------------------------------------------------------------===//

ReadWalk::ReadWalk(const ReadPlan &plan, int64_t length, bool missing, int64_t *budget)
    : plan(plan), length(length), missing(missing), budget(budget) {
  for (Operation *op : plan.ops) {
    if (isLazy(op)) {
      continue;
    }
    std::vector<ReachedToken> rows;
    for (int64_t p = 0; p < getLength(op->getResult(0)); ++p) {
      rows.push_back(compute(op, p));
      int64_t existence = plan.scales.getScaleFactor(op->getResult(0)) * p;
      if (missing && plan.scales.existsByTokens(op->getResult(0)) &&
          rows.back().token < existence) {
        rows.back() = {existence, {}, 0};
      }
    }
    std::vector<int64_t> positions;
    for (size_t p = 0; p < rows.size(); ++p) {
      bool isLater = p == 0 || rows[p].token > rows[static_cast<size_t>(positions.back())].token;
      positions.push_back(isLater ? static_cast<int64_t>(p) : positions.back());
    }
    for (Value result : op->getResults()) {
      stored[result] = rows;
      latest[result] = positions;
    }
  }
}

ReadWalk::ReachedToken ReadWalk::at(Value value, int64_t position) const {
  if (const LazyMap *map = plan.getLazyMap(value)) {
    // The root is stored, or is a lazy value of another kind.
    return at(map->root, map->at(position));
  }
  if (isLazy(value.getDefiningOp())) {
    return compute(value.getDefiningOp(), position);
  }
  if (position < 0) {
    return {};
  }
  if (isa<BlockArgument>(value)) {
    return {plan.scales.isOnTargetAxis(value) ? position : -1, {}, 0};
  }
  const std::vector<ReachedToken> &rows = stored.at(value);
  if (position < static_cast<int64_t>(rows.size())) {
    return rows[static_cast<size_t>(position)];
  }
  if (!missing || !plan.scales.isOnTargetAxis(value)) {
    return {};
  }
  return {plan.scales.getScaleFactor(value) * position, {}, 0};
}

/// Returns true if the reads of row p among the first n positions change once there are n + 1
/// positions.
static bool changesWithLength(IntegerSet relation, int64_t p, int64_t n) {
  for (int64_t q = 0; q < n; ++q) {
    if (reference::contains(relation, p, q, n) != reference::contains(relation, p, q, n + 1)) {
      return true;
    }
  }
  return false;
}

/// Returns, for the positions of a stored value from 0 to `last`, the first position that reaches
/// the latest token.
int64_t ReadWalk::latestUpTo(Value value, int64_t last) const {
  return isa<BlockArgument>(value) ? last : latest.at(value)[static_cast<size_t>(last)];
}

/// Follows reads one by one only if the bounds of a relation are not exact, or do not begin at 0: a
/// causal mask takes one step per row.
ReadWalk::ReachedToken ReadWalk::compute(Operation *op, int64_t p) const {
  ReachedToken best;
  if (budget && --*budget < 0) {
    return best;
  }
  for (const ReadPlan::OperandRead &read : plan.getOpReads(op)) {
    const auto &[operand, relation, bounds, changes, endsLazy] = read;
    int64_t n = getLength(operand);
    // A stored operand is null before position 0, and a lazy operand is read through.
    int64_t first = isLazy(operand.getDefiningOp()) && !bounds.lower.empty() ? -beyond : 0;
    int64_t last = std::max(n, length) - 1;
    bool bounded = false;
    for (AffineExpr upper : bounds.upper) {
      int64_t value = reference::evaluateAffine(upper, p, 0, n);
      last = bounded ? std::min(last, value) : value;
      bounded = true;
    }
    for (AffineExpr lower : bounds.lower) {
      first = std::max(first, reference::evaluateAffine(lower, p, 0, n));
    }
    if (missing && changes && plan.scales.isOnTargetAxis(operand) &&
        changesWithLength(relation, p, n)) {
      best =
          std::max(best, {plan.scales.getScaleFactor(operand) * n, operand, n},
                   [](const ReachedToken &x, const ReachedToken &y) { return x.token < y.token; });
    }
    // The last missing position is an upper bound of the others; without `missing` they are
    // ignored.
    const LazyMap *map = plan.getLazyMap(operand);
    int64_t end = isLazy(operand.getDefiningOp()) && !map ? last : n - 1;
    if (map) { // a position that reads nothing may still be required to exist
      first = missing && endsLazy ? first : std::max(first, map->shift);
      __int128 past = static_cast<__int128>(getLength(map->root)) * map->factor + map->shift;
      end = static_cast<int64_t>(std::min<__int128>(past - 1, beyond));
    }
    bool holds = llvm::all_of(bounds.conditions, [&](AffineExpr condition) {
      return reference::evaluateAffine(condition, p, 0, n) >= 0;
    });
    if (bounds.exact && !holds) {
      continue;
    }
    if (int64_t there = std::min(last, end);
        bounds.exact && first == 0 && there > 0 && !isLazy(operand.getDefiningOp())) {
      int64_t q = latestUpTo(operand, there);
      ReachedToken reach = at(operand, q);
      if (reach.token > best.token) {
        best = {reach.token, operand, q};
      }
      first = there + 1;
    }
    for (int64_t q = first; q <= last && !(budget && --*budget < 0); ++q) {
      if (q > end && q < last) {
        q = missing ? last : last + 1;
      }
      if (q <= last && (bounds.exact || reference::contains(relation, p, q, n))) {
        ReachedToken reach = at(operand, q);
        if (missing && endsLazy) {
          reach.token = std::max(reach.token, plan.scales.getScaleFactor(operand) * q);
        }
        if (reach.token > best.token) {
          best = {reach.token, operand, q};
        }
      }
    }
  }
  return best;
}

/// Returns true if a read of a lazy operand counts because of the token from which its position
/// exists.
static bool countsByExisting(const ReadPlan &plan, const ReadWalk &walk, Operation *op,
                             const ReadWalk::ReachedToken &next) {
  return llvm::any_of(plan.getOpReads(op), [&](const ReadPlan::OperandRead &read) {
    return read.endsLazy && read.operand == next.operand &&
           plan.scales.getScaleFactor(read.operand) * next.position >
               walk.at(next.operand, next.position).token;
  });
}

/// Follows a chain of maps that are not stored one map at a time.
std::vector<std::pair<Value, int64_t>> ReadWalk::pathFrom(Value value, int64_t position) const {
  std::vector<std::pair<Value, int64_t>> path;
  for (;;) {
    path.emplace_back(value, position);
    ReachedToken next;
    if (plan.getLazyMap(value)) {
      Operation *op = value.getDefiningOp();
      const ReadPlan::OperandRead &read = plan.getOpReads(op).front();
      next = {0, read.operand,
              reference::evaluateAffine(read.bounds.upper.front(), position, 0, 0)};
    } else {
      next = at(value, position);
    }
    if (!next.operand) {
      return path;
    }
    if (missing && !plan.getLazyMap(value) &&
        countsByExisting(plan, *this, value.getDefiningOp(), next)) {
      path.emplace_back(next.operand, next.position);
      return path; // reads of this position do not matter
    }
    value = next.operand;
    position = next.position;
  }
}
