// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exponential of softmax as straight-line vector code, 15 instructions. The general expansion
// of math.exp handles NaN, infinities and subnormal results, at about twice the cost; here
// arguments are at most about 0.
#include "sluice/Target/Common/VectorMath.h"

using namespace mlir;
using namespace sluice::target;

static Value horner(Emitter &e, Value x, ArrayRef<float> fromHighest) {
  Value result = e.splat(fromHighest.front());
  for (float coefficient : fromHighest.drop_front()) {
    result = e.fma(result, x, e.splat(coefficient));
  }
  return result;
}

// x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 * 2^23, whose unit is 1, gives n in the low bits
// of the sum. The Taylor polynomial of degree 7 leaves r^8 / 8! <= 5.2e-9, far below half an ulp
// (6e-8); degree 6 would leave 1.2e-7. 2^n is added to the exponent. Below -87 the exponent could
// underflow, and the result is set to 0.
Value sluice::target::emitExp(Emitter &e, Value x) {
  ImplicitLocOpBuilder &b = e.b;
  Value magic = e.splat(12582912.0f);
  Value shifted = e.fma(x, e.splat(1.44269504088896341f), magic);
  Value n = e.subf(shifted, magic);
  Value r = e.fma(n, e.splat(-0.693359375f), x);
  r = e.fma(n, e.splat(2.12194440e-4f), r);
  Value p =
      horner(e, r, {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f});
  Value exponent = arith::ShLIOp::create(b, arith::BitcastOp::create(b, e.integers, shifted),
                                         e.splatInteger(23));
  Value bits = e.add(arith::BitcastOp::create(b, e.integers, p), exponent);
  Value result = arith::BitcastOp::create(b, e.floats, bits);
  Value tiny = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, e.splat(-87.0f));
  return e.select(tiny, e.splat(0), result);
}
