// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects obligations op by op, and decides each one independently. An obligation is decided by
// its negation: a set of points (p, q, n) that must be empty. max(-1, ...) and the maximum over
// candidates are split into cases: u_source(q) > u_value(p) exactly if some candidate of the source
// is >= 0 and above every candidate of the value.
#include "sluice/Proof/Obligations.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Residues.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/SegmentProof.h"
#include "sluice/Proof/Staircase.h"

using namespace mlir;
using namespace sluice;

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

static void collectReads(Operation &op, OpResult value, const Scales &scales,
                         std::vector<Obligation> &obligations) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  for (OpOperand &operand : op.getOpOperands()) {
    if (!flow || !isa<SequenceType>(operand.get().getType())) {
      continue;
    }
    unsigned number = operand.getOperandNumber();
    PositionReads reads = flow.getReads(value.getResultNumber(), number);
    if (reads.relation) {
      bool exists = endsLazySource(*reads.relation, operand.get(), scales);
      obligations.push_back({ObligationKind::Read, &op, number, operand.get(), value,
                             *reads.relation, exists ? scales.getScaleFactor(operand.get()) : 0,
                             reads.terms});
      if (mentionsLength(*reads.relation)) {
        obligations.push_back(
            {ObligationKind::Steady, &op, number, operand.get(), value, *reads.relation, 0, {}});
      }
    }
  }
}

/// Adds the obligation that a stored value exists once its tokens do. Rows of segments exist at
/// every length, but the position where a segment ends must exist.
static void collectExistence(OpResult value, const Scales &scales,
                             std::vector<Obligation> &obligations) {
  Operation *op = value.getOwner();
  auto flow = dyn_cast<CausalFlowInterface>(op);
  Value named = flow ? flow.getNamedPositions(value.getResultNumber()) : Value();
  if (scales.existsByTokens(value)) {
    obligations.push_back(
        {ObligationKind::Exist, op, 0, {}, value, {}, scales.getScaleFactor(value), {}});
  } else if (named && scales.existsByTokens(named)) {
    SegmentTerm own = {SegmentTerm::End, value, getAffineDimExpr(0, op->getContext())};
    obligations.push_back(
        {ObligationKind::Exist, op, 0, {}, value, {}, scales.getScaleFactor(named), {own}});
  }
}

static void collectConclusions(CrossEntropyOp loss, std::vector<Obligation> &obligations) {
  auto offset = static_cast<int64_t>(loss.getOffset());
  Value row = loss.getInput();
  obligations.push_back({ObligationKind::NoLeak, loss, 0, {}, row, {}, offset, {}});
  obligations.push_back({ObligationKind::PrefixInvariance, loss, 0, {}, row, {}, 0, {}});
}

/// Collects values backward from the predictions, because other values need no bound and may have
/// none.
DenseSet<Value> sluice::collectLive(func::FuncOp function) {
  DenseSet<Value> live;
  for (CrossEntropyOp loss : getLossOps(function)) {
    live.insert(loss.getInput());
  }
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (llvm::any_of(op.getResults(), [&](Value value) { return live.contains(value); })) {
      live.insert(op.operand_begin(), op.operand_end());
    }
  }
  return live;
}

ModeProof sluice::collectProof(func::FuncOp function, StringRef mode) {
  return collectProof(function, mode, computeFrontiers(function));
}

ModeProof sluice::collectProof(func::FuncOp function, StringRef mode,
                               const DenseMap<Value, Frontier> &frontiers) {
  ModeProof proof;
  proof.mode = mode.str();
  proof.function = function;
  Scales scales(function);
  DenseSet<Value> live = collectLive(function);
  for (BlockArgument argument : function.getArguments()) {
    if (live.contains(argument)) {
      proof.bounds[argument] = frontiers.at(argument);
      if (scales.isOnTargetAxis(argument)) {
        proof.obligations.push_back({ObligationKind::Token, function, 0, {}, argument, {}, 1, {}});
      }
    }
  }
  for (Operation &op : function.getBody().front()) {
    for (OpResult value : op.getResults()) {
      if (!live.contains(value) || !frontiers.contains(value)) {
        continue;
      }
      proof.bounds[value] = frontiers.at(value);
      collectReads(op, value, scales, proof.obligations);
      collectExistence(value, scales, proof.obligations);
    }
  }
  for (CrossEntropyOp loss : getLossOps(function)) {
    collectConclusions(loss, proof.obligations);
  }
  return proof;
}

//===----------------------------------------------------------------------===//
// Deciding
//===----------------------------------------------------------------------===//

namespace {
/// A conjunction over p, q and n, to be shown empty.
struct SetQuestion {
  explicit SetQuestion(MLIRContext *context)
      : p(getAffineDimExpr(0, context)), q(getAffineDimExpr(1, context)),
        n(getAffineSymbolExpr(0, context)) {}

  void require(AffineExpr nonNegative, bool equality = false) {
    constraints.push_back(nonNegative);
    equalities.push_back(equality);
  }
  /// Requires that `number` is above -1 and above every candidate of the bound at p.
  void requireAbove(AffineExpr number, const Frontier &bound) {
    require(number);
    for (AffineExpr candidate : bound.candidates) {
      require(number - candidate - 1);
    }
  }
  void requireRelation(IntegerSet relation) {
    for (auto [constraint, equality] :
         llvm::zip_equal(relation.getConstraints(), relation.getEqFlags())) {
      require(constraint, equality);
    }
  }
  IntegerSet get() const { return IntegerSet::get(2, 1, constraints, equalities); }

  AffineExpr p, q, n;
  SmallVector<AffineExpr> constraints;
  SmallVector<bool> equalities;
};
} // namespace

const IntegerPoint &ObligationDecider::findPoint(IntegerSet set) {
  auto [entry, isNew] = known.try_emplace(set);
  if (isNew) {
    entry->second = findIntegerPoint(set);
  }
  return entry->second;
}

/// Returns true if every (p, q) of the relation at `length` is in it at `other` too: its pairs at
/// `length` that fail a constraint at `other` form an empty set.
static bool holdsAtBoth(function_ref<bool(IntegerSet)> isEmpty, IntegerSet relation,
                        AffineExpr length, AffineExpr other) {
  SetQuestion question(relation.getContext());
  question.require(question.n - 1);
  question.require(question.p);
  question.require(question.q);
  question.require(question.n - 1 - question.q);
  auto at = [&](AffineExpr expression, AffineExpr n) {
    return expression.replaceDimsAndSymbols({question.p, question.q}, {n});
  };
  for (AffineExpr constraint : relation.getConstraints()) {
    question.require(at(constraint, length), relation.isEq(question.constraints.size() - 4));
  }
  for (auto [constraint, equality] :
       llvm::zip_equal(relation.getConstraints(), relation.getEqFlags())) {
    AffineExpr elsewhere = at(constraint, other);
    for (AffineExpr failing : {-elsewhere - 1, elsewhere - 1}) {
      SetQuestion negated = question;
      negated.require(failing);
      if (!isEmpty(negated.get())) {
        return false;
      }
      if (!equality) {
        break;
      }
    }
  }
  return true;
}

bool ObligationDecider::isSteady(IntegerSet relation) {
  auto isEmpty = [&](IntegerSet set) { return findPoint(set).kind == IntegerPoint::None; };
  AffineExpr n = getAffineSymbolExpr(0, relation.getContext());
  return holdsAtBoth(isEmpty, relation, n, n + 1) && holdsAtBoth(isEmpty, relation, n + 1, n);
}

/// Returns the points for which an obligation makes a claim.
static SetQuestion buildDomain(const Obligation &obligation) {
  SetQuestion question(obligation.op->getContext());
  question.require(question.n - 1);
  if (!isLazy(obligation.value)) {
    question.require(question.p);
  }
  if (obligation.kind == ObligationKind::Read) {
    question.requireRelation(obligation.relation);
    if (!isLazy(obligation.source)) {
      question.require(question.q);
    }
  } else {
    question.require(question.q, /*equality=*/true);
  }
  return question;
}

/// Returns sets whose union is the negation of an obligation: all of them must be empty.
static SmallVector<IntegerSet> negate(const ModeProof &proof, const Obligation &obligation) {
  SmallVector<IntegerSet> sets;
  const Frontier &bound = proof.bounds.find(obligation.value)->second;
  SetQuestion domain = buildDomain(obligation);
  if (obligation.kind == ObligationKind::Exist || obligation.kind == ObligationKind::Token) {
    domain.requireAbove(domain.p * obligation.bound, bound);
    return {domain.get()};
  }
  if (obligation.kind == ObligationKind::Read) {
    SmallVector<AffineExpr, 2> candidates = proof.bounds.find(obligation.source)->second.candidates;
    if (obligation.bound > 0) { // the source ends at n, so position q must exist
      candidates.push_back(domain.p * obligation.bound);
    }
    for (AffineExpr candidate : candidates) {
      SetQuestion question = domain;
      question.requireAbove(candidate.replaceDims({domain.q}), bound);
      sets.push_back(question.get());
    }
    return sets;
  }
  // The row may need tokens up to p + last: a candidate above that, and at least 0, violates it.
  int64_t last = obligation.kind == ObligationKind::NoLeak ? obligation.bound - 1 : 0;
  for (AffineExpr candidate : bound.candidates) {
    SetQuestion question = domain;
    question.require(candidate);
    question.require(candidate - (domain.p + last) - 1);
    sets.push_back(question.get());
  }
  return sets;
}

//===----------------------------------------------------------------------===//
// Deciding by periods
//===----------------------------------------------------------------------===//

namespace {
/// Number of questions that the Presburger library decides before periods decide the others: some
/// 20 ms. The library can take minutes for sets with more than `manyFloors` divisions.
constexpr size_t mostAsked = 400, manyFloors = 6;
/// Maximum number of divisions of a set that the library decides if periods cannot.
constexpr size_t mostFloorsAsked = 24;
constexpr int64_t longestPeriod = int64_t{1} << 14;
} // namespace

/// Counts the divisions in the question of an obligation.
static size_t countObligationFloors(const ModeProof &proof, const Obligation &obligation) {
  size_t count = 0;
  for (Value value : {obligation.value, obligation.source}) {
    if (value) {
      for (AffineExpr candidate : proof.bounds.find(value)->second.candidates) {
        count += countFloors(candidate);
      }
    }
  }
  return count;
}

/// Returns the relation q = latest(p).
static IntegerSet buildExactRead(AffineExpr latest) {
  AffineExpr q = getAffineDimExpr(1, latest.getContext());
  return IntegerSet::get(2, 1, {q - latest}, {true});
}

/// Returns true if no q of row p is beyond latest(p), for all p and n.
bool ObligationDecider::readsUpTo(const Obligation &obligation, AffineExpr latest) {
  AffineExpr q = getAffineDimExpr(1, latest.getContext());
  if (obligation.relation == buildExactRead(latest)) {
    return true;
  }
  SetQuestion question = buildDomain(obligation);
  question.require(q - latest - 1);
  return findPoint(question.get()).kind == IntegerPoint::None;
}

/// Returns Holds if the relation has a point, Vacuous if it has none. Tries a few points before it
/// searches.
Decision::Kind ObligationDecider::decideVacuity(const Obligation &obligation) {
  AffineExpr latest = cast<CausalFlowInterface>(obligation.op).getLatest(obligation.operand);
  for (int64_t p = 0; latest && p < (int64_t{1} << 34); p = 4 * p + 1) {
    int64_t q = reference::evaluateAffine(latest, p, 0, 0);
    if (q >= 0 && reference::contains(obligation.relation, p, q, q + 1)) {
      return Decision::Holds;
    }
  }
  switch (findPoint(buildDomain(obligation).get()).kind) {
  case IntegerPoint::Found:
    return Decision::Holds;
  case IntegerPoint::None:
    return Decision::Vacuous;
  case IntegerPoint::Unknown:
    return Decision::Undecided;
  }
}

/// Replaces q by the latest position that is read, which is exact if the operand's bound is
/// non-decreasing; the remaining question has one integer variable p.
Decision ObligationDecider::decideByPeriod(const ModeProof &proof, const Obligation &obligation) {
  const Frontier &bound = proof.bounds.find(obligation.value)->second;
  AffineExpr p = getAffineDimExpr(0, obligation.op->getContext()), latest = p;
  bool everywhere = isLazy(obligation.value);
  // Fails if an expression of `larger` is above the bound where all of `always` are >= 0.
  SmallVector<AffineExpr> larger, always;
  if (obligation.kind == ObligationKind::Read) {
    latest = cast<CausalFlowInterface>(obligation.op).getLatest(obligation.operand);
    if (!latest || !readsUpTo(obligation, latest)) {
      return {Decision::Undecided};
    }
    bool isOne = obligation.relation == buildExactRead(latest);
    for (AffineExpr candidate : proof.bounds.find(obligation.source)->second.candidates) {
      bool isTabulated = !isOne && !isNonDecreasing(candidate);
      std::optional<Staircase> table =
          isTabulated ? tabulate(candidate, longestPeriod) : std::nullopt;
      if (isTabulated && (!table || !table->isNonDecreasing())) {
        return {Decision::Undecided};
      }
      larger.push_back(candidate.replaceDims({latest}));
    }
    if (obligation.bound > 0) {
      larger.push_back(latest * obligation.bound);
    }
    if (!isLazy(obligation.source)) {
      always.push_back(latest);
    }
  } else if (obligation.kind == ObligationKind::Exist || obligation.kind == ObligationKind::Token) {
    larger.push_back(p * obligation.bound);
  } else {
    int64_t last = obligation.kind == ObligationKind::NoLeak ? obligation.bound - 1 : 0;
    for (AffineExpr candidate : bound.candidates) {
      CommonPoint point = findCommonPoint({candidate, candidate - (p + last) - 1}, everywhere);
      if (point.kind != CommonPoint::None) {
        return {point.kind == CommonPoint::Found ? Decision::Fails : Decision::Undecided, point.at};
      }
    }
    return {};
  }
  for (AffineExpr candidate : larger) {
    SmallVector<AffineExpr> conditions = always;
    conditions.push_back(candidate);
    for (AffineExpr covering : bound.candidates) {
      conditions.push_back(candidate - covering - 1);
    }
    CommonPoint point = findCommonPoint(conditions, everywhere);
    if (point.kind != CommonPoint::None) {
      return {point.kind == CommonPoint::Found ? Decision::Fails : Decision::Undecided, point.at};
    }
  }
  return {};
}

Decision ObligationDecider::decideBySets(const ModeProof &proof, const Obligation &obligation) {
  for (IntegerSet set : negate(proof, obligation)) {
    const IntegerPoint &point = findPoint(set);
    if (point.kind != IntegerPoint::None) {
      return point.kind == IntegerPoint::Found
                 ? Decision{Decision::Fails, point.at[0], point.at[1], point.at[2]}
                 : Decision{Decision::Undecided};
    }
  }
  return {};
}

/// Returns true if the question of an obligation contains values that depend on data.
static bool hasEnds(const ModeProof &proof, const Obligation &obligation) {
  return !obligation.terms.empty() ||
         llvm::any_of(ArrayRef{obligation.value, obligation.source}, [&](Value value) {
           return value && !proof.bounds.find(value)->second.ends.empty();
         });
}

Decision ObligationDecider::decide(const ModeProof &proof, const Obligation &obligation) {
  auto isUnbounded = [&](Value value) {
    return value && proof.bounds.find(value)->second.unbounded;
  };
  if (isUnbounded(obligation.value) || isUnbounded(obligation.source)) {
    return {Decision::Fails};
  }
  if (hasEnds(proof, obligation)) {
    return decideBySegments(proof, obligation);
  }
  if (obligation.kind == ObligationKind::Steady) {
    return {isSteady(obligation.relation) ? Decision::Holds : Decision::Fails};
  }
  if (obligation.kind == ObligationKind::Read) {
    Decision::Kind vacuity = decideVacuity(obligation);
    if (vacuity != Decision::Holds) {
      return {vacuity};
    }
  }
  size_t floors = countObligationFloors(proof, obligation);
  Decision decision{Decision::Undecided};
  if (known.size() < mostAsked && floors <= manyFloors) {
    decision = decideBySets(proof, obligation);
  }
  if (decision.kind != Decision::Undecided) {
    return decision;
  }
  decision = decideByPeriod(proof, obligation);
  return decision.kind == Decision::Undecided && floors <= mostFloorsAsked
             ? decideBySets(proof, obligation)
             : decision;
}
