// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates bits where a row adds much to the coding rate of the rows before it (Deng et al. 2026).
#include "SpecToSluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

/// Returns the last pivot of I + scale G in the factorization L D L^T, where G has the products of
/// n rows, the first row first. The pivot is the ratio of the determinant to the determinant
/// without the last row. `product(i, j)` is called with j <= i.
static ScalarValue createLastPivot(int64_t n, ScalarValue scale,
                                   function_ref<ScalarValue(int64_t, int64_t)> product) {
  ScalarValue one = scale.get(1);
  SmallVector<ScalarValue> pivots;
  SmallVector<SmallVector<ScalarValue>> scaled; // rows of L D
  SmallVector<SmallVector<ScalarValue>> lower;  // rows of L
  for (int64_t i = 0; i < n; ++i) {
    auto &own = scaled.emplace_back();
    auto &unit = lower.emplace_back();
    for (int64_t j = 0; j <= i; ++j) {
      ScalarValue entry = scale * product(i, j);
      entry = i == j ? entry + one : entry;
      for (int64_t k = 0; k < j; ++k) {
        entry = entry - own[k] * lower[j][k];
      }
      if (i == j) {
        pivots.push_back(entry);
      } else {
        own.push_back(entry);
        unit.push_back(entry / pivots[j]);
      }
    }
  }
  return pivots.back();
}

/// Returns 1 where a number is among the largest `share` of all rows, or equals one of them. Finds
/// the smallest of these by bisection of x / (1 + x), which is between 0 and 1.
static Value createGreatestBits(StageContext &c, Value rates, double share) {
  constexpr int bisections = 20;
  auto createTotal = [&](Value x) -> Value { return TotalOp::create(c.b, x.getType(), x); };
  auto setAbove = [](ScalarValue x, ScalarValue threshold) {
    ScalarValue one = x.get(1);
    return selectAbove(x, threshold, one, x.get(0));
  };
  c.setName("rule.part");
  Value parts = c.createMap(rates, [](ArrayRef<ScalarValue> v) { return v[0] / (v[0] + 1); });
  c.setName("rule.ones");
  Value ones = c.createConstants(rates, 1);
  c.setName("rule.all");
  Value all = createTotal(ones);
  c.setName("rule.least");
  Value least = c.createConstants(rates, 0);
  double half = 0.5;
  for (int i = 0; i < bisections; ++i, half /= 2) {
    std::string pass = "rule." + std::to_string(i);
    c.setName(pass + ".above");
    Value above = c.createMap({parts, least},
                              [&](ArrayRef<ScalarValue> v) { return setAbove(v[0], v[1] + half); });
    c.setName(pass + ".count");
    Value count = createTotal(above);
    c.setName(pass);
    least = c.createMap({least, count, all}, [&](ArrayRef<ScalarValue> v) {
      ScalarValue wanted = v[2] * share;
      ScalarValue isEnough = isAtLeast(v[1], wanted);
      return select(isEnough, v[0] + half, v[0]);
    });
  }
  c.setName("rule.top");
  return c.createMap({parts, least}, [&](ArrayRef<ScalarValue> v) { return setAbove(v[0], v[1]); });
}

/// Returns the products of each row with the rows up to `window` before it, and the same products
/// for earlier rows: for each lag its products, then the products of 1, 2, ... rows before.
static SmallVector<Value> createProducts(StageContext &c, Value x, int64_t window) {
  SmallVector<Value> products;
  for (int64_t lag = 0; lag <= window; ++lag) {
    std::string part = "rate." + std::to_string(lag);
    c.setName(part + ".rows");
    Value before = lag == 0 ? x : c.createShift(x, lag);
    Value product = createInnerProduct(c, part, x, before);
    products.push_back(product);
    for (int64_t by = 1; by + lag <= window; ++by) {
      c.setName(part + ".before." + std::to_string(by));
      products.push_back(c.createShift(product, by));
    }
  }
  return products;
}

/// Returns 1 where R(x[t - w] .. x[t]) - R(x[t - w] .. x[t - 1]) is above the threshold, with R of
/// rows x being log det(I + X^T X / epsilon^2) / 2, in nats. Rows before the first are zeros, which
/// add nothing. Or, as published, returns 1 where that difference is among the largest of the text,
/// which leaks.
Value spec_to_sluice::createCodingRateBits(StageContext &c, spec::BoundariesOp op) {
  int64_t window = *op.getWindow();
  double epsilon = *op.getEpsilon();
  Value rows = c.getValue(op.getInput());
  auto own = cast<SequenceType>(rows.getType());
  auto type = SequenceType::get(c.b.getContext(), own.getScale(), own.getWidth(), c.b.getF32Type());
  c.setName("rate.rows"); // rounding to a stored type would change their products
  Value x = c.createMap(type, rows, [](ArrayRef<ScalarValue> v) { return v[0]; });
  SmallVector<Value> products = createProducts(c, x, window);
  auto getFirst = [&](int64_t lag) { return lag * (window + 1) - lag * (lag - 1) / 2; };
  c.setName("rate");
  Value rates = c.createMap(products, [&](ArrayRef<ScalarValue> v) {
    auto getProduct = [&](int64_t i, int64_t j) { return v[getFirst(i - j) + window - i]; };
    ScalarValue scale = c.createNumber(1 / (epsilon * epsilon));
    ScalarValue pivot = createLastPivot(window + 1, scale, getProduct);
    ScalarValue half = c.createNumber(0.5), rate = half * log(pivot);
    return op.getTop() ? rate : selectAbove(rate, *op.getThreshold(), 1, 0);
  });
  c.setName("rule");
  Value bits =
      RepeatColumnsOp::create(c.b, c.getSequence(c.getFactor(), 1, c.b.getF32Type()), rates);
  return op.getTop() ? createGreatestBits(c, bits, *op.getTop()) : bits;
}
