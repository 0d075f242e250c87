// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Explain/FixedSegments.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/SegmentReplay.h"
#include "sluice/Proof/SegmentBounds.h"

using namespace mlir;
using namespace sluice;

bool sluice::isOfBoundaries(OpOperand &operand) {
  auto segments = dyn_cast<SegmentsInterface>(operand.getOwner());
  return segments && !segments.movesRows(operand.getOperandNumber());
}

//===----------------------------------------------------------------------===//
// Regular boundaries
//===----------------------------------------------------------------------===//

RegularSegments::RegularSegments(func::FuncOp function)
    : scales(function), cuts(function.getOps<SegmentOp>()) {
  constexpr int64_t ofTokens = 4, ofOthers = 2, longest = 1024;
  BoundaryRules rules(function);
  for (auto [i, cut] : llvm::enumerate(cuts)) {
    int64_t below = countTokensInRow(cut.getBits());
    bool begins = rules.begins(i);
    size_t next = begins ? 1 : 0; // the bit that ends the first segment
    auto ends = rules.findRegular(i, longest);
    positions.push_back(ends && ends->size() > next ? (*ends)[next] + (begins ? 0 : 1)
                        : below == 1                ? ofTokens
                                                    : ofOthers);
    firsts.push_back(begins ? 0 : positions.back() - 1);
    tokens[scales.findSequenceAxis(cut.getEnds())] = positions.back() * below;
  }
}

int64_t RegularSegments::countTokensInRow(Value value) const {
  auto known = tokens.find(scales.findSequenceAxis(value));
  return scales.getScaleFactor(value) * (known == tokens.end() ? 1 : known->second);
}

Boundaries RegularSegments::boundariesAt(int64_t length) const {
  Boundaries boundaries;
  for (size_t i = 0; i < cuts.size(); ++i) {
    SegmentOp cut = cuts[i];
    int64_t rows = llvm::divideCeil(length, countTokensInRow(cut.getBits()));
    // For segments of segments, only those that have a bit.
    for (size_t outer = 0; outer < i; ++outer) {
      SegmentOp made = cuts[outer];
      bool isCutAgain =
          scales.findSequenceAxis(made.getEnds()) == scales.findSequenceAxis(cut.getBits());
      rows = isCutAgain ? static_cast<int64_t>(boundaries[outer].size()) : rows;
    }
    std::vector<int64_t> &ends = boundaries.emplace_back();
    for (int64_t end = firsts[i]; end < rows; end += positions[i]) {
      ends.push_back(end);
    }
  }
  return boundaries;
}

std::string RegularSegments::describe() const {
  std::string text;
  for (SegmentOp cut : cuts) {
    int64_t length = countTokensInRow(cut.getEnds());
    text += text.empty() ? "segments of " + std::to_string(length) + " tokens"
                         : " and of " + std::to_string(length);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Given boundaries
//===----------------------------------------------------------------------===//

FixedSegments::FixedSegments(func::FuncOp function, Boundaries given)
    : scales(function), cuts(function.getOps<SegmentOp>()), boundaries(std::move(given)) {
  BoundaryRules rules(function);
  for (size_t cut = 0; cut < cuts.size(); ++cut) {
    begins.push_back(rules.begins(cut));
  }
}

/// Returns the segmentation that a value on segments belongs to.
std::optional<size_t> FixedSegments::findSegmentOp(Value value) const {
  for (size_t i = 0; i < cuts.size(); ++i) {
    SegmentOp cut = cuts[i];
    if (scales.findSequenceAxis(cut.getEnds()) == scales.findSequenceAxis(value)) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> FixedSegments::countSegmentRows(Value value) const {
  std::optional<size_t> cut = findSegmentOp(value);
  int64_t factor = scales.getScaleFactor(value);
  int64_t rows = cut ? static_cast<int64_t>(boundaries[*cut].size()) + 1 : 0;
  return cut && factor > 0 ? std::optional<int64_t>(llvm::divideCeil(rows, factor)) : std::nullopt;
}

/// Returns the value of a term; none if segment `at` has not ended.
std::optional<int64_t> FixedSegments::evaluateTerm(const SegmentTerm &term, int64_t p) const {
  CutTerm of = *resolveTerm(term);
  const std::vector<int64_t> &ends =
      boundaries[static_cast<size_t>(llvm::find(cuts, of.cut) - cuts.begin())];
  int64_t at = reference::evaluateAffine(of.at, p, 0, 0);
  if (of.kind == SegmentTerm::Count) {
    return llvm::upper_bound(ends, at) - ends.begin();
  }
  if (at < 0) {
    return at;
  }
  bool isThere = at < static_cast<int64_t>(ends.size());
  return isThere ? std::optional(ends[static_cast<size_t>(at)]) : std::nullopt;
}

std::pair<int64_t, int64_t> FixedSegments::computeRange(CausalFlowInterface op, unsigned operand,
                                                        int64_t p, int64_t n) const {
  PositionReads reads = op.getReads(0, operand);
  SmallVector<AffineExpr> numbers = {getAffineSymbolExpr(0, op.getContext())};
  for (const SegmentTerm &term : reads.terms) {
    std::optional<int64_t> number = evaluateTerm(term, p);
    if (!number) {
      return {0, -1};
    }
    numbers.push_back(getAffineConstantExpr(*number, op.getContext()));
  }
  AffineExpr d0 = getAffineDimExpr(0, op.getContext()), d1 = getAffineDimExpr(1, op.getContext());
  MaskBounds bounds = solveMask(reads.relation->replaceDimsAndSymbols({d0, d1}, numbers, 2, 1));
  std::pair<int64_t, int64_t> range = {0, n - 1};
  for (AffineExpr lower : bounds.lower) {
    range.first = std::max(range.first, reference::evaluateAffine(lower, p, 0, n));
  }
  for (AffineExpr upper : bounds.upper) {
    range.second = std::min(range.second, reference::evaluateAffine(upper, p, 0, n));
  }
  return range;
}

int64_t FixedSegments::getFirstToken(Value value, int64_t row) const {
  constexpr int64_t behindAll = int64_t{1} << 40;
  int64_t position = row * scales.getScaleFactor(value);
  while (std::optional<size_t> cut = findSegmentOp(value)) {
    SegmentOp made = cuts[*cut];
    const std::vector<int64_t> &ends = boundaries[*cut];
    auto segment = std::min(static_cast<size_t>(position), ends.size());
    value = made.getBits();
    if (begins[*cut] && segment == ends.size()) {
      return behindAll;
    }
    position = begins[*cut] ? ends[segment] : segment == 0 ? 0 : ends[segment - 1] + 1;
    position *= scales.getScaleFactor(value);
  }
  return position;
}
