// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates targets of the losses of boundaries. A moving target is computed from the number of the
// update.
#include "SpecToSluice.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

static spec::TargetAttr getTarget(spec::BoundariesOp op) {
  return op.getRatio() ? *op.getRatio() : *op.getPrior();
}

static double getLastTarget(spec::BoundariesOp op) {
  return getTarget(op).getTo().getValueAsDouble();
}

SmallVector<Value> spec_to_sluice::addUpdate(StageContext &c, spec::BoundariesOp op,
                                             SmallVector<Value> numbers) {
  Location place = c.b.getLoc();
  if (getTarget(op).getSteps() > 0 && c.purpose == Purpose::Train) {
    c.setName("update");
    numbers.push_back(UpdateOp::create(c.b, numbers.front().getType()));
  }
  c.b.setLoc(place);
  return numbers;
}

/// Computes from + (last - from) min((n - 1) / steps, 1) at update n, the quotient rounded down to
/// jumps.
static ScalarValue createTarget(StageContext &c, spec::BoundariesOp op, ScalarValue update) {
  spec::TargetAttr target = getTarget(op);
  double from = target.getFrom().getValueAsDouble();
  auto steps = static_cast<double>(target.getSteps()),
       jumps = static_cast<double>(target.getJumps());
  ScalarValue done = min(update - 1, steps);
  // Multiplies integers that f32 represents, and divides once, so that a jump is not late.
  if (jumps > 0) {
    done = done * jumps;
  }
  ScalarValue share = done / steps;
  if (jumps > 0) {
    share = floor(share) / jumps;
  }
  ScalarValue way = share * (getLastTarget(op) - from);
  return c.createNumber(from) + way;
}

std::pair<ScalarValue, ScalarValue> spec_to_sluice::createBitCosts(StageContext &c,
                                                                   spec::BoundariesOp op,
                                                                   ArrayRef<ScalarValue> update) {
  if (update.empty()) {
    double share = getLastTarget(op);
    ScalarValue set = c.createNumber(-std::log(share));
    return {set, c.createNumber(-std::log1p(-share))};
  }
  ScalarValue share = createTarget(c, op, update[0]);
  ScalarValue rest = log1p(-share), set = -log(share);
  return {set, -rest};
}

std::pair<ScalarValue, ScalarValue>
spec_to_sluice::createRatio(StageContext &c, spec::BoundariesOp op, ArrayRef<ScalarValue> update) {
  if (update.empty()) {
    double ratio = getLastTarget(op);
    ScalarValue whole = c.createNumber(ratio / (ratio - 1));
    return {whole, c.createNumber(ratio - 1)};
  }
  ScalarValue ratio = createTarget(c, op, update[0]), less = ratio - 1;
  return {ratio / less, less};
}
