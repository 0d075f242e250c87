// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random numbers of row bodies: Philox4x32-10, a counter of 128 bits and a key of 64 (Salmon et al., 2011).
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;

namespace {

/// Philox on vectors of counters.
class Philox {
public:
  Philox(ImplicitLocOpBuilder &b, int64_t width) : b(b), narrow(VectorType::get({width}, b.getI32Type())) {}

  /// The four words of each counter (n, id, step) under `seed`; `n` is a vector of i64, the others i64 scalars.
  SmallVector<Value> words(Value n, Value id, Value step, Value seed) {
    Value high = arith::ShRUIOp::create(b, n, splat64(n, 32));
    Value c[4] = {truncated(n), truncated(high), spread(low(id)), spread(low(step))};
    Value key[2] = {low(seed), low(arith::ShRUIOp::create(b, seed, constant(32, b.getI64Type())))};
    for (int round = 0; round < 10; ++round) {
      auto first = arith::MulUIExtendedOp::create(b, c[0], word(0xD2511F53));
      auto second = arith::MulUIExtendedOp::create(b, c[2], word(0xCD9E8D57));
      Value c0 = exclusive(second.getHigh(), c[1], key[0]), c2 = exclusive(first.getHigh(), c[3], key[1]);
      c[0] = c0;
      c[1] = second.getLow();
      c[2] = c2;
      c[3] = first.getLow();
      key[0] = arith::AddIOp::create(b, key[0], constant(0x9E3779B9, b.getI32Type()));
      key[1] = arith::AddIOp::create(b, key[1], constant(0xBB67AE85, b.getI32Type()));
    }
    return {c[0], c[1], c[2], c[3]};
  }

private:
  Value constant(uint64_t value, Type type) {
    auto attribute = IntegerAttr::get(type, APInt(type.getIntOrFloatBitWidth(), value));
    return arith::ConstantOp::create(b, attribute);
  }
  Value word(uint64_t value) { return spread(constant(value, b.getI32Type())); }
  Value spread(Value scalar) { return vector::BroadcastOp::create(b, narrow, scalar); }
  Value splat64(Value like, uint64_t value) {
    return vector::BroadcastOp::create(b, like.getType(), constant(value, b.getI64Type()));
  }
  Value low(Value wide) { return arith::TruncIOp::create(b, b.getI32Type(), wide); }
  Value truncated(Value wide) { return arith::TruncIOp::create(b, narrow, wide); }
  Value exclusive(Value high, Value word, Value key) {
    return arith::XOrIOp::create(b, arith::XOrIOp::create(b, high, word), spread(key));
  }

  ImplicitLocOpBuilder &b;
  VectorType narrow;
};

} // namespace

/// first + 0, 1, 2 ... as a vector of i64.
static Value counted(ImplicitLocOpBuilder &b, Value first, int64_t width) {
  auto type = VectorType::get({width}, b.getI64Type());
  SmallVector<int64_t> numbers;
  for (int64_t i = 0; i < width; ++i) {
    numbers.push_back(i);
  }
  Value steps = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  return arith::AddIOp::create(b, vector::BroadcastOp::create(b, type, first), steps);
}

/// (w >> 8) * 2^-24 of each word.
static Value unitInterval(ImplicitLocOpBuilder &b, Value words) {
  auto type = cast<VectorType>(words.getType());
  auto floats = VectorType::get(type.getShape(), b.getF32Type());
  Value eight = arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getI32IntegerAttr(8)));
  Value scale = arith::ConstantOp::create(b, DenseElementsAttr::get(floats, b.getF32FloatAttr(0x1p-24f)));
  Value number = arith::SIToFPOp::create(b, floats, arith::ShRUIOp::create(b, words, eight));
  return arith::MulFOp::create(b, number, scale);
}

/// Words in the elements' order, where the first element begins a counter: a quarter as many counters as elements.
static Value interleaved(ImplicitLocOpBuilder &b, ArrayRef<Value> words) {
  Value even = vector::InterleaveOp::create(b, words[0], words[2]);
  Value odd = vector::InterleaveOp::create(b, words[1], words[3]);
  return vector::InterleaveOp::create(b, even, odd);
}

/// The word of each element alone, for rows that begin within a counter's four: four times the work.
static Value chosen(ImplicitLocOpBuilder &b, ArrayRef<Value> words, Value elements) {
  auto type = cast<VectorType>(words[0].getType());
  Value low = arith::TruncIOp::create(b, type, elements);
  auto number = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getI32IntegerAttr(value)));
  };
  Value rest = arith::AndIOp::create(b, low, number(3));
  Value word = words[0];
  for (int32_t i = 1; i < 4; ++i) {
    Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest, number(i));
    word = arith::SelectOp::create(b, here, words[i], word);
  }
  return word;
}

Emitter::Values Emitter::uniform(dispatch::RandomOp random, Value first, int64_t count, bool aligned) {
  int64_t elements = count * lanes, counters = aligned ? elements / 4 : elements;
  auto number = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, value, 64); };
  Value start = aligned ? Value(arith::ShRUIOp::create(b, first, number(2))) : first;
  Value n = counted(b, start, counters);
  Value each = n;
  if (!aligned) {
    n = arith::ShRUIOp::create(b, n, vector::BroadcastOp::create(b, n.getType(), number(2)));
  }
  Value stepOrZero = random.getFixedStep() ? number(0) : step;
  SmallVector<Value> words = Philox(b, counters).words(n, number(random.getId()), stepOrZero, seed);
  Value numbers = unitInterval(b, aligned ? interleaved(b, words) : chosen(b, words, each));
  Values results;
  for (int64_t i = 0; i < count; ++i) {
    results.push_back(vector::ExtractStridedSliceOp::create(b, numbers, i * lanes, lanes, int64_t(1)));
  }
  return results;
}
