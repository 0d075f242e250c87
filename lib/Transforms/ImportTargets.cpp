// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Targets of the losses of boundaries. One that moves is computed from the number of the update.
#include "ImportStages.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

/// Numbers of a loss, and behind them the update's where training moves its target. Evaluation
/// always has the last one.
SmallVector<Value> StageWriter::withUpdate(SmallVector<Value> numbers, const Boundaries &settings) {
  Location place = b.getLoc();
  if (settings.moving && purpose == Purpose::Train) {
    name("update");
    numbers.push_back(UpdateOp::create(b, numbers.front().getType()));
  }
  b.setLoc(place);
  return numbers;
}

/// from + (last - from) min((n - 1) / steps, 1) at update n, the quotient rounded down to jumps.
Value StageWriter::targetAt(const Boundaries &settings, double last, Value update) {
  const MovingTarget &moving = *settings.moving;
  auto steps = static_cast<double>(moving.steps), jumps = static_cast<double>(moving.jumps);
  Value done = arith::SubFOp::create(b, update, number(1));
  done = arith::MinimumFOp::create(b, done, number(steps));
  // Products of whole numbers that f32 holds, and one division: so a jump is not late.
  if (moving.jumps > 0) {
    done = arith::MulFOp::create(b, done, number(jumps));
  }
  Value share = arith::DivFOp::create(b, done, number(steps));
  if (moving.jumps > 0) {
    share = arith::DivFOp::create(b, math::FloorOp::create(b, share), number(jumps));
  }
  Value way = arith::MulFOp::create(b, share, number(last - moving.from));
  return arith::AddFOp::create(b, number(moving.from), way);
}

/// -log a and -log(1 - a) of the prior's share a.
std::pair<Value, Value> StageWriter::costsOfBits(const Boundaries &settings,
                                                 ArrayRef<Value> update) {
  if (update.empty()) {
    return {number(-std::log(settings.prior)), number(-std::log1p(-settings.prior))};
  }
  Value a = targetAt(settings, settings.prior, update[0]);
  Value rest = math::Log1pOp::create(b, arith::NegFOp::create(b, a));
  return {arith::NegFOp::create(b, math::LogOp::create(b, a)), arith::NegFOp::create(b, rest)};
}

/// N / (N - 1) and N - 1 of the rows N of a segment that a router aims at.
std::pair<Value, Value> StageWriter::ratioAndLess(const Boundaries &settings,
                                                  ArrayRef<Value> update) {
  if (update.empty()) {
    return {number(settings.ratio / (settings.ratio - 1)), number(settings.ratio - 1)};
  }
  Value ratio = targetAt(settings, settings.ratio, update[0]);
  Value less = arith::SubFOp::create(b, ratio, number(1));
  return {arith::DivFOp::create(b, ratio, less), less};
}
