// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scans over rows as maps and shifts, all rows at once: moving averages (Hwang et al. 2025) and
// maxima of segments.
#include "ImportStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

/// By doubling: after a pass, row t has what `join` makes of the 2 s rows up to it, and `left`, one
/// number a row, the product of theirs. Nothing is left of rows that do not exist.
Value StageWriter::doubled(StringRef what, Value x, Value left, Join join) {
  for (int64_t step = 1; step < model.context; step *= 2) {
    std::string pass = (what + "." + Twine(step)).str();
    name(pass + ".left.wide");
    Value wide = repeated(left, x);
    name(pass + ".before");
    Value before = sluice::ShiftOp::create(b, x.getType(), x, step);
    name(pass);
    x = map({x, wide, before}, [&](ArrayRef<Value> v) { return join(v[0], v[1], v[2]); });
    if (2 * step >= model.context) {
      break; // no pass reads another product
    }
    name(pass + ".left.before");
    Value earlier = sluice::ShiftOp::create(b, left.getType(), left, step);
    name(pass + ".left");
    left = map({left, earlier},
               [&](ArrayRef<Value> v) -> Value { return arith::MulFOp::create(b, v[0], v[1]); });
  }
  return x;
}

/// z[m] = P[m] x[m] + (1 - P[m]) z[m - 1], z[-1] = 0, P the chance of the bit at e(m) (equation 5).
Value StageWriter::smoothed(Value x, const Segmentation &of) {
  constexpr double least = 1e-4; // of a chance's distance from 0 and 1
  auto scale = cast<SequenceType>(x.getType()).getScale();
  name("chance");
  Value left =
      SelectSegmentsOp::create(b, SequenceType::get(b.getContext(), scale, 1, b.getF32Type()),
                               of.chances, of.counts, of.ends);
  name("number");
  left = asLosses(left);
  name("left");
  left = map(left, [&](ArrayRef<Value> v) -> Value {
    Value some = arith::MaximumFOp::create(b, v[0], number(least));
    Value part = arith::MinimumFOp::create(b, some, number(1 - least));
    return arith::SubFOp::create(b, number(1), part);
  });
  name("left.wide");
  Value wide = repeated(left, x);
  name("own");
  x = map({x, wide}, [&](ArrayRef<Value> v) -> Value {
    return arith::MulFOp::create(b, v[0], arith::SubFOp::create(b, number(1), v[1]));
  });
  return doubled("smooth", x, left, [&](Value row, Value part, Value before) -> Value {
    return arith::AddFOp::create(b, row, arith::MulFOp::create(b, part, before));
  });
}

/// Row t: the greatest, column by column, of the rows of its segment up to t. Its last row has the
/// segment's. Of equal rows the earlier one has the gradient.
Value StageWriter::greatest(Value x, const Segmentation &of) {
  name("unset");
  Value unset = map(of.bits, [&](ArrayRef<Value> v) -> Value {
    return isAbove(v[0], number(0.5), number(0), number(1));
  });
  name("open"); // a row goes on with the segment of the row before, unless that has a bit
  Value open = sluice::ShiftOp::create(b, unset.getType(), unset, 1);
  name("left");
  Value left = asLosses(open);
  return doubled("greatest", x, left, [&](Value row, Value part, Value before) -> Value {
    Value greater = arith::MaximumFOp::create(b, row, before); // equal ones count as the second
    return isAbove(part, number(0.5), greater, row);
  });
}
