// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results of decode-step attention: sums of a part of the keys in the workspace, the merge of all
// parts by the last item to arrive, and the final result of a query.
#include "../../Common/RowBody.h"
#include "Decode.h"
#include "sluice/Target/Common/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

/// Returns the row of the workspace for the results of part `number` for a query.
Value DecodeGenerator::partialRow(Value number, const Query &of) {
  Value own = e.add(e.mul(e.add(e.mul(batch, cut.groups), group), cut.parts), number);
  return e.add(e.mul(own, slots), of.slot);
}

void DecodeGenerator::storePartial(const Query &of) {
  Value row = partialRow(part, of);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value column = e.index(j * e.lanes);
    e.store(e.load(accumulator, {of.slot, column}), parts, {row, column});
  }
  e.store(e.load(maximum, {of.slot, e.index(0)}), parts, {row, e.index(shape.headWidth)});
  e.store(e.load(sum, {of.slot, e.index(0)}), parts, {row, e.index(shape.headWidth + e.lanes)});
}

/// Counts the arrival of the item. The last item that has keys merges the results of all.
void DecodeGenerator::emitArrival() {
  auto countParts = [&](int64_t keys) { return e.floorDiv(e.add(length, keys - 1), keys); };
  Value live = e.select(isShort, countParts(cut.shortKeys), countParts(cut.partKeys));
  live = e.min(live, e.index(cut.parts));
  Value counter = e.add(e.mul(batch, cut.groups), group);
  Value before = memref::AtomicRMWOp::create(e.b, arith::AtomicRMWKind::addi, e.integer(1),
                                             counters, ValueRange{counter});
  Value isLast = e.atLeast(e.add(before, 1), e.toInteger(live));
  e.when(isLast, [&] {
    e.store(e.integer(0), counters, {counter});
    eachQuery([&](const Query &query) {
      mergePartials(query, live);
      storeResult(query);
    });
  });
}

/// Merges the sums of the first `live` parts, in order, into the sums of the query.
void DecodeGenerator::mergePartials(const Query &of, Value live) {
  auto loadPart = [&](Value number, int64_t column) {
    return e.load(parts, {partialRow(number, of), e.index(column)});
  };
  auto most = [&](Value number, ValueRange so) {
    return Emitter::Values{e.maxf(so.front(), loadPart(number, shape.headWidth))};
  };
  Value now = e.loop(e.index(0), live, 1, e.splat(-infinity), most).front();
  Value shift = e.select(isNone(now), e.splat(0), now);
  Emitter::Values sums(shape.headVectors + 1, e.splat(0));
  sums = e.loop(e.index(0), live, 1, sums, [&](Value number, ValueRange so) {
    Value factor = emitExp(e, e.subf(loadPart(number, shape.headWidth), shift));
    Emitter::Values next;
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      next.push_back(e.fma(loadPart(number, j * e.lanes), factor, so[j]));
    }
    next.push_back(e.fma(loadPart(number, shape.headWidth + e.lanes), factor, so.back()));
    return next;
  });
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(sums[j], accumulator, {of.slot, e.index(j * e.lanes)});
  }
  e.store(now, maximum, {of.slot, e.index(0)});
  e.store(sums.back(), sum, {of.slot, e.index(0)});
}

void DecodeGenerator::storeResult(const Query &of) {
  Value total = e.sum(e.load(sum, {of.slot, e.index(0)}));
  Value some = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, total, e.splat(0));
  Value divisor = e.select(some, total, e.splat(1));
  Value share = arith::DivFOp::create(e.b, e.splat(1), divisor);
  Value row = ringRow(e.b, getExtent(op.getOutput()), batch, of.position);
  Value first = e.mul(of.head, shape.head);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value result = e.mulf(e.load(accumulator, {of.slot, e.index(j * e.lanes)}), share);
    e.store(result, output, {row, getFirstColumn(first, j)}, getValidRows(j));
  }
  Value greatestScore = e.load(maximum, {of.slot, e.index(0)});
  Value logarithm = e.addf(greatestScore, math::LogOp::create(e.b, divisor));
  logarithm = e.select(some, logarithm, e.splat(-infinity));
  e.store(vector::ExtractOp::create(e.b, logarithm, int64_t(0)), lse,
          {ringRow(e.b, getExtent(op.getLse()), batch, of.position), of.head});
}
