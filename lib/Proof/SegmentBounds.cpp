// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Composes bounds through ends of segments, and simplifies them where a row reads a closed segment.
// These bounds are not trusted: every obligation is decided independently.
#include "sluice/Proof/SegmentBounds.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/QuasiAffine.h"
#include "sluice/Proof/SegmentProof.h"

using namespace mlir;
using namespace sluice;

bool sluice::hasSegments(ModuleOp module) {
  return llvm::any_of(module.getOps<AxisOp>(), [](AxisOp axis) {
    return axis.getSegments() && !getRootAxis(axis).getCapacity();
  });
}

std::optional<CutTerm> sluice::resolveTerm(const SegmentTerm &term) {
  Value of = term.of;
  AffineExpr at = term.at;
  while (auto shift = of.getDefiningOp<ShiftOp>()) {
    if (term.kind == SegmentTerm::End) {
      return std::nullopt;
    }
    at = at - static_cast<int64_t>(shift.getBy());
    of = shift.getOperand();
  }
  auto cut = of.getDefiningOp<SegmentOp>();
  if (!cut || of != (term.kind == SegmentTerm::End ? cut.getEnds() : cut.getCounts())) {
    return std::nullopt;
  }
  return CutTerm{term.kind, cut, simplifyAffineExpr(at, 1, 0)};
}

/// Returns true if no map of `larger` is below its counterpart in `smaller`, for all p >= 0.
static bool covers(const EndBound &larger, const EndBound &smaller) {
  return larger.cuts == smaller.cuts &&
         llvm::all_of(llvm::zip_equal(larger.maps, smaller.maps), [](auto maps) {
           auto [above, below] = maps;
           AffineExpr difference = simplifyAffineExpr(below - above, 1, 0);
           return isNeverPositive(difference, /*wantFirst=*/false).kind == SignAnswer::Always;
         });
}

static void addEnd(Frontier &frontier, const EndBound &bound) {
  if (llvm::any_of(frontier.ends, [&](const EndBound &other) { return covers(other, bound); })) {
    return;
  }
  llvm::erase_if(frontier.ends, [&](const EndBound &other) { return covers(bound, other); });
  frontier.ends.push_back(bound);
}

static void addEndCandidate(Frontier &frontier, AffineExpr candidate) {
  if (!llvm::is_contained(frontier.candidates, candidate)) {
    frontier.candidates.push_back(candidate);
  }
}

static AffineExpr composed(AffineExpr outer, AffineExpr inner) {
  return simplifyAffineExpr(outer.replaceDims({inner}), 1, 0);
}

void sluice::addEndBounds(const Frontier &source, AffineExpr at, Frontier &result) {
  for (EndBound bound : source.ends) {
    bound.maps.back() = composed(bound.maps.back(), at);
    addEnd(result, bound);
  }
}

/// Adds bounds for a read of position e(at(p)) + distance of the operand; `place` is d0 + distance.
static void addThroughEnd(const CutTerm &term, AffineExpr place, const Frontier &source,
                          Frontier &result) {
  for (AffineExpr candidate : source.candidates) {
    addEnd(result, {{composed(candidate, place), term.at}, {term.cut}});
  }
  for (EndBound bound : source.ends) {
    bound.maps.back() = composed(bound.maps.back(), place);
    bound.maps.push_back(term.at);
    bound.cuts.push_back(term.cut);
    addEnd(result, bound);
  }
}

/// Returns the distance of g(M) below M - 1, the last segment that is known to be closed at the
/// row; none if g(M) is not below it.
static std::optional<int64_t> computeSlack(AffineExpr closed, AffineExpr read) {
  AffineExpr ahead = simplifyAffineExpr(read - closed, 1, 0);
  if (auto constant = dyn_cast<AffineConstantExpr>(ahead)) {
    return constant.getValue() <= 0 ? std::optional(-constant.getValue()) : std::nullopt;
  }
  bool isBelow = isNeverPositive(ahead, /*wantFirst=*/false).kind == SignAnswer::Always;
  return isBelow ? std::optional<int64_t>(0) : std::nullopt;
}

/// Adds bounds for a read of position M + distance of the operand, where M = c(t): e(M - 1) <= t <
/// e(M). So M <= t + 1, and e(g(M + distance)) <= t - s if g(M + distance) <= M - 1 - s.
static bool addThroughCount(const CutTerm &term, AffineExpr place, const Frontier &source,
                            Frontier &result) {
  AffineExpr count = getAffineDimExpr(0, place.getContext());
  for (AffineExpr candidate : source.candidates) {
    addEndCandidate(result, composed(candidate, composed(place, term.at + 1)));
  }
  for (EndBound bound : source.ends) {
    std::optional<int64_t> slack = bound.cuts.back() == term.cut
                                       ? computeSlack(count - 1, composed(bound.maps.back(), place))
                                       : std::nullopt;
    if (!slack) {
      return false;
    }
    bound.maps.pop_back();
    bound.cuts.pop_back();
    AffineExpr last = composed(bound.maps.back(), term.at - *slack);
    bound.maps.back() = last;
    if (bound.cuts.empty()) {
      addEndCandidate(result, last);
    } else {
      addEnd(result, bound);
    }
  }
  return true;
}

bool sluice::addThroughTerms(const PositionReads &reads, const Frontier &source, Frontier &result) {
  AffineExpr place = getAffineDimExpr(0, reads.latest.getContext());
  for (auto [i, term] : llvm::enumerate(reads.terms)) {
    AffineExpr symbol = getAffineSymbolExpr(static_cast<unsigned>(1 + i), place.getContext());
    auto distance = dyn_cast<AffineConstantExpr>(simplifyAffineExpr(
        reads.latest - symbol, 1, static_cast<unsigned>(1 + reads.terms.size())));
    if (!distance) {
      continue;
    }
    std::optional<CutTerm> cut = resolveTerm(term);
    if (!cut) {
      return false;
    }
    place = place + distance.getValue();
    if (cut->kind == SegmentTerm::Count) {
      return addThroughCount(*cut, place, source, result);
    }
    addThroughEnd(*cut, place, source, result);
    return true;
  }
  return false; // no term limits the rows that are read
}

void sluice::addOwnEnd(Value ends, int64_t factor, Frontier &result) {
  AffineExpr p = getAffineDimExpr(0, ends.getContext());
  if (std::optional<CutTerm> own = resolveTerm({SegmentTerm::End, ends, p})) {
    addEnd(result, {{p * factor, p}, {own->cut}});
  } else {
    result.unbounded = ends.getDefiningOp();
  }
}
