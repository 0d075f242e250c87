// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts stages that move and group rows: shift, shorten, upsample.
#include "SpecToSluice.h"
#include "sluice/Dialect/Sluice/Origin.h"

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
  return FoldOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType), rows,
                        *op.getFactor(), /*window=*/0);
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
  if (factor == 1 && rows == 1) {
    return op.isLinear() ? c.createLinear("", x, c.residualType) : x;
  }
  if (op.isLinear()) {
    c.setName("fold");
    x = FoldOp::create(c.b, c.getSequence(c.getFactor(), rows * c.getWidth(), c.computeType), x,
                       factor, window);
    return c.createLinear("", x, c.residualType);
  }
  bool isMaximum = op.getMethod() == spec::ShortenMethod::max;
  return ShortenOp::create(c.b, c.getSequence(c.getFactor(), c.getWidth(), c.residualType), x,
                           factor,
                           isMaximum ? dispatch::ReduceKind::Max : dispatch::ReduceKind::Add,
                           window, /*mean=*/!isMaximum);
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
