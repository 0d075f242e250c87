// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects reads by ends and counts: from the relations of model IR, from the definitions of its
// backward ops, and from accesses by indices of dispatches.
#include "SegmentReads.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;
using dispatch::RowRead;

using SegmentReadList = SmallVector<SegmentRead>;
using TermList = SmallVector<SegmentRead::Term, 2>;

static IntegerSet buildRelation(ArrayRef<AffineExpr> constraints, size_t terms) {
  return IntegerSet::get(2, static_cast<unsigned>(1 + terms), constraints,
                         SmallVector<bool>(constraints.size(), false));
}

//===----------------------------------------------------------------------===//
// Model IR
//===----------------------------------------------------------------------===//

/// Returns the read of counts without a relation of their own: the counts of rows up to the latest
/// row of an operand whose relation has terms, or all counts if there is no such operand.
static SegmentRead countsBehind(CausalFlowInterface op, unsigned result, unsigned counts) {
  for (unsigned operand = 0; operand < op->getNumOperands(); ++operand) {
    PositionReads moved = op.getReads(result, operand);
    if (!moved.terms.empty()) {
      TermList terms;
      for (const SegmentTerm &term : moved.terms) {
        terms.push_back({term.of, term.at});
      }
      AffineExpr q = getAffineDimExpr(1, op->getContext());
      IntegerSet relation = buildRelation({q, moved.latest - q}, terms.size());
      return {RowRead::related(counts, relation), std::move(terms)};
    }
  }
  return {RowRead::whole(counts)};
}

static SegmentReadList readsOfModel(CausalFlowInterface op, SegmentsInterface segments,
                                    unsigned result) {
  SegmentReadList reads;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    PositionReads of = op.getReads(result, number);
    if (of.relation) {
      SegmentRead &read = reads.emplace_back();
      read.read = RowRead::related(number, *of.relation);
      for (const SegmentTerm &term : of.terms) {
        read.terms.push_back({term.of, term.at});
      }
    } else if (operand.get() == segments.getCounts()) {
      reads.push_back(countsBehind(op, result, number));
    }
  }
  return reads;
}

//===----------------------------------------------------------------------===//
// Backward ops
//===----------------------------------------------------------------------===//

namespace {

/// Reads of one result under construction. Operands are identified by their values.
class BackwardReads {
public:
  BackwardReads(Operation *op, Value counts, Value ends)
      : p(getAffineDimExpr(0, op->getContext())), op(op), counts(counts), ends(ends),
        q(getAffineDimExpr(1, op->getContext())) {}

  AffineExpr term(unsigned i) const { return getAffineSymbolExpr(1 + i, op->getContext()); }
  SegmentRead::Term count(AffineExpr at) const { return {counts, at}; }
  SegmentRead::Term end(AffineExpr at) const { return {ends, at}; }

  void itself(Value value) { add(value, p, p, {}); }
  /// Adds the reads first <= q <= last.
  void add(Value value, AffineExpr first, AffineExpr last, TermList terms) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (operand.get() == value) {
        IntegerSet relation = buildRelation({q - first, last - q}, terms.size());
        reads.push_back({RowRead::related(operand.getOperandNumber(), relation), terms});
      }
    }
  }
  /// Adds the counts and ends by which a row of the finer scale finds its segment: the row is
  /// between e(v - 1) and e(v), where v = c(at).
  void segmentAt(AffineExpr at) {
    add(counts, at, at, {});
    add(ends, term(0) - 1, term(0), {count(at)});
  }
  /// Adds reads of the two ends around the rows of a segment, which are between e(before) and
  /// e(before + 1), and of the counts up to the second end.
  void segmentBehind(AffineExpr before) {
    add(ends, before, before + 1, {});
    add(counts, getAffineConstantExpr(0, op->getContext()), term(0), {end(before + 1)});
  }

  AffineExpr p;
  SegmentReadList reads;

private:
  Operation *op;
  Value counts, ends;
  AffineExpr q;
};

} // namespace

static SegmentReadList collectOpReads(PoolSegmentsBackwardOp op) {
  BackwardReads of(op, op.getCounts(), op.getEnds());
  AffineExpr at = of.p - (op.getStarts() ? 0 : 1), row = of.term(0) - (op.getStarts() ? 1 : 0);
  of.segmentAt(at);
  of.add(op.getGradient(), row, row, {of.count(at)});
  return of.reads;
}

/// Collects the rows from p to the end of the segment, and the segment's row, which each of them
/// reads.
static SegmentReadList collectOpReads(PoolSegmentsBitsBackwardOp op) {
  BackwardReads of(op, op.getCounts(), op.getEnds());
  AffineExpr at = of.p - (op.getStarts() ? 0 : 1), row = of.term(0) - (op.getStarts() ? 1 : 0);
  TermList terms = {of.count(at), of.end(of.term(0))};
  of.add(op.getInput(), of.p, of.term(1), terms);
  of.add(op.getPooled(), row, row, {of.count(at)});
  of.add(op.getGradient(), row, row, {of.count(at)});
  of.add(op.getCounts(), at, of.term(1), terms);
  of.add(op.getEnds(), of.term(0) - 1, of.term(0), {of.count(at)});
  return of.reads;
}

/// Only row e(m) has a gradient: the gradient of row m. Every row reads the row of the last bit to
/// check whether it is that row.
static SegmentReadList collectOpReads(SelectSegmentsBackwardOp op, bool exact) {
  BackwardReads of(op, op.getCounts(), op.getEnds());
  AffineExpr row = of.term(0) - 1;
  of.add(op.getCounts(), of.p, of.p, {});
  of.add(op.getEnds(), row, row, {of.count(of.p)});
  // No q satisfies q <= row - (p - e(row)) unless p is that end.
  TermList terms = {of.count(of.p)};
  if (exact) {
    terms.push_back(of.end(row));
  }
  of.add(op.getGradient(), row, exact ? row - (of.p - of.term(1)) : row, terms);
  return of.reads;
}

/// Reads rows t with c(t) - by = m.
static SegmentReadList collectOpReads(SpreadSegmentsBackwardOp op) {
  BackwardReads of(op, op.getCounts(), op.getEnds());
  AffineExpr last = of.p + static_cast<int64_t>(op.getBy());
  of.segmentBehind(last - 1);
  int64_t later = op.getOwn() ? 1 : 0;
  of.add(op.getGradient(), of.term(0) + later, of.term(1) - 1 + later,
         {of.end(last - 1), of.end(last)});
  return of.reads;
}

static SegmentReadList collectOpReads(AttendSegmentsBackwardOp op, unsigned result) {
  BackwardReads of(op, op.getCounts(), op.getEnds());
  bool isOfQueries = result == 0;
  if (isOfQueries) {
    of.segmentBehind(of.p - 1);
  } else {
    of.segmentAt(of.p - 1);
  }
  for (Value coarse : {op.getQuery(), op.getOutput(), op.getLse(), op.getGradient()}) {
    if (isOfQueries) {
      of.itself(coarse);
    } else {
      of.add(coarse, of.term(0), of.term(0), {of.count(of.p - 1)});
    }
  }
  for (Value fine : {op.getKey(), op.getValue()}) {
    if (isOfQueries) {
      of.add(fine, of.term(0) + 1, of.term(1), {of.end(of.p - 1), of.end(of.p)});
    } else {
      of.itself(fine);
    }
  }
  return of.reads;
}

//===----------------------------------------------------------------------===//
// Dispatches
//===----------------------------------------------------------------------===//

namespace {

/// Contents of the indices of one operand of a row pass, as terms.
class Indices {
public:
  explicit Indices(dispatch::RowsOp op) : op(op) {}

  /// Returns the value of body argument `argument`, an index.
  AffineExpr buildArgumentTerm(int64_t argument) {
    if (argument < 0) {
      return getAffineDimExpr(0, op.getContext());
    }
    AccessAttr access = op.getAccess(static_cast<unsigned>(argument));
    AffineExpr at = access.getMap().getValue().getResult(0);
    if (access.getKind() == AccessKind::Gather) {
      at = at.replace(getAffineDimExpr(0, op.getContext()), buildArgumentTerm(access.getIndex()));
    }
    terms.push_back({op.getInputs()[static_cast<unsigned>(argument)], at});
    return getAffineSymbolExpr(static_cast<unsigned>(terms.size()), op.getContext());
  }
  TermList terms;

private:
  dispatch::RowsOp op;
};

} // namespace

/// Returns the read of an operand by indices; returns any other read unchanged.
static SegmentRead foundRead(dispatch::RowsOp op, const RowRead &read) {
  AccessAttr access = op.getAccess(read.operand);
  bool isRange = access.getKind() == AccessKind::Range;
  if (!isRange && access.getKind() != AccessKind::Gather) {
    return {read};
  }
  Indices indices(op);
  AffineMap map = access.getMap().getValue();
  AffineExpr p = getAffineDimExpr(0, op.getContext()), q = getAffineDimExpr(1, op.getContext()),
             member = getAffineDimExpr(1, op.getContext());
  auto find = [&](int64_t index, int64_t end) {
    AffineExpr at = map.getResult(0).replace(member, getAffineConstantExpr(end, op.getContext()));
    return at.replace(p, indices.buildArgumentTerm(index));
  };
  AffineExpr first = find(access.getIndex(), 0);
  AffineExpr last = isRange ? find(access.getLast(), 1) - 1 : first;
  SegmentRead found;
  SmallVector<AffineExpr> constraints = {q - first, last - q};
  SmallVector<bool> equalities(2, false);
  if (IntegerSet rows = read.relation) { // restricts the rows that read
    constraints.append(rows.getConstraints().begin(), rows.getConstraints().end());
    equalities.append(rows.getEqFlags().begin(), rows.getEqFlags().end());
  }
  found.read = RowRead::related(
      read.operand,
      IntegerSet::get(2, static_cast<unsigned>(indices.terms.size()) + 1, constraints, equalities));
  found.read.factor = access.getSourceFactor();
  found.terms = std::move(indices.terms);
  return found;
}

/// Returns the reads of ends: the bits up to each end. Returns none for counts, which have the
/// reads of any dispatch.
static std::optional<SegmentReadList> collectOpReads(dispatch::SegmentScanOp op, unsigned result) {
  if (result != 1) {
    return std::nullopt;
  }
  AffineExpr q = getAffineDimExpr(1, op.getContext()),
             end = getAffineSymbolExpr(1, op.getContext());
  return SegmentReadList{{RowRead::related(0, buildRelation({q, end - q}, 1)),
                          {{op.getEnds(), getAffineDimExpr(0, op.getContext())}}}};
}

static std::optional<SegmentReadList> collectOpReads(dispatch::RowsOp op, unsigned result) {
  auto all = op.getRowReads(result);
  if (!all) {
    return std::nullopt;
  }
  return llvm::map_to_vector(*all, [&](const RowRead &read) { return foundRead(op, read); });
}

std::optional<SegmentReadList> sluice::collectSegmentReads(Operation *op, unsigned result,
                                                           bool exact) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  auto segments = dyn_cast<SegmentsInterface>(op);
  if (flow && segments) {
    return readsOfModel(flow, segments, result);
  }
  using ReadAnswer = std::optional<SegmentReadList>;
  return TypeSwitch<Operation *, ReadAnswer>(op)
      .Case<PoolSegmentsBackwardOp, PoolSegmentsBitsBackwardOp, SpreadSegmentsBackwardOp>(
          [](auto backward) { return ReadAnswer(collectOpReads(backward)); })
      .Case([&](SelectSegmentsBackwardOp backward) {
        return ReadAnswer(collectOpReads(backward, exact));
      })
      .Case([&](AttendSegmentsBackwardOp backward) {
        return ReadAnswer(collectOpReads(backward, result));
      })
      .Case<dispatch::RowsOp, dispatch::SegmentScanOp>(
          [&](auto dispatch) { return collectOpReads(dispatch, result); })
      .Default([](Operation *) { return ReadAnswer(); });
}
