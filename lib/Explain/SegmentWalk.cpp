// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows reads at one length and under given boundaries, position by position. Independent of the
// bounds of the proof.
#include "sluice/Explain/SegmentWalk.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/SegmentBounds.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;

namespace {

/// Maximum number of rows that are visited, and of boundary strings that are tried: half a second.
/// Boundaries that depend only on positions give one string per length.
constexpr int64_t mostRows = 60'000, longestSequence = 40;
/// Operations charged for each position that a row may read.
constexpr int64_t costOfRow = 8;

class SegmentWalk {
public:
  struct WalkedToken {
    int64_t token = -1;
    Value operand; ///< the next read on the path
    int64_t position = 0;
  };
  SegmentWalk(func::FuncOp function, const Scales &scales, const BoundaryRules &rules,
              int64_t length, function_ref<bool(FoundLeak &)> accepts)
      : function(function), scales(scales), rules(rules), length(length), accepts(accepts) {
    for (auto cut : function.getOps<SegmentOp>()) {
      cuts.push_back(cut);
    }
  }
  /// Returns the first accepted leak over all boundaries of the segmentations from number `first`
  /// on.
  std::optional<FoundLeak> find(size_t first, int64_t &budget);

  Boundaries boundaries; ///< boundaries of the segmentations that are fixed so far

private:
  int64_t countSegmentRows(Value value) const;
  std::optional<int64_t> evaluateTerm(const SegmentTerm &term, int64_t p) const;
  WalkedToken at(Value value, int64_t position);
  WalkedToken compute(OpResult value, int64_t position);
  FoundLeak traceLeak(CrossEntropyOp loss, int64_t row);
  std::optional<FoundLeak> findLeak();

  func::FuncOp function;
  const Scales &scales;
  const BoundaryRules &rules;
  int64_t length;
  function_ref<bool(FoundLeak &)> accepts;
  SmallVector<SegmentOp> cuts;
  DenseMap<std::pair<Value, int64_t>, WalkedToken> known;
  int64_t rows = 0;
};

} // namespace

/// Returns the number of rows of a value; for an axis of segments, the maximum number of segments
/// of the sequence plus one.
int64_t SegmentWalk::countSegmentRows(Value value) const {
  int64_t factor = scales.getScaleFactor(value),
          count = length + (scales.isSegmented(value) ? 1 : 0);
  return factor == 0 ? 1 : llvm::divideCeil(count, factor);
}

/// Returns the value of a term; none if segment `at` is not closed.
std::optional<int64_t> SegmentWalk::evaluateTerm(const SegmentTerm &term, int64_t p) const {
  CutTerm cut = *resolveTerm(term);
  const std::vector<int64_t> &ends =
      boundaries[static_cast<size_t>(llvm::find(cuts, cut.cut) - cuts.begin())];
  int64_t at = reference::evaluateAffine(cut.at, p, 0, 0);
  if (cut.kind == SegmentTerm::Count) {
    return llvm::count_if(ends, [&](int64_t end) { return end <= at; });
  }
  if (at < 0) {
    return at;
  }
  bool isClosed = at < static_cast<int64_t>(ends.size());
  return isClosed ? std::optional(ends[static_cast<size_t>(at)]) : std::nullopt;
}

SegmentWalk::WalkedToken SegmentWalk::at(Value value, int64_t position) {
  bool isThere = position >= 0 && position < countSegmentRows(value);
  if (isa<BlockArgument>(value)) {
    return {isThere && scales.isOnTargetAxis(value) ? position : -1, {}, 0};
  }
  if (!isThere && !isLazy(value.getDefiningOp())) {
    return {};
  }
  auto found = known.find({value, position});
  if (found != known.end()) {
    return found->second;
  }
  ++rows;
  WalkedToken reach = compute(cast<OpResult>(value), position);
  known[{value, position}] = reach;
  return reach;
}

SegmentWalk::WalkedToken SegmentWalk::compute(OpResult value, int64_t p) {
  WalkedToken best;
  auto flow = cast<CausalFlowInterface>(value.getOwner());
  for (OpOperand &operand : flow->getOpOperands()) {
    if (!isa<SequenceType>(operand.get().getType())) {
      continue;
    }
    PositionReads reads = flow.getReads(value.getResultNumber(), operand.getOperandNumber());
    SmallVector<AffineExpr> numbers = {getAffineSymbolExpr(0, flow.getContext())};
    for (const SegmentTerm &term : reads.terms) {
      if (std::optional<int64_t> number = evaluateTerm(term, p)) {
        numbers.push_back(getAffineConstantExpr(*number, flow.getContext()));
      }
    }
    if (!reads.relation || numbers.size() <= reads.terms.size()) {
      continue; // a row of an open segment is null
    }
    AffineExpr d0 = getAffineDimExpr(0, flow.getContext()),
               d1 = getAffineDimExpr(1, flow.getContext());
    IntegerSet relation = reads.relation->replaceDimsAndSymbols({d0, d1}, numbers, 2, 1);
    int64_t n = countSegmentRows(operand.get()),
            past = isLazy(operand.get().getDefiningOp()) ? 2 * length : 0;
    for (int64_t q = -past; q < n + past; ++q) {
      if (reference::contains(relation, p, q, n)) {
        int64_t token = at(operand.get(), q).token;
        best = token > best.token ? WalkedToken{token, operand.get(), q} : best;
      }
    }
  }
  return best;
}

/// Follows the latest reads from a row that a loss scores back to a token.
FoundLeak SegmentWalk::traceLeak(CrossEntropyOp loss, int64_t row) {
  FoundLeak leak;
  leak.loss = loss;
  leak.witness.length = length;
  leak.witness.row = row;
  leak.witness.token = at(loss.getInput(), row).token;
  WalkedToken next = {-1, loss.getInput(), row};
  while (next.operand) {
    leak.path.emplace_back(next.operand, next.position);
    next = at(next.operand, next.position);
  }
  return leak;
}

/// Finds the first row whose leak is accepted. Numbers may hide the leak of an earlier row: a bit
/// that a rule sets for every text depends on no token.
std::optional<FoundLeak> SegmentWalk::findLeak() {
  known.clear();
  for (CrossEntropyOp loss : getLossOps(function)) {
    for (int64_t row = static_cast<int64_t>(loss.getFirst()); row < length; ++row) {
      if (at(loss.getInput(), row).token <= std::max<int64_t>(row + latestAllowed(loss), -1)) {
        continue;
      }
      FoundLeak leak = traceLeak(loss, row);
      leak.witness.runs = rules.findRuns(leak, boundaries);
      if (!accepts || accepts(leak)) {
        return leak;
      }
    }
  }
  return std::nullopt;
}

std::optional<FoundLeak> SegmentWalk::find(size_t first, int64_t &budget) {
  if (budget < 0) {
    return std::nullopt;
  }
  if (first == cuts.size()) {
    std::optional<FoundLeak> leak = findLeak();
    spendWork(rows * length * costOfRow);
    budget = isWorkExhausted() ? -1 : budget - rows;
    rows = 0;
    return leak;
  }
  int64_t positions = rules.countPlaces(boundaries, first, length);
  if (auto regular = rules.findRegular(first, positions)) {
    boundaries.resize(first);
    boundaries.push_back(std::move(*regular));
    return find(first + 1, budget);
  }
  for (int64_t bits = 0; bits < (int64_t{1} << positions) && budget >= 0; ++bits) {
    --budget;
    boundaries.resize(first);
    std::vector<int64_t> &ends = boundaries.emplace_back();
    for (int64_t i = 0; i < positions; ++i) {
      if (bits >> i & 1) {
        ends.push_back(i);
      }
    }
    if (!rules.findTokens(boundaries, length)) {
      continue;
    }
    if (auto leak = find(first + 1, budget)) {
      return leak;
    }
  }
  return std::nullopt;
}

std::optional<FoundLeak> sluice::findSegmentLeak(func::FuncOp function, Boundaries &boundaries,
                                                 int64_t &longest,
                                                 function_ref<bool(FoundLeak &)> accepts) {
  int64_t budget = mostRows;
  Scales scales(function);
  BoundaryRules rules(function);
  for (int64_t length = 1; length <= longestSequence; ++length) {
    SegmentWalk walk(function, scales, rules, length, accepts);
    if (auto leak = walk.find(0, budget)) {
      boundaries = walk.boundaries;
      return leak;
    }
    if (budget < 0) {
      return std::nullopt;
    }
    longest = length;
  }
  return std::nullopt;
}

Operation *sluice::opOfLateRead(const Scales &scales, const FoundLeak &leak) {
  for (auto [value, position] : llvm::reverse(leak.path)) {
    if (value.getDefiningOp() && !scales.isSegmented(value) && scales.getScaleFactor(value) == 1 &&
        position < leak.witness.token) {
      return value.getDefiningOp();
    }
  }
  return leak.loss;
}
