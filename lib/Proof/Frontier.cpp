// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes frontiers by composing bounds instead of relations, so the work is linear in the graph.
//
// A position p >= 0 of a stored sequence on a scale of factor f exists from f p + 1 tokens on, so
// its frontier is at least f p: it then bounds the tokens that must exist for the position to
// remain the same at every greater length. So a row t whose frontier is at most t reads no later
// token (no leak) and is the same for every length that contains it (prefix invariance). Positions
// before 0 are null and need nothing; candidates are negative there or too large, which is safe.
#include "sluice/Proof/Frontier.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/ProveModel.h"
#include "sluice/Proof/QuasiAffine.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/SegmentBounds.h"
#include "sluice/Proof/SegmentProof.h"
#include "sluice/Proof/Staircase.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;

namespace {
/// Up to `fewCandidates` candidates are kept unchanged, and more are merged; a value with more than
/// `mostCandidates` after merging has no bound.
constexpr size_t fewCandidates = 3, mostCandidates = 8;
/// Sums beyond this could overflow.
constexpr int64_t largestCoefficient = int64_t{1} << 40;
/// A candidate with more than `fewFloors` divisions is rewritten as a sum of at most `mostFloors`
/// floors.
constexpr size_t fewFloors = 3, mostFloors = 32;
/// Maximum period that is tabulated, which takes microseconds.
constexpr int64_t longestTable = 4096;
} // namespace

/// Adds a candidate unless another candidate covers it; removes the candidates that it covers.
static void addCandidate(Frontier &frontier, AffineExpr candidate) {
  auto covers = [](AffineExpr larger, AffineExpr smaller) {
    AffineExpr difference = simplifyAffineExpr(smaller - larger, 1, 0);
    return isNeverPositive(difference, /*wantFirst=*/false).kind == SignAnswer::Always;
  };
  if (llvm::any_of(frontier.candidates,
                   [&](AffineExpr other) { return covers(other, candidate); })) {
    return;
  }
  llvm::erase_if(frontier.candidates, [&](AffineExpr other) { return covers(candidate, other); });
  frontier.candidates.push_back(candidate);
}

/// Returns true if every constant in `expression` is small enough to compose with.
static bool isTame(AffineExpr expression) {
  bool tame = true;
  expression.walk([&](AffineExpr part) {
    auto constant = dyn_cast<AffineConstantExpr>(part);
    tame &= !constant || std::abs(constant.getValue()) <= largestCoefficient;
  });
  return tame;
}

/// Attention sees only positions before n. A lazy operand does not end at n, so whether position q
/// is seen depends on the length, and q must exist for p.
bool sluice::endsLazySource(IntegerSet relation, Value source, const Scales &scales) {
  return isLazy(source.getDefiningOp()) && scales.isOnTargetAxis(source) &&
         !scales.isSegmented(source) &&
         llvm::any_of(relation.getConstraints(),
                      [](AffineExpr constraint) { return constraint.isFunctionOfSymbol(0); });
}

/// Replaces a constant below the negative length of any sequence by a larger one, which keeps the
/// number small and the bound valid.
static AffineExpr raised(AffineExpr candidate) {
  auto sum = dyn_cast<AffineBinaryOpExpr>(candidate);
  auto constant = sum && sum.getKind() == AffineExprKind::Add
                      ? dyn_cast<AffineConstantExpr>(sum.getRHS())
                      : AffineConstantExpr();
  return constant && constant.getValue() < -largestCoefficient ? sum.getLHS() - largestCoefficient
                                                               : candidate;
}

/// Rewrites a candidate with many divisions. Composition through a deep model nests a candidate as
/// deep, but its period remains the period of the scales: the sum of the steps of one period is the
/// same function. If there are too many steps, returns a line above it, which is a looser bound.
static std::optional<AffineExpr> compacted(AffineExpr candidate) {
  size_t floors = countFloors(candidate);
  if (floors <= fewFloors) {
    return candidate;
  }
  if (std::optional<Staircase> table = tabulate(candidate, longestTable)) {
    table->shorten();
    if (auto steps = table->toExpression(candidate.getContext(), mostFloors);
        steps && (countFloors(*steps) < floors || floors > mostFloors)) {
      return steps;
    }
  }
  return floors <= mostFloors ? candidate : linearBound(candidate);
}

/// Replaces candidates of the same slope by the larger of them at each position.
static void mergeCandidates(Frontier &frontier) {
  std::vector<std::pair<AffineExpr, std::optional<Staircase>>> merged;
  for (AffineExpr candidate : frontier.candidates) {
    std::optional<Staircase> table = tabulate(candidate, longestTable);
    bool isMerged = false;
    for (auto &[other, otherTable] : merged) {
      std::optional<Staircase> larger =
          table && otherTable ? maximum(*table, *otherTable, longestTable) : std::nullopt;
      if (!larger) {
        continue;
      }
      larger->shorten();
      if (auto steps = larger->toExpression(candidate.getContext(), mostFloors)) {
        other = *steps;
        otherTable = std::move(larger);
        isMerged = true;
        break;
      }
    }
    if (!isMerged) {
      merged.emplace_back(candidate, std::move(table));
    }
  }
  frontier.candidates.clear();
  for (auto &[candidate, table] : merged) {
    frontier.candidates.push_back(candidate);
  }
}

/// Returns true if an expression of d0 never falls, by its form or over one period.
static bool neverFalls(AffineExpr expression) {
  if (isNonDecreasing(expression)) {
    return true;
  }
  std::optional<Staircase> table = tabulate(expression, longestTable);
  return table && table->isNonDecreasing();
}

/// Adds the tokens that result positions need through one operand.
static void addOperand(Operation *op, const PositionReads &reads, const Frontier &source,
                       Frontier &result) {
  // No token reaches the source, so all of it may be read.
  if (source.unbounded || source.needsNothing()) {
    result.unbounded = source.unbounded;
    return;
  }
  AffineExpr latest = reads.latest;
  if (!reads.terms.empty()) {
    result.unbounded = latest && addThroughTerms(reads, source, result) ? nullptr : op;
    return;
  }
  // The latest read bounds the others only where both functions are non-decreasing; candidates are
  // by construction.
  if (!latest || !neverFalls(latest) || !isTame(latest)) {
    result.unbounded = op;
    return;
  }
  for (AffineExpr candidate : source.candidates) {
    std::optional<AffineExpr> composed =
        compacted(raised(simplifyAffineExpr(candidate.replaceDims({latest}), 1, 0)));
    if (!composed || !isTame(*composed)) {
      result.unbounded = op;
      return;
    }
    addCandidate(result, *composed);
  }
  addEndBounds(source, latest, result);
  if (result.candidates.size() > fewCandidates) {
    mergeCandidates(result);
  }
  if (result.candidates.size() + result.ends.size() > mostCandidates) {
    result.unbounded = op;
  }
}

/// Computes the frontier of one result of an op. Without `isExact`, a map counts as reading its own
/// row of every operand.
static Frontier computeFrontier(OpResult value, const Scales &scales,
                                const DenseMap<Value, Frontier> &known, bool isExact) {
  constexpr int64_t cost = 50; // minimum cost of an operand
  Frontier result;
  Operation *op = value.getOwner();
  auto flow = dyn_cast<CausalFlowInterface>(op);
  if (!spendWork(cost * op->getNumOperands())) {
    result.unbounded = op;
    return result;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<SequenceType>(operand.get().getType())) {
      continue;
    }
    if (!flow) {
      result.unbounded = op;
      return result;
    }
    PositionReads reads = flow.getReads(value.getResultNumber(), operand.getOperandNumber());
    if (!reads.relation) {
      continue;
    }
    if (!isExact && isa<MapOp>(op)) {
      reads.latest = getAffineDimExpr(0, op->getContext());
    }
    if (mentionsLength(*reads.relation) && !ObligationDecider().isSteady(*reads.relation)) {
      result.unbounded = op; // the set of rows that are read changes as the sequence grows
      return result;
    }
    Frontier source = known.at(operand.get());
    if (endsLazySource(*reads.relation, operand.get(), scales)) {
      addCandidate(source,
                   getAffineDimExpr(0, op->getContext()) * scales.getScaleFactor(operand.get()));
    }
    addOperand(op, reads, source, result);
    if (result.unbounded) {
      return result;
    }
  }
  if (scales.existsByTokens(value)) {
    addCandidate(result, getAffineDimExpr(0, op->getContext()) * scales.getScaleFactor(value));
  }
  if (Value named = flow ? flow.getNamedPositions(value.getResultNumber()) : Value();
      named && scales.existsByTokens(named)) {
    addOwnEnd(value, scales.getScaleFactor(named), result);
  }
  return result;
}

static DenseMap<Value, Frontier> composeFrontiers(func::FuncOp function, const Scales &scales,
                                                  bool isExact) {
  DenseMap<Value, Frontier> known;
  for (BlockArgument argument : function.getArguments()) {
    Frontier tokens;
    if (scales.isOnTargetAxis(argument)) {
      tokens.candidates.push_back(getAffineDimExpr(0, function.getContext()));
    }
    known[argument] = tokens;
  }
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0 || !isa<SequenceType>(op.getResult(0).getType())) {
      continue;
    }
    for (OpResult result : op.getResults()) {
      known[result] = computeFrontier(result, scales, known, isExact);
    }
  }
  return known;
}

/// Returns true if some map reads an operand only at some of its rows.
static bool hasChoices(func::FuncOp function) {
  return llvm::any_of(function.getOps<MapOp>(), [](MapOp map) {
    return llvm::any_of(llvm::seq(map->getNumOperands()), [&](unsigned operand) {
      std::optional<IntegerSet> relation = map.getRelation(operand);
      return relation && relation->getNumConstraints() > 1;
    });
  });
}

/// Returns true if a loss, or the last row, from which generation samples, needs later tokens.
static bool isLate(func::FuncOp function, const Scales &scales,
                   const DenseMap<Value, Frontier> &frontiers) {
  if (findViolation(function, frontiers)) {
    return true;
  }
  AffineExpr p = getAffineDimExpr(0, function.getContext());
  return llvm::any_of(function.getOps<LastOp>(), [&](LastOp last) {
    const Frontier &frontier = frontiers.at(last->getOperand(0));
    int64_t factor = scales.getScaleFactor(last->getOperand(0));
    return frontier.unbounded || !frontier.ends.empty() ||
           llvm::any_of(frontier.candidates, [&](AffineExpr candidate) {
             AffineExpr after = simplifyAffineExpr(candidate - p * factor, 1, 0);
             return isNeverPositive(after, /*wantFirst=*/false).kind != SignAnswer::Always;
           });
  });
}

/// Computes exact bounds of maps that choose between rows only if the simple bounds find a row that
/// needs later tokens: exact bounds have more divisions, and fewer steps can be derived from them.
DenseMap<Value, Frontier> sluice::computeFrontiers(func::FuncOp function) {
  Scales scales(function);
  DenseMap<Value, Frontier> frontiers = composeFrontiers(function, scales, /*isExact=*/false);
  return hasChoices(function) && isLate(function, scales, frontiers)
             ? composeFrontiers(function, scales, /*isExact=*/true)
             : frontiers;
}
