// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements RowReadsInterface: the reads of each dispatch's rows, from its accesses, body and
// mask.
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Dispatch/RowConditions.h"

using namespace mlir;
using namespace sluice::dispatch;

static RowRead buildRead(AccessAttr access, unsigned operand) {
  switch (access.getKind()) {
  case AccessKind::Row: {
    RowRead read = RowRead::through(operand, access.getMap().getValue());
    read.group = access.getGroup();
    read.factor = access.getSourceFactor();
    return read;
  }
  default:
    return RowRead::whole(operand);
  }
}

/// Returns true if a result with this access has one row per position of the domain.
static bool isRowOfPosition(Attribute access) {
  return cast<AccessAttr>(access).getKind() == AccessKind::Row;
}

/// Adds the operand of body argument `argument`, where `first` is the operand of argument 0, at
/// rows `rows`, and its index arguments.
static void addArgument(ArrayAttr accesses, unsigned argument, unsigned first, IntegerSet rows,
                        RowReadList &reads) {
  auto access = cast<AccessAttr>(accesses[argument]);
  reads.push_back(buildRead(access, first + argument));
  reads.back().relation = rows;
  for (unsigned index : access.getIndices()) {
    addArgument(accesses, index, first, rows, reads);
  }
  if (SoftmaxAttr softmax = access.getSoftmax()) { // numbers of the rows of the range
    for (int64_t index : {softmax.getSource(), softmax.getTarget(), softmax.getNorm()}) {
      reads.push_back(RowRead::whole(first + static_cast<unsigned>(index)));
      reads.back().relation = rows;
    }
  }
}

std::optional<RowReadList> RowsOp::getRowReads(unsigned result) {
  if (!isRowOfPosition(getResultAccesses()[result])) {
    return std::nullopt;
  }
  RowReadList reads;
  Operation *yield = getBody().front().getTerminator();
  for (const ArgumentUse &use : findArgumentUses(yield->getOperand(result))) {
    addArgument(getAccesses(), use.argument, 0, use.rows, reads);
  }
  return reads;
}

std::optional<RowReadList> ContractOp::getRowReads(unsigned result) {
  if (!isRowOfPosition(getResultAccesses()[result])) {
    return std::nullopt;
  }
  constexpr unsigned firstExtra = 2; // input and weight, which the accumulator represents
  RowReadList reads;
  Operation *yield = getEpilogue().front().getTerminator();
  for (const ArgumentUse &use : findArgumentUses(yield->getOperand(result))) {
    if (use.argument == 0) {
      reads.push_back(RowRead::itself(0, getContext()));
      reads.back().relation = use.rows;
      reads.push_back(RowRead::whole(1));
    } else {
      addArgument(getAccesses(), use.argument - 1, firstExtra, use.rows, reads);
    }
  }
  if (getRotary() && result == 0) {
    reads.push_back(RowRead::whole(firstExtra + getArgumentExtras().size()));
  }
  if (getScales()) {
    reads.push_back(RowRead::whole(firstExtra + getExtras().size() - 1));
  }
  return reads;
}

/// Accesses a row of the input and its target, all of W and the bias, and rows of `tokens` at any
/// position.
std::optional<RowReadList> CrossEntropyOp::getRowReads(unsigned) {
  constexpr unsigned input = 0, weight = 1, tokens = 2;
  AffineExpr target = getAffineDimExpr(0, getContext()) + static_cast<int64_t>(getOffset());
  RowReadList reads{RowRead::itself(input, getContext()), RowRead::whole(weight),
                    RowRead::through(tokens, AffineMap::get(2, 1, target))};
  reads.back().factor = 0;
  if (getBias()) {
    reads.push_back(RowRead::whole(getBiasMutable().begin()->getOperandNumber()));
  }
  if (getRowGradient()) {
    reads.push_back(
        RowRead::itself(getRowGradientMutable().begin()->getOperandNumber(), getContext()));
  }
  return reads;
}

std::optional<RowReadList> CrossEntropyWeightGradientOp::getRowReads(unsigned) {
  return std::nullopt;
}
std::optional<RowReadList> WeightGradientOp::getRowReads(unsigned) { return std::nullopt; }
std::optional<RowReadList> ScatterRowsOp::getRowReads(unsigned) { return std::nullopt; }

/// A count depends on the bits up to it; ends and totals do not belong to a row of the domain.
std::optional<RowReadList> SegmentScanOp::getRowReads(unsigned result) {
  if (result != 0) {
    return std::nullopt;
  }
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext());
  return RowReadList{RowRead::related(0, IntegerSet::get(2, 1, {p - q, q}, {false, false}))};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Restricts `mask` to q in [0, n).
static IntegerSet withinLength(IntegerSet mask) {
  MLIRContext *context = mask.getContext();
  AffineExpr q = getAffineDimExpr(1, context), n = getAffineSymbolExpr(0, context);
  SmallVector<AffineExpr> constraints(mask.getConstraints());
  SmallVector<bool> equalities(mask.getEqFlags());
  constraints.append({q, n - 1 - q});
  equalities.append({false, false});
  return IntegerSet::get(2, 1, constraints, equalities);
}

/// Returns the set of (p, q) with (q, p) in `mask`.
static IntegerSet transposed(IntegerSet mask) {
  MLIRContext *context = mask.getContext();
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  SmallVector<AffineExpr> symbols;
  for (unsigned i = 0; i < mask.getNumSymbols(); ++i) {
    symbols.push_back(getAffineSymbolExpr(i, context));
  }
  return mask.replaceDimsAndSymbols({q, p}, symbols, 2, mask.getNumSymbols());
}

/// Returns the rows by distance up to the maximum of row p, or all of them with `every`.
static IntegerSet buildDistanceSet(MLIRContext *context, const Distance &distance, bool every) {
  AffineExpr p = getAffineDimExpr(0, context), d = getAffineDimExpr(1, context);
  return withinLength(IntegerSet::get(2, 1, {every ? d : distance.greatest(p) - d}, {false}));
}

RowReadList sluice::dispatch::attentionReads(IntegerSet mask, unsigned operands,
                                             const DistanceTerms &terms) {
  constexpr unsigned firstTerm = 3;
  IntegerSet relation = withinLength(mask);
  RowReadList reads{RowRead::itself(0, mask.getContext()), RowRead::related(1, relation),
                    RowRead::related(2, relation)};
  if (terms.rows) {
    reads.push_back(RowRead::itself(firstTerm, mask.getContext()));
    IntegerSet distances = buildDistanceSet(mask.getContext(), terms.distance, false);
    reads.push_back(terms.hasRowTable() ? RowRead::whole(firstTerm + 1)
                                        : RowRead::related(firstTerm + 1, distances));
  }
  for (unsigned table = firstTerm + (terms.rows ? 2 : 0); table < operands; ++table) {
    reads.push_back(RowRead::whole(table));
  }
  return reads;
}

/// Returns the access to an operand by the gradient of only the queries, or of only the keys.
static RowRead readApart(IntegerSet mask, unsigned operand, bool isOfKeys, bool givesKeys) {
  if (isOfKeys == givesKeys) {
    return RowRead::itself(operand, mask.getContext());
  }
  if (isOfKeys) {
    return RowRead::related(operand, withinLength(mask));
  }
  // A transposed relation that depends on the keys' length would depend on the queries' length.
  bool mentionsLength = llvm::any_of(mask.getConstraints(), [](AffineExpr constraint) {
    return constraint.isFunctionOfSymbol(0);
  });
  return mentionsLength ? RowRead::whole(operand)
                        : RowRead::related(operand, withinLength(transposed(mask)));
}

std::optional<RowReadList>
sluice::dispatch::attentionBackwardReads(IntegerSet mask, unsigned operands, unsigned result,
                                         size_t gradients, const DistanceTerms &terms) {
  constexpr unsigned key = 1, value = 2, firstTerm = 6;
  bool isOfTerm = result >= gradients,
       isOfPositions = isOfTerm && terms.rows && result == gradients;
  if (isOfTerm && !isOfPositions) {
    return std::nullopt;
  }
  IntegerSet seenBy = withinLength(transposed(mask));
  bool givesKeys = result > 0 && !isOfTerm;
  RowReadList reads;
  for (unsigned operand = 0; operand < operands; ++operand) {
    bool isOfKeys = operand == key || operand == value;
    bool isRows = terms.rows && !terms.hasRowTable() && operand == firstTerm + 1;
    if (isRows) {
      reads.push_back(RowRead::related(operand, buildDistanceSet(mask.getContext(), terms.distance,
                                                                 givesKeys || gradients == 1)));
    } else if (operand >= firstTerm + (terms.rows ? 2 : 0) ||
               (terms.hasRowTable() && operand == firstTerm + 1) ||
               (gradients == 1 && isOfKeys && !isOfTerm)) {
      reads.push_back(RowRead::whole(operand));
    } else if (gradients > 1 || isOfTerm) {
      reads.push_back(readApart(mask, operand, isOfKeys, givesKeys));
    } else {
      reads.push_back(RowRead::itself(operand, mask.getContext()));
      reads.push_back(RowRead::related(operand, seenBy));
    }
  }
  return reads;
}

std::optional<RowReadList> AttentionOp::getRowReads(unsigned) {
  DistanceTerms terms = getTerms();
  RowReadList reads = attentionReads(getMask(), 3 + terms.count(), terms);
  for (size_t i = 0; i < getRange().size(); ++i) {
    unsigned operand = getRange().getBeginOperandIndex() + static_cast<unsigned>(i);
    reads.push_back(RowRead::itself(operand, getContext()));
  }
  return reads;
}

std::optional<RowReadList> AttentionBackwardOp::getRowReads(unsigned result) {
  unsigned operands = getNumOperands() - (getKeyCounts() ? 1 : 0); // key counts have no rows
  return attentionBackwardReads(getMask(), operands, result, getSourceGradients().size(),
                                getTerms());
}
