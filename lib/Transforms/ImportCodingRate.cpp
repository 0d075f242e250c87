// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bits where a row adds much to the coding rate of the rows before it (Deng et al. 2026).
#include "ImportStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

/// The last pivot of I + scale G in the factorization L D L^T, G the products of n rows, the first
/// row first: the ratio of its determinant to that without the last row. `product(i, j)` has j <=
/// i.
static Value lastPivot(ImplicitLocOpBuilder &b, int64_t n, Value scale,
                       function_ref<Value(int64_t, int64_t)> product) {
  auto mul = [&](Value u, Value v) -> Value { return arith::MulFOp::create(b, u, v); };
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1));
  SmallVector<Value> pivots;
  SmallVector<SmallVector<Value>> scaled; // rows of L D
  SmallVector<SmallVector<Value>> lower;  // rows of L
  for (int64_t i = 0; i < n; ++i) {
    auto &own = scaled.emplace_back();
    auto &unit = lower.emplace_back();
    for (int64_t j = 0; j <= i; ++j) {
      Value entry = mul(scale, product(i, j));
      entry = i == j ? Value(arith::AddFOp::create(b, entry, one)) : entry;
      for (int64_t k = 0; k < j; ++k) {
        entry = arith::SubFOp::create(b, entry, mul(own[k], lower[j][k]));
      }
      if (i == j) {
        pivots.push_back(entry);
      } else {
        own.push_back(entry);
        unit.push_back(arith::DivFOp::create(b, entry, pivots[j]));
      }
    }
  }
  return pivots.back();
}

/// The rows as f32, whose products no storage rounds.
Value StageWriter::asNumbers(StringRef part, Value x) {
  auto type = cast<SequenceType>(x.getType());
  name(part);
  auto op = MapOp::create(
      b, SequenceType::get(b.getContext(), type.getScale(), type.getWidth(), b.getF32Type()), x);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody());
  YieldOp::create(b, ValueRange{block->addArgument(b.getF32Type(), b.getLoc())});
  return op.getResult();
}

/// 1 where R(x[t - w] .. x[t]) - R(x[t - w] .. x[t - 1]) is above the threshold, R of rows
/// x being log det(I + X^T X / epsilon^2) / 2, in nats. Rows before the first are zeros, which add
/// nothing. Or where that is among the greatest of the text, as printed, which leaks.
Value StageWriter::bitsOfCodingRate(const Boundaries &settings) {
  Value x = asNumbers("rate.rows", streams[current->input]);
  int64_t window = settings.window;
  // Products of rows that lie `lag` apart, and those of rows before.
  SmallVector<Value> products;
  for (int64_t lag = 0; lag <= window; ++lag) {
    std::string part = "rate." + std::to_string(lag);
    name(part + ".rows");
    Value before = lag == 0 ? x : Value(sluice::ShiftOp::create(b, x.getType(), x, lag));
    Value product = productOf(part, x, before);
    products.push_back(product);
    for (int64_t by = 1; by + lag <= window; ++by) {
      name(part + ".before." + std::to_string(by));
      products.push_back(sluice::ShiftOp::create(b, product.getType(), product, by));
    }
  }
  // Where the products of a lag begin in the list.
  auto first = [&](int64_t lag) { return lag * (window + 1) - lag * (lag - 1) / 2; };
  name("rate");
  Value rates = map(products, [&](ArrayRef<Value> v) -> Value {
    Value pivot = lastPivot(b, window + 1, number(1 / (settings.epsilon * settings.epsilon)),
                            [&](int64_t i, int64_t j) { return v[first(i - j) + window - i]; });
    Value rate = arith::MulFOp::create(b, number(0.5), math::LogOp::create(b, pivot));
    return settings.top > 0 ? rate
                            : isAbove(rate, number(settings.threshold), number(1), number(0));
  });
  name("rule");
  Value bits = RepeatColumnsOp::create(b, sequence(current->factor, 1, b.getF32Type()), rates);
  return settings.top > 0 ? greatestRates(bits, settings.top) : bits;
}

/// 1 where a number is among the greatest `share` of all rows. The least of these is found by
/// halving: that of the numbers as parts of one, x / (1 + x). Equal ones are all among them.
Value StageWriter::greatestRates(Value rates, double share) {
  constexpr int halvings = 20;
  name("rule.part");
  Value parts = map(rates, [&](ArrayRef<Value> v) -> Value {
    return arith::DivFOp::create(b, v[0], arith::AddFOp::create(b, v[0], number(1)));
  });
  name("rule.ones");
  Value ones = map(rates, [&](ArrayRef<Value>) { return number(1); });
  name("rule.all");
  Value all = TotalOp::create(b, ones.getType(), ones);
  name("rule.least");
  Value least = map(rates, [&](ArrayRef<Value>) { return number(0); });
  double half = 0.5;
  for (int i = 0; i < halvings; ++i, half /= 2) {
    auto higher = [&](Value low) -> Value { return arith::AddFOp::create(b, low, number(half)); };
    std::string pass = "rule." + std::to_string(i);
    name(pass + ".above");
    Value above = map({parts, least}, [&](ArrayRef<Value> v) {
      return isAbove(v[0], higher(v[1]), number(1), number(0));
    });
    name(pass + ".count");
    Value count = TotalOp::create(b, above.getType(), above);
    name(pass);
    least = map({least, count, all}, [&](ArrayRef<Value> v) -> Value {
      Value wanted = arith::MulFOp::create(b, v[2], number(share));
      Value enough = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, v[1], wanted);
      return arith::SelectOp::create(b, enough, higher(v[0]), v[0]);
    });
  }
  name("rule.top");
  return map({parts, least},
             [&](ArrayRef<Value> v) { return isAbove(v[0], v[1], number(1), number(0)); });
}
