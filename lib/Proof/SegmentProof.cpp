// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// States obligations with ends of segments as formulas over integers and unknown increasing
// functions.
#include "sluice/Proof/SegmentProof.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/SegmentBounds.h"

using namespace mlir;
using namespace sluice;
using segments::Answer;
using segments::Formula;
using segments::Linear;

namespace {

/// One formula under construction.
class FormulaBuilder {
public:
  FormulaBuilder() : p(formula.addVariable()), q(formula.addVariable()), n(formula.addVariable()) {}

  /// Adds the relation's terms as numbers. For a count M = c(t): e(M - 1) <= t < e(M), or with
  /// `before`, t < 0 and M = 0. Returns false if a term has no segmentation.
  bool addTerms(ArrayRef<SegmentTerm> terms, bool before);
  /// Returns an expression as a linear form, with `d0` for d0, q for d1, n for s0, and the terms
  /// for the other symbols.
  Linear of(AffineExpr expression, const Linear &d0);
  Linear of(const EndBound &bound, const Linear &at);
  /// Requires that `number` is above max(-1, bound at `at`).
  void requireAbove(const Linear &number, const Frontier &bound, const Linear &at);

  Formula formula;
  Linear p, q, n;
  SmallVector<Linear, 2> numbers; ///< numbers of the relation's terms
  SmallVector<SegmentOp> cuts;    ///< segmentations of the formula's functions

private:
  size_t getFunctionIndex(SegmentOp cut);
};

} // namespace

/// Assumes a distance of at least 1 between boundaries, because a larger distance is only declared.
size_t FormulaBuilder::getFunctionIndex(SegmentOp cut) {
  auto known = llvm::find(cuts, cut);
  if (known == cuts.end()) {
    cuts.push_back(cut);
    return formula.addFunction(1);
  }
  return static_cast<size_t>(known - cuts.begin());
}

Linear FormulaBuilder::of(AffineExpr expression, const Linear &d0) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    return Linear::number(constant.getValue());
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expression)) {
    return dim.getPosition() == 0 ? d0 : q;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expression)) {
    return symbol.getPosition() == 0 ? n : numbers[symbol.getPosition() - 1];
  }
  auto binary = cast<AffineBinaryOpExpr>(expression);
  Linear left = of(binary.getLHS(), d0);
  if (binary.getKind() == AffineExprKind::Add) {
    return left + of(binary.getRHS(), d0);
  }
  int64_t by = cast<AffineConstantExpr>(binary.getRHS()).getValue();
  switch (binary.getKind()) {
  case AffineExprKind::Mul:
    return left * by;
  case AffineExprKind::FloorDiv:
    return formula.buildFloor(left, by);
  case AffineExprKind::CeilDiv:
    return formula.buildFloor(left * -1, by) * -1;
  default:
    return left - formula.buildFloor(left, by) * by; // the remainder
  }
}

Linear FormulaBuilder::of(const EndBound &bound, const Linear &at) {
  Linear inner = of(bound.maps.back(), at);
  for (size_t i = bound.cuts.size(); i-- > 0;) {
    inner = of(bound.maps[i], formula.getSegmentEnd(getFunctionIndex(bound.cuts[i]), inner));
  }
  return inner;
}

bool FormulaBuilder::addTerms(ArrayRef<SegmentTerm> terms, bool before) {
  for (const SegmentTerm &term : terms) {
    std::optional<CutTerm> cut = resolveTerm(term);
    if (!cut) {
      return false;
    }
    size_t function = getFunctionIndex(cut->cut);
    Linear at = of(cut->at, p);
    if (cut->kind == SegmentTerm::End) {
      numbers.push_back(formula.getSegmentEnd(function, at));
      continue;
    }
    Linear count = before ? Linear::number(0) : formula.addVariable();
    numbers.push_back(count);
    if (before) {
      formula.require(Linear::number(-1) - at);
      continue;
    }
    formula.require(at);
    formula.require(at - formula.getSegmentEnd(function, count - Linear::number(1)));
    formula.require(formula.getSegmentEnd(function, count) - at - Linear::number(1));
  }
  return true;
}

void FormulaBuilder::requireAbove(const Linear &number, const Frontier &bound, const Linear &at) {
  formula.require(number);
  for (AffineExpr candidate : bound.candidates) {
    formula.require(number - of(candidate, at) - Linear::number(1));
  }
  for (const EndBound &candidate : bound.ends) {
    formula.require(number - of(candidate, at) - Linear::number(1));
  }
}

//===----------------------------------------------------------------------===//
// Formulas of an obligation
//===----------------------------------------------------------------------===//

/// Returns the points for which an obligation makes a claim; none if a term has no segmentation.
static std::optional<FormulaBuilder> buildSegmentDomain(const Obligation &obligation, bool before) {
  FormulaBuilder question;
  if (!question.addTerms(obligation.terms, before)) {
    return std::nullopt;
  }
  if (!isLazy(obligation.value)) {
    question.formula.require(question.p);
  }
  if (obligation.kind != ObligationKind::Read) {
    return question;
  }
  for (auto [constraint, equality] :
       llvm::zip_equal(obligation.relation.getConstraints(), obligation.relation.getEqFlags())) {
    Linear number = question.of(constraint, question.p);
    question.formula.require(number);
    if (equality) {
      question.formula.require(number * -1);
    }
  }
  if (!isLazy(obligation.source)) {
    question.formula.require(question.q);
  }
  return question;
}

/// States that some candidate of `larger` at `from` is above all of the bound: one formula per
/// candidate.
static void negateBounds(const FormulaBuilder &domain, const Frontier &larger, const Linear &from,
                         const Frontier &bound, SegmentQuestions &questions) {
  auto add = [&](auto candidate) {
    FormulaBuilder question = domain;
    Linear number = question.of(candidate, from);
    question.requireAbove(number, bound, question.p);
    questions.formulas.push_back({std::move(question.formula), std::move(question.cuts)});
  };
  llvm::for_each(larger.candidates, add);
  llvm::for_each(larger.ends, add);
}

static void addQuestions(const ModeProof &proof, const Obligation &obligation,
                         const FormulaBuilder &domain, SegmentQuestions &questions) {
  const Frontier &bound = proof.bounds.find(obligation.value)->second;
  Frontier tokens; // u(p) = p
  tokens.candidates.push_back(getAffineDimExpr(0, obligation.op->getContext()));
  switch (obligation.kind) {
  case ObligationKind::Read:
    negateBounds(domain, proof.bounds.find(obligation.source)->second, domain.q, bound, questions);
    if (obligation.bound > 0) {
      negateBounds(domain, tokens, domain.q * obligation.bound, bound, questions);
    }
    return;
  case ObligationKind::Exist: {
    Linear position = domain.numbers.empty() ? domain.p : domain.numbers.front();
    negateBounds(domain, tokens, position * obligation.bound, bound, questions);
    return;
  }
  case ObligationKind::NoLeak:
  case ObligationKind::PrefixInvariance: {
    bool isLeak = obligation.kind == ObligationKind::NoLeak;
    tokens.candidates[0] = tokens.candidates[0] + (isLeak ? obligation.bound - 1 : 0);
    negateBounds(domain, bound, domain.p, tokens, questions);
    return;
  }
  default: // tokens have no segments, and relations of fixed length have no terms
    questions.isComplete = false;
  }
}

SegmentQuestions sluice::askBySegments(const ModeProof &proof, const Obligation &obligation) {
  SegmentQuestions questions;
  // Supports one term with a count: counts of two positions, one of them before 0, would need
  // further domains.
  questions.isComplete = llvm::count_if(obligation.terms, [](const SegmentTerm &term) {
                           return term.kind == SegmentTerm::Count;
                         }) <= 1;
  bool mayPrecede = llvm::any_of(obligation.terms, [](const SegmentTerm &term) {
    std::optional<CutTerm> cut = resolveTerm(term);
    auto ahead = cut ? dyn_cast<AffineConstantExpr>(simplifyAffineExpr(
                           cut->at - getAffineDimExpr(0, cut->at.getContext()), 1, 0))
                     : AffineConstantExpr();
    return cut && cut->kind == SegmentTerm::Count && !(ahead && ahead.getValue() >= 0);
  });
  mayPrecede |= isLazy(obligation.value);
  for (bool before : {false, true}) {
    if (before && !mayPrecede) {
      break;
    }
    std::optional<FormulaBuilder> domain = buildSegmentDomain(obligation, before);
    questions.isComplete &= domain.has_value();
    if (!domain) {
      break;
    }
    if (!before) {
      questions.domain = {domain->formula, domain->cuts};
    }
    addQuestions(proof, obligation, *domain, questions);
  }
  return questions;
}

Decision sluice::decideBySegments(const ModeProof &proof, const Obligation &obligation) {
  SegmentQuestions questions = askBySegments(proof, obligation);
  if (!questions.isComplete) {
    return {Decision::Undecided};
  }
  if (obligation.kind == ObligationKind::Read &&
      segments::solve(questions.domain.formula).kind != Answer::Found) {
    return {Decision::Vacuous};
  }
  for (const SegmentQuestion &question : questions.formulas) {
    Answer answer = segments::solve(question.formula);
    if (answer.kind == Answer::Found) {
      return {Decision::Fails, answer.point[0], answer.point[1], answer.point[2]};
    }
    if (answer.kind == Answer::Undecided) {
      return {Decision::Undecided};
    }
  }
  return {};
}
