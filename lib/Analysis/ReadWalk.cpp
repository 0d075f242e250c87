// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads at one length, position by position.
#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include <cmath>

using namespace mlir;
using namespace sluice;

/// What an op's positions read, solved once.
static SmallVector<ReadWalk::Read> readsOf(Operation *op, const Scales &scales) {
  SmallVector<ReadWalk::Read> reads;
  auto flow = cast<CausalFlowInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<SequenceType>(operand.get().getType())) {
      continue;
    }
    if (std::optional<IntegerSet> relation = flow.getRelation(operand.getOperandNumber())) {
      reads.push_back({operand.get(), *relation, solveMask(*relation), mentionsLength(*relation),
                       endsLazySource(*relation, operand.get(), scales)});
    }
  }
  return reads;
}

ReadWalk::ReadWalk(func::FuncOp function, int64_t length, bool missing, int64_t *budget)
    : scales(function), length(length), missing(missing), budget(budget) {
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() > 0 && isa<SequenceType>(op.getResult(0).getType())) {
      reads[&op] = readsOf(&op, scales);
    }
  }
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0 || !isa<SequenceType>(op.getResult(0).getType()) || isLazy(&op)) {
      continue;
    }
    std::vector<Reach> rows;
    for (int64_t p = 0; p < getLength(op.getResult(0)); ++p) {
      rows.push_back(compute(&op, p));
      int64_t existence = scales.factorOf(op.getResult(0)) * p;
      if (missing && scales.existsByTokens(op.getResult(0)) && rows.back().token < existence) {
        rows.back() = {existence, {}, 0};
      }
    }
    for (Value result : op.getResults()) {
      stored[result] = rows;
    }
  }
}

int64_t ReadWalk::getLength(Value value) const {
  int64_t factor = scales.factorOf(value);
  return factor == 0 ? 1 : (length + factor - 1) / factor;
}

ReadWalk::Reach ReadWalk::at(Value value, int64_t position) const {
  if (position < 0 && !isLazy(value.getDefiningOp())) {
    return {};
  }
  if (isa<BlockArgument>(value)) {
    return {scales.isOnTargetAxis(value) ? position : -1, {}, 0};
  }
  if (isLazy(value.getDefiningOp())) {
    return compute(value.getDefiningOp(), position);
  }
  const std::vector<Reach> &rows = stored.at(value);
  if (position < static_cast<int64_t>(rows.size())) {
    return rows[static_cast<size_t>(position)];
  }
  if (!missing || !scales.isOnTargetAxis(value)) {
    return {};
  }
  return {scales.factorOf(value) * position, {}, 0};
}

/// Whether row p reads others of the first n positions once there are n + 1.
static bool changesWithLength(IntegerSet relation, int64_t p, int64_t n) {
  for (int64_t q = 0; q < n; ++q) {
    if (reference::contains(relation, p, q, n) != reference::contains(relation, p, q, n + 1)) {
      return true;
    }
  }
  return false;
}

ReadWalk::Reach ReadWalk::compute(Operation *op, int64_t p) const {
  Reach best;
  if (budget && --*budget < 0) {
    return best;
  }
  for (const Read &read : reads.at(op)) {
    const auto &[operand, relation, bounds, changes, endsLazy] = read;
    int64_t n = getLength(operand);
    int64_t first = 0, last = std::max(n, length) - 1;
    bool bounded = false;
    for (AffineExpr upper : bounds.upper) {
      int64_t value = reference::evaluateAffine(upper, p, 0, n);
      last = bounded ? std::min(last, value) : value;
      bounded = true;
    }
    for (AffineExpr lower : bounds.lower) {
      first = std::max(first, reference::evaluateAffine(lower, p, 0, n));
    }
    if (missing && changes && scales.isOnTargetAxis(operand) && changesWithLength(relation, p, n)) {
      best = std::max(best, {scales.factorOf(operand) * n, operand, n},
                      [](const Reach &x, const Reach &y) { return x.token < y.token; });
    }
    for (int64_t q = first; q <= last && !(budget && --*budget < 0); ++q) {
      if (reference::contains(relation, p, q, n)) {
        Reach reach = at(operand, q);
        if (missing && endsLazy) {
          reach.token = std::max(reach.token, scales.factorOf(operand) * q);
        }
        if (reach.token > best.token) {
          best = {reach.token, operand, q};
        }
      }
    }
  }
  return best;
}

std::vector<std::pair<Value, int64_t>> ReadWalk::pathFrom(Value value, int64_t position) const {
  std::vector<std::pair<Value, int64_t>> path = {{value, position}};
  for (Reach reach = at(value, position); reach.operand;
       reach = at(reach.operand, reach.position)) {
    path.emplace_back(reach.operand, reach.position);
  }
  return path;
}

SmallVector<CrossEntropyOp> sluice::lossesOf(func::FuncOp function) {
  return llvm::to_vector(function.getOps<CrossEntropyOp>());
}

int64_t sluice::latestAllowed(CrossEntropyOp loss) {
  return std::min<int64_t>(static_cast<int64_t>(loss.getOffset()) - 1, 0);
}

std::optional<FoundLeak> sluice::findLeakAt(func::FuncOp function, int64_t length, bool missing,
                                            int64_t firstRow, int64_t *budget) {
  ReadWalk walk(function, length, missing, budget);
  for (CrossEntropyOp loss : lossesOf(function)) {
    int64_t allowed = latestAllowed(loss);
    for (int64_t row = firstRow; row < length; ++row) {
      ReadWalk::Reach reach = walk.at(loss.getInput(), row);
      if (reach.token <= std::max<int64_t>(row + allowed, -1)) {
        continue;
      }
      FoundLeak leak;
      leak.loss = loss;
      leak.witness.length = length;
      leak.witness.row = row;
      leak.witness.token = reach.token;
      leak.path = walk.pathFrom(loss.getInput(), row);
      if (!isa<BlockArgument>(leak.path.back().first)) {
        leak.witness.length =
            std::min(length, reach.token); // without the position at the path's end
      }
      return leak;
    }
  }
  return std::nullopt;
}

/// Lengths whose walk, quadratic where there is attention, takes about a second.
static int64_t longestWalk(func::FuncOp function) {
  constexpr double pairs = 2e8;
  auto ops = static_cast<double>(std::distance(function.getOps().begin(), function.getOps().end()));
  return static_cast<int64_t>(std::sqrt(pairs / ops));
}

/// A read within the sequence stays one as the sequence grows, so those lengths are searched by
/// halving. A position past the end need not stay past it; the shortest lengths show it.
std::optional<FoundLeak> sluice::findLeak(func::FuncOp function, int64_t longest) {
  constexpr int64_t shortLengths = 64;
  int64_t budget = 20'000'000; // seconds
  longest = std::min(longest, longestWalk(function));
  int64_t without = 0, with = 1;
  std::optional<FoundLeak> leak;
  while (budget > 0 && with < longest && !(leak = findLeakAt(function, with, false, 0, &budget))) {
    without = with;
    with = std::min(2 * with, longest);
  }
  leak = leak ? leak : findLeakAt(function, with, false, 0, &budget);
  while (leak && budget > 0 && with - without > 1) {
    int64_t middle = without + (with - without) / 2;
    if (auto shorter = findLeakAt(function, middle, false, 0, &budget)) {
      leak = shorter;
      with = middle;
    } else {
      without = middle;
    }
  }
  for (int64_t length = 1; !leak && budget > 0 && length <= std::min(longest, shortLengths);
       ++length) {
    leak = findLeakAt(function, length, true, 0, &budget);
  }
  return leak;
}
