// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results of decode-step attention: sums of a part of the keys in the workspace, the merge of all
// parts by the last item to arrive, and the final result of a query.
#include "DecodeParts.h"
#include "../../Common/RowBody.h"
#include "sluice/Target/Common/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

/// Returns the row of the workspace for the results of part `number` for a query.
static Value partialRow(DecodeGenerator &d, Value number, const DecodeQuery &of) {
  const DecodeCut &cut = d.cut;
  Emitter &e = d.e;
  Value own = e.add(e.mul(e.add(e.mul(d.batch, cut.groups), d.group), cut.parts), number);
  return e.add(e.mul(own, d.slots), of.slot);
}

void attention::storePartial(DecodeGenerator &d, const DecodeQuery &of) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  Value row = partialRow(d, d.part, of);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value column = e.index(j * e.lanes);
    e.store(e.load(d.accumulator, {of.slot, column}), d.parts, {row, column});
  }
  e.store(e.load(d.maximum, {of.slot, e.index(0)}), d.parts, {row, e.index(shape.headWidth)});
  e.store(e.load(d.sum, {of.slot, e.index(0)}), d.parts, {row, e.index(shape.headWidth + e.lanes)});
}

/// Merges the sums of the first `live` parts, in order, into the sums of the query.
static void mergePartials(DecodeGenerator &d, const DecodeQuery &of, Value live) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  auto loadPart = [&](Value number, int64_t column) {
    return e.load(d.parts, {partialRow(d, number, of), e.index(column)});
  };
  auto most = [&](Value number, ValueRange so) {
    return Values{e.maxf(so.front(), loadPart(number, shape.headWidth))};
  };
  Value now = e.loop(e.index(0), live, 1, e.splat(-infinity), most).front();
  Value shift = e.select(isNone(d, now), e.splat(0), now);
  Values sums(shape.headVectors + 1, e.splat(0));
  sums = e.loop(e.index(0), live, 1, sums, [&](Value number, ValueRange so) {
    Value factor = emitExp(e, e.subf(loadPart(number, shape.headWidth), shift));
    Values next;
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      next.push_back(e.fma(loadPart(number, j * e.lanes), factor, so[j]));
    }
    next.push_back(e.fma(loadPart(number, shape.headWidth + e.lanes), factor, so.back()));
    return next;
  });
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(sums[j], d.accumulator, {of.slot, e.index(j * e.lanes)});
  }
  e.store(now, d.maximum, {of.slot, e.index(0)});
  e.store(sums.back(), d.sum, {of.slot, e.index(0)});
}

/// Counts the arrival of the item. The last item that has keys merges the results of all.
void attention::emitArrival(DecodeGenerator &d) {
  const DecodeCut &cut = d.cut;
  Emitter &e = d.e;
  auto countParts = [&](int64_t keys) { return e.floorDiv(e.add(d.length, keys - 1), keys); };
  Value live = e.select(d.isShort, countParts(cut.shortKeys), countParts(cut.partKeys));
  live = e.min(live, e.index(cut.parts));
  Value counter = e.add(e.mul(d.batch, cut.groups), d.group);
  Value before = memref::AtomicRMWOp::create(e.b, arith::AtomicRMWKind::addi, e.integer(1),
                                             d.counters, ValueRange{counter});
  Value isLast = e.atLeast(e.add(before, 1), e.toInteger(live));
  e.when(isLast, [&] {
    e.store(e.integer(0), d.counters, {counter});
    eachQuery(d, [&](const DecodeQuery &query) {
      mergePartials(d, query, live);
      storeResult(d, query);
    });
  });
}

void attention::storeResult(DecodeGenerator &d, const DecodeQuery &of) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  Value total = e.sum(e.load(d.sum, {of.slot, e.index(0)}));
  Value some = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, total, e.splat(0));
  Value divisor = e.select(some, total, e.splat(1));
  Value share = arith::DivFOp::create(e.b, e.splat(1), divisor);
  Value row = ringRow(e.b, d.getExtent(d.op.getOutput()), d.batch, of.position);
  Value first = e.mul(of.head, shape.head);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value result = e.mulf(e.load(d.accumulator, {of.slot, e.index(j * e.lanes)}), share);
    e.store(result, d.output, {row, d.getFirstColumn(first, j)}, d.getValidRows(j));
  }
  Value greatestScore = e.load(d.maximum, {of.slot, e.index(0)});
  Value logarithm = e.addf(greatestScore, math::LogOp::create(e.b, divisor));
  logarithm = e.select(some, logarithm, e.splat(-infinity));
  e.store(vector::ExtractOp::create(e.b, logarithm, int64_t(0)), d.lse,
          {ringRow(e.b, d.getExtent(d.op.getLse()), d.batch, of.position), of.head});
}
