// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts stages that move and group rows: shift, shorten, upsample.
#include "SpecToSluice.h"
#include "sluice/Dialect/Sluice/Origin.h"

#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

static Value convertShift(StageContext &c, spec::ShiftOp op) {
  Value x = c.getValue(op.getInput());
  if (op.getStart() == spec::StartRows::null) {
    return StartOp::create(c.b, x.getType(), x, c.readOwn("start.weight"), op.getBy());
  }
  return c.createShift(x, op.getBy());
}

/// Computes in row m the concatenation of W x[k m], ..., W x[k m + k - 1], each 1 / k of the
/// result's columns. Of rows of a shift, W multiplies the rows before it, and the products are
/// shifted: a map without bias of zeros is zeros. So a group does not wait for rows past the end.
static Value createConcatenation(StageContext &c, spec::ShortenOp op) {
  Value x = c.getValue(op.getInput());
  int64_t by = 0;
  c.setName("shift");
  Location origins = c.b.getLoc();
  for (auto shift = x.getDefiningOp<ShiftOp>(); shift; shift = x.getDefiningOp<ShiftOp>()) {
    by += static_cast<int64_t>(shift.getBy());
    origins = mergeOrigins(origins, shift.getLoc());
    x = shift.getInput();
  }
  Value rows = c.createLinear("", c.materialize("rows", x), c.residualType);
  if (by > 0) {
    c.b.setLoc(origins);
    rows = c.createShift(rows, by);
  }
  if (*op.getFactor() == 1) {
    return rows;
  }
  c.setName("fold");
  rows = c.clearPadding("fold", rows);
  return FoldOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType), rows,
                        *op.getFactor(), /*window=*/0);
}

/// Replaces the zero rows before the first in group 0 by the norm of zeros, so that the groups are
/// groups of the norm of the shifted rows. Those rows are not stored: a group would then wait for
/// rows past the end. `groups` are averages, or the concatenated rows if `isFolded`.
static Value fillFirstGroup(StageContext &c, spec::ShortenOp op, Value groups, bool isFolded) {
  auto shift = c.getValue(op.getInput()).getDefiningOp<ShiftOp>();
  auto norm = shift.getInput().getDefiningOp<NormOp>();
  auto &b = c.b;
  int64_t factor = *op.getFactor(), by = shift.getBy(), width = c.getWidth();
  SequenceType type = c.getSequence(c.getFactor(), width, c.residualType);
  auto statistic = SequenceType::get(b.getContext(), type.getScale(), 0, b.getF32Type());
  c.setName("row");
  Value row = ShortenOp::create(b, type, shift.getResult(), factor, dispatch::ReduceKind::Add,
                                /*window=*/1, /*mean=*/true);
  c.setName("zeros");
  Value zeros = c.createConstants(row, 0);
  c.setName("start");
  Value start = NormOp::create(b, type, statistic, statistic, zeros, norm.getGain(), norm.getBias(),
                               norm.getRms(), norm.getEpsilon())
                    .getResult();
  if (isFolded) {
    c.setName("upsample");
    start = UpsampleOp::create(b, c.getSequence(c.getFactor() / factor, width, c.residualType),
                               start, factor);
    c.setName("start.fold");
    start = FoldOp::create(b, groups.getType(), start, factor, /*window=*/0);
  }
  c.setName("filled");
  return c.createMap({groups, start}, [&](ArrayRef<ScalarValue> v) {
    auto isBelow = [&](Value number, int64_t end) -> ScalarValue {
      Value most = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(end)));
      return {b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number, most)};
    };
    ScalarValue isFirst = isBelow(dispatch::PositionOp::create(b, b.getI32Type()), 1);
    if (!isFolded) {
      return select(isFirst, v[0] + v[1] * (double(by) / double(factor)), v[0]);
    }
    ScalarValue isMissing = isBelow(dispatch::ColumnOp::create(b, b.getI32Type()), by * width);
    return select(isFirst, select(isMissing, v[1], v[0]), v[0]);
  });
}

static Value convertShorten(StageContext &c, spec::ShortenOp op) {
  if (op.getSegments()) {
    return poolSegments(c, op);
  }
  if (op.getMethod() == spec::ShortenMethod::concatenate) {
    return createConcatenation(c, op);
  }
  Value x = c.getValue(op.getInput());
  int64_t factor = *op.getFactor(), rows = op.getRows(), window = rows == factor ? 0 : rows;
  bool isFilled = op.getStart() == spec::StartRows::norm && factor > 1;
  if (factor == 1 && rows == 1) {
    return op.isLinear() ? c.createLinear("", x, c.residualType) : x;
  }
  if (op.isLinear()) {
    c.setName("fold");
    x = c.clearPadding("fold", x);
    x = FoldOp::create(c.b, c.getSequence(c.getFactor(), rows * c.getWidth(), c.computeType), x,
                       factor, window);
    x = isFilled ? fillFirstGroup(c, op, x, /*isFolded=*/true) : x;
    return c.createLinear("", x, c.residualType);
  }
  if (op.getMethod() == spec::ShortenMethod::stack) {
    c.setName("fold");
    x = c.clearPadding("fold", x);
    return FoldOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType), x,
                          factor, window);
  }
  bool isMaximum = op.getMethod() == spec::ShortenMethod::max;
  x = c.clearPadding("shorten", x, isMaximum ? -std::numeric_limits<float>::infinity() : 0);
  x = ShortenOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType), x, factor,
                        isMaximum ? dispatch::ReduceKind::Max : dispatch::ReduceKind::Add, window,
                        /*mean=*/!isMaximum);
  return isFilled ? fillFirstGroup(c, op, x, /*isFolded=*/false) : x;
}

/// Computes in row p the product of W and its part of the columns of row p div k, the (p mod k)-th
/// of k.
static Value createSplit(StageContext &c, spec::UpsampleOp op) {
  Value x = c.getValue(op.getInput());
  if (int64_t factor = *op.getFactor(); factor > 1) {
    Value groups = c.materialize("groups", x);
    auto type = cast<SequenceType>(x.getType());
    c.setName("unfold");
    x = UnfoldOp::create(c.b,
                         c.getSequence(c.getFactor(), type.getWidth() / factor, type.getElement()),
                         groups, factor);
  }
  return c.createLinear("", c.materialize("rows", x), c.residualType);
}

/// Converts a transposed convolution of w = j k columns to a linear map of j groups at a time: row
/// r of group m is the sum over i < j of W_(r + k i) x[m - i].
static Value convertUpsample(StageContext &c, spec::UpsampleOp op) {
  if (op.getSegments()) {
    return spreadSegments(c, op);
  }
  if (op.getMethod() == spec::UpsampleMethod::split) {
    return createSplit(c, op);
  }
  Value x = c.getValue(op.getInput());
  if (int64_t groups = op.getGroups(); groups > 1) {
    auto coarse = cast<SequenceType>(x.getType());
    c.setName("window");
    x = c.clearPadding("window", x);
    x = FoldOp::create(c.b,
                       SequenceType::get(c.b.getContext(), coarse.getScale(), groups * c.getWidth(),
                                         c.computeType),
                       x, 1, groups);
  }
  if (op.isLinear()) {
    x = c.createLinear("", x, c.residualType);
  }
  if (*op.getFactor() == 1) {
    return x;
  }
  SequenceType type = c.getSequence(c.getFactor(), c.getWidth(), c.residualType);
  c.setName(op.isLinear() ? "unfold" : "upsample");
  return op.isLinear() ? UnfoldOp::create(c.b, type, x, *op.getFactor()).getResult()
                       : UpsampleOp::create(c.b, type, x, *op.getFactor()).getResult();
}

void spec_to_sluice::populateResamplingConversions(StageConversions &conversions) {
  conversions.add(convertShift);
  conversions.add(convertShorten);
  conversions.add(convertUpsample);
}
