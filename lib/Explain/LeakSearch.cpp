// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for a length, a row and a later token that the row reads. Follows every read at short
// lengths. At longer ones, follows only the last position that an op reads, because it is the most
// likely leak: a result is still a path, but the absence of a result proves nothing.
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/Reach.h"
#include "sluice/Explain/ReadWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Support/WorkBudget.h"
#include "llvm/ADT/ScopeExit.h"
#include <cmath>

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Every read
//===----------------------------------------------------------------------===//

std::optional<FoundLeak> sluice::findLeakAt(func::FuncOp function, int64_t length, bool missing,
                                            int64_t firstRow, int64_t *budget) {
  return findLeakAt(ReadPlan(function), length, missing, firstRow, budget);
}

std::optional<FoundLeak> sluice::findLeakAt(const ReadPlan &plan, int64_t length, bool missing,
                                            int64_t firstRow, int64_t *budget) {
  ReadWalk walk(plan, length, missing, budget);
  std::optional<ReadWalk> present; // reads of positions that exist
  for (CrossEntropyOp loss : getLossOps(plan.function)) {
    int64_t allowed = latestAllowed(loss), scored = static_cast<int64_t>(loss.getFirst());
    for (int64_t row = std::max(firstRow, scored); row < length; ++row) {
      const ReadWalk *used = &walk;
      ReadWalk::ReachedToken reach = walk.at(loss.getInput(), row);
      // With a target that is not after its row, a position that exists whenever the row does is no
      // leak, but may hide one.
      if (missing && reach.token <= row && reach.token > std::max<int64_t>(row + allowed, -1)) {
        used = present ? &*present : &present.emplace(plan, length, /*missing=*/false, budget);
        reach = used->at(loss.getInput(), row);
      }
      if (reach.token <= std::max<int64_t>(row + allowed, -1)) {
        continue;
      }
      FoundLeak leak;
      leak.loss = loss;
      leak.witness.length = length;
      leak.witness.row = row;
      leak.witness.token = reach.token;
      leak.path = used->pathFrom(loss.getInput(), row);
      if (!isa<BlockArgument>(leak.path.back().first)) {
        leak.witness.length =
            std::min(length, reach.token); // excludes the position at the end of the path
      }
      return leak;
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Latest reads
//===----------------------------------------------------------------------===//

namespace {
/// Data that the searches at all lengths share. Chains of maps are read through, whatever their
/// length.
struct LatestPlan {
  explicit LatestPlan(const ReadPlan &plan) : plan(plan), losses(getLossOps(plan.function)) {
    llvm::copy_if(plan.ops, std::back_inserter(followed),
                  [&](Operation *op) { return !plan.getLazyMap(op->getResult(0)); });
  }

  const ReadPlan &plan;
  SmallVector<CrossEntropyOp> losses;
  std::vector<Operation *> followed; ///< ops that are not maps of other values, in program order
};

/// Follows one row at one length: for every op, the last position that it reads of each operand,
/// backward from the row; then the latest token that each position reaches, forward. Takes one step
/// per op, independent of the length.
class LatestWalk {
public:
  LatestWalk(const LatestPlan &latest, CrossEntropyOp loss, int64_t length, int64_t row);
  /// Returns the leak without its path, whose length is the depth of the model.
  std::optional<FoundLeak> find();
  void addPath(FoundLeak &leak);

private:
  struct LeakStep {
    int64_t position = 0, token = -1;
    Value operand; ///< the next read on the path
    int64_t from = 0;
  };
  std::optional<int64_t> findLatestRead(const ReadPlan::OperandRead &read, int64_t p) const;
  void want(Value value, int64_t position);
  int64_t tokenAt(Value value, int64_t position) const;

  const ReadPlan &plan;
  CrossEntropyOp loss;
  int64_t length, row;
  DenseMap<Value, SmallVector<LeakStep, 2>>
      steps; ///< wanted positions of results, by the first result of an op
};
} // namespace

static Value firstResult(Value value) {
  Operation *op = value.getDefiningOp();
  return op ? op->getResult(0) : value;
}

/// Maximum number of positions of one value that are followed.
constexpr size_t mostPositions = 8;

void LatestWalk::want(Value value, int64_t position) {
  SmallVector<LeakStep, 2> &list = steps[firstResult(value)];
  bool isKnown =
      llvm::any_of(list, [&](const LeakStep &step) { return step.position == position; });
  if (!isKnown && list.size() < mostPositions) {
    list.push_back({position, -1, {}, 0});
  }
}

/// Resolves a position of a value through maps to a position that exists.
static std::optional<std::pair<Value, int64_t>> resolve(const ReadPlan &plan, int64_t length,
                                                        Value value, int64_t q) {
  if (const LazyMap *map = plan.getLazyMap(value)) {
    q = map->at(q);
    value = map->root;
  }
  bool isThere = isLazy(value.getDefiningOp()) || (q >= 0 && q < plan.computeLength(value, length));
  return isThere ? std::optional(std::pair(value, q)) : std::nullopt;
}

/// Returns the latest position of a stored operand that exists and that position p reads.
std::optional<int64_t> LatestWalk::findLatestRead(const ReadPlan::OperandRead &read,
                                                  int64_t p) const {
  constexpr int tries = 16; // a mask may exclude some positions
  int64_t n = plan.computeLength(read.operand, length);
  bool lazy = isLazy(read.operand.getDefiningOp());
  int64_t q = lazy ? std::max(n, length) - 1 : n - 1;
  std::optional<int64_t> upper;
  for (AffineExpr bound : read.bounds.upper) {
    int64_t value = reference::evaluateAffine(bound, p, 0, n);
    upper = std::min(upper.value_or(value), value);
  }
  q = !upper ? q : lazy ? *upper : std::min(q, *upper);
  if (const LazyMap *map = plan.getLazyMap(read.operand)) { // the last position whose root exists
    __int128 past =
        static_cast<__int128>(plan.computeLength(map->root, length)) * map->factor + map->shift;
    q = static_cast<int64_t>(std::min<__int128>(q, past - 1));
  }
  for (int i = 0; i < tries; ++i, --q) {
    if (!lazy && q < 0) {
      return std::nullopt;
    }
    if (reference::contains(read.relation, p, q, n)) {
      return q;
    }
  }
  return std::nullopt;
}

int64_t LatestWalk::tokenAt(Value value, int64_t position) const {
  if (isa<BlockArgument>(value)) {
    return plan.scales.isOnTargetAxis(value) && position < length ? position : -1;
  }
  auto found = steps.find(firstResult(value));
  if (found != steps.end()) {
    for (const LeakStep &step : found->second) {
      if (step.position == position) {
        return step.token;
      }
    }
  }
  return -1;
}

LatestWalk::LatestWalk(const LatestPlan &latest, CrossEntropyOp loss, int64_t length, int64_t row)
    : plan(latest.plan), loss(loss), length(length), row(row) {
  if (auto start = resolve(plan, length, loss.getInput(), row)) {
    want(start->first, start->second);
  }
  for (Operation *op : llvm::reverse(latest.followed)) {
    auto wanted = steps.find(op->getResult(0));
    if (wanted == steps.end()) {
      continue;
    }
    SmallVector<LeakStep, 2> list = wanted->second; // a copy, because `steps` grows in the loop
    for (const LeakStep &step : list) {
      for (const ReadPlan::OperandRead &read : plan.getOpReads(op)) {
        std::optional<int64_t> q = findLatestRead(read, step.position);
        auto source = q ? resolve(plan, length, read.operand, *q) : std::nullopt;
        if (source && source->first.getDefiningOp()) {
          want(source->first, source->second);
        }
      }
    }
  }
  for (Operation *op : latest.followed) {
    auto wanted = steps.find(op->getResult(0));
    if (wanted == steps.end()) {
      continue;
    }
    for (LeakStep &step : wanted->second) {
      for (const ReadPlan::OperandRead &read : plan.getOpReads(op)) {
        std::optional<int64_t> q = findLatestRead(read, step.position);
        auto source = q ? resolve(plan, length, read.operand, *q) : std::nullopt;
        int64_t token = source ? tokenAt(source->first, source->second) : -1;
        if (token > step.token) {
          step = {step.position, token, read.operand, *q};
        }
      }
    }
  }
}

std::optional<FoundLeak> LatestWalk::find() {
  auto start = resolve(plan, length, loss.getInput(), row);
  int64_t token = start ? tokenAt(start->first, start->second) : -1;
  if (token <= std::max<int64_t>(row + latestAllowed(loss), -1)) {
    return std::nullopt;
  }
  FoundLeak leak;
  leak.loss = loss;
  leak.witness.length = length;
  leak.witness.row = row;
  leak.witness.token = token;
  return leak;
}

void LatestWalk::addPath(FoundLeak &leak) {
  Value value = loss.getInput();
  int64_t position = row;
  leak.path.emplace_back(value, position);
  while (value.getDefiningOp()) {
    if (plan.getLazyMap(value)) { // follows the chain one map at a time
      const ReadPlan::OperandRead &read = plan.getOpReads(value.getDefiningOp()).front();
      position = reference::evaluateAffine(read.bounds.upper.front(), position, 0, 0);
      value = read.operand;
      leak.path.emplace_back(value, position);
      continue;
    }
    const LeakStep *at =
        llvm::find_if(steps.find(firstResult(value))->second,
                      [&](const LeakStep &step) { return step.position == position; });
    value = at->operand;
    position = at->from;
    leak.path.emplace_back(value, position);
  }
}

static std::optional<FoundLeak> findLatestAt(const LatestPlan &latest, int64_t length,
                                             ArrayRef<int64_t> rows) {
  for (CrossEntropyOp loss : latest.losses) {
    for (int64_t row : rows) {
      if (row >= static_cast<int64_t>(loss.getFirst()) && row < length) {
        if (auto leak = LatestWalk(latest, loss, length, row).find()) {
          return leak;
        }
      }
    }
  }
  return std::nullopt;
}

/// Doubles the length until a leak is found, then shortens it by bisection with the same rows.
static std::optional<FoundLeak> findLatest(const ReadPlan &plan, int64_t shortest, int64_t longest,
                                           int64_t row, LeakSearch &search) {
  LatestPlan latest(plan);
  double mostOps = 3e7;       // a few seconds
  constexpr int64_t cost = 8; // operations charged for the latest reads of an op
  std::optional<FoundLeak> leak;
  int64_t without = shortest;
  SmallVector<int64_t> rows;
  for (int64_t length = shortest; !leak && mostOps > 0;) {
    rows = {row, 0, 1, length / 2};
    leak = findLatestAt(latest, length, rows);
    mostOps -= static_cast<double>(rows.size() * plan.ops.size());
    if (!spendWork(cost * static_cast<int64_t>(rows.size() * plan.ops.size()))) {
      break;
    }
    search.latest = length;
    without = leak ? without : length;
    if (length >= longest) {
      break;
    }
    length = length > longest / 2 ? longest : 2 * length;
  }
  while (leak && leak->witness.length - without > 1) {
    int64_t middle = without + (leak->witness.length - without) / 2;
    if (auto shorter = findLatestAt(latest, middle, rows)) {
      leak = shorter;
    } else {
      without = middle;
    }
  }
  if (leak) {
    LatestWalk(latest, leak->loss, leak->witness.length, leak->witness.row).addPath(*leak);
  }
  return leak;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// Returns the length whose walk, quadratic with attention, takes about a second.
static int64_t longestWalk(const ReadPlan &plan) {
  constexpr double pairs = 2e8;
  return static_cast<int64_t>(
      std::sqrt(pairs / static_cast<double>(std::max<size_t>(plan.ops.size(), 1))));
}

/// Searches lengths by bisection, because a read within the sequence remains one as the sequence
/// grows. A position past the end need not remain past it; the shortest lengths show such a read.
std::optional<FoundLeak> sluice::findLeak(const ReadPlan &plan, int64_t longest, int64_t row,
                                          LeakSearch &search) {
  constexpr int64_t shortLengths = 64, most = 20'000'000;
  WorkBudget *work = WorkBudget::getCurrent();
  int64_t given = work ? std::min(most, work->getLeft() / 2) : most, budget = given;
  auto charge = llvm::scope_exit([&] { spendWork(given - std::max<int64_t>(budget, 0)); });
  int64_t within = std::min(longest, longestWalk(plan));
  int64_t without = 0, with = 1;
  std::optional<FoundLeak> leak;
  while (!(leak = findLeakAt(plan, with, false, 0, &budget)) && budget > 0) {
    search.every = without = with;
    if (with >= within) {
      break;
    }
    with = std::min(2 * with, within);
  }
  while (leak && budget > 0 && with - without > 1) {
    int64_t middle = without + (with - without) / 2;
    if (auto shorter = findLeakAt(plan, middle, false, 0, &budget)) {
      leak = shorter;
      with = middle;
    } else {
      without = middle;
    }
  }
  int64_t growing = std::min(within, shortLengths);
  for (int64_t length = 1; !leak && budget > 0 && length <= growing; ++length) {
    leak = findLeakAt(plan, length, true, 0, &budget);
    search.growing = leak || budget <= 0 ? search.growing : length;
  }
  // If a bound gives the length of a sequence that demonstrates the leak, reads past its end are
  // also searched at that length.
  if (constexpr int64_t most = 4096; !leak && budget > 0 && growing < longest && longest <= most) {
    leak = findLeakAt(plan, longest, true, std::max<int64_t>(row, 0), &budget);
  }
  return leak || longest <= search.every
             ? leak
             : findLatest(plan, std::max<int64_t>(search.every, 1), longest, row, search);
}

std::string LeakSearch::describe() const {
  auto tokens = [](int64_t n) { return std::to_string(n) + (n == 1 ? " token" : " tokens"); };
  std::string text = "every read was followed in sequences of up to " + tokens(every);
  text += growing < every ? ", what comes as they grow in those of up to " + tokens(growing) : "";
  text += latest > every ? ", and the latest reads of some rows in some of up to " + tokens(latest)
                         : "";
  return text + "; longer ones were not tried";
}

//===----------------------------------------------------------------------===//
// Which token
//===----------------------------------------------------------------------===//

void sluice::preferTarget(const ReadPlan &plan, FoundLeak &leak) {
  constexpr double mostReads = 2e7;
  CausalWitness &witness = leak.witness;
  CrossEntropyOp loss = leak.loss;
  int64_t target = witness.row + static_cast<int64_t>(loss.getOffset());
  auto ops = static_cast<double>(plan.ops.size());
  if (witness.token >= witness.length || target == witness.token || target >= witness.length ||
      target < 0 || ops * std::pow(static_cast<double>(witness.length), 2) > mostReads) {
    return;
  }
  // Records, from the target's token on, the positions that depend on it, and the read of each.
  struct From {
    Value operand;
    int64_t position;
  };
  DenseMap<Value, std::vector<std::optional<From>>> depends; // by the first result of an op
  auto isReached = [&](Value value, int64_t q) {
    if (const LazyMap *map = plan.getLazyMap(value)) {
      q = map->at(q);
      value = map->root;
    }
    if (isa<BlockArgument>(value)) {
      return value == loss.getTokens() && q == target;
    }
    auto rows = depends.find(firstResult(value));
    return rows != depends.end() && q >= 0 && q < static_cast<int64_t>(rows->second.size()) &&
           rows->second[static_cast<size_t>(q)].has_value();
  };
  auto findOrigin = [&](Operation *op, int64_t p) -> std::optional<From> {
    for (const ReadPlan::OperandRead &read : plan.getOpReads(op)) {
      int64_t n = plan.computeLength(read.operand, witness.length), first = 0, last = n - 1;
      if (const LazyMap *map = plan.getLazyMap(read.operand)) { // only positions whose root exists
        first = map->shift;
        last = std::max(first,
                        first + map->factor * plan.computeLength(map->root, witness.length) - 1);
      }
      for (AffineExpr lower : read.bounds.lower) {
        first = std::max(first, reference::evaluateAffine(lower, p, 0, n));
      }
      for (AffineExpr upper : read.bounds.upper) {
        last = std::min(last, reference::evaluateAffine(upper, p, 0, n));
      }
      for (int64_t q = first; q <= last; ++q) {
        if (isReached(read.operand, q) && reference::contains(read.relation, p, q, n)) {
          return From{read.operand, q};
        }
      }
    }
    return std::nullopt;
  };
  for (Operation *op : plan.ops) {
    if (plan.getLazyMap(op->getResult(0))) {
      continue;
    }
    std::vector<std::optional<From>> rows;
    for (int64_t p = 0; p < plan.computeLength(op->getResult(0), witness.length); ++p) {
      rows.push_back(findOrigin(op, p));
    }
    depends[op->getResult(0)] = std::move(rows);
  }
  Value value = loss.getInput();
  int64_t position = witness.row;
  if (!isReached(value, position)) {
    return;
  }
  std::vector<std::pair<Value, int64_t>> path = {{value, position}};
  while (Operation *op = value.getDefiningOp()) {
    if (plan.getLazyMap(value)) {
      const ReadPlan::OperandRead &read = plan.getOpReads(op).front();
      position = reference::evaluateAffine(read.bounds.upper.front(), position, 0, 0);
      value = read.operand;
    } else {
      const From &from = *depends.find(firstResult(value))->second[static_cast<size_t>(position)];
      value = from.operand;
      position = from.position;
    }
    path.emplace_back(value, position);
  }
  witness.token = target;
  leak.path = std::move(path);
}
