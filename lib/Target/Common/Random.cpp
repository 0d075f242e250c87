// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 (Salmon et al., SC 2011) as straight-line integer arithmetic.
#include "sluice/Target/Common/Random.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;

namespace {

using RandomWords = std::array<Value, 4>;

struct Philox {
  ImplicitLocOpBuilder &b;
  Type type; ///< i64 or a vector of it
  PhiloxWord word;

  static Type shapedAs(Type type, Type element) {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? Type(vector.clone(element)) : element;
  }
  Type wordType() const {
    return word == PhiloxWord::Narrow ? shapedAs(type, b.getI32Type()) : type;
  }

  Value constant(uint64_t value, Type of) {
    Type element = getElementTypeOrSelf(of);
    Value scalar = arith::ConstantOp::create(b, b.getIntegerAttr(element, int64_t(value)));
    return isa<VectorType>(of) ? Value(vector::BroadcastOp::create(b, of, scalar)) : scalar;
  }
  Value constant(uint64_t value) { return constant(value, type); }
  Value getWordFor(uint32_t value) {
    return constant(word == PhiloxWord::Narrow ? uint64_t(int64_t(int32_t(value))) : value,
                    wordType());
  }
  Value splat(Value scalar) {
    return isa<VectorType>(type) ? Value(vector::BroadcastOp::create(b, type, scalar)) : scalar;
  }
  Value shiftRight(Value x, uint64_t bits) {
    return arith::ShRUIOp::create(b, x, constant(bits, x.getType()));
  }
  Value exclusiveOr(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }

  /// Returns the lower word of an i64, or of a sum of words.
  Value low(Value x) {
    if (word == PhiloxWord::Wide) {
      return arith::AndIOp::create(b, x, constant(0xffffffff));
    }
    return x.getType() == type ? Value(arith::TruncIOp::create(b, wordType(), x)) : x;
  }
  Value high(Value x) {
    Value upper = shiftRight(x, 32);
    return word == PhiloxWord::Wide ? upper : low(upper);
  }
  Value add(Value x, uint32_t y) { return low(arith::AddIOp::create(b, x, getWordFor(y))); }
  /// Returns both words of x times y.
  std::pair<Value, Value> multiply(Value x, uint32_t y) {
    if (word == PhiloxWord::Narrow) {
      auto product = arith::MulUIExtendedOp::create(b, x, getWordFor(y));
      return {product.getLow(), product.getHigh()};
    }
    Value product = arith::MulIOp::create(b, x, getWordFor(y));
    return {low(product), shiftRight(product, 32)};
  }

  /// Returns the words of block `block` (element / 4).
  RandomWords philox(Value block, int64_t id, Value firstStream, Value step, Value seed) {
    Value stream =
        arith::AddIOp::create(b, firstStream, arith::ConstantIntOp::create(b, b.getI64Type(), id));
    RandomWords c{low(block), high(block), low(splat(stream)), low(splat(step))};
    Value key0 = low(splat(seed)), key1 = high(splat(seed));
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        key0 = add(key0, 0x9E3779B9);
        key1 = add(key1, 0xBB67AE85);
      }
      auto [low0, high0] = multiply(c[0], 0xD2511F53);
      auto [low1, high1] = multiply(c[2], 0xCD9E8D57);
      c = {exclusiveOr(exclusiveOr(high1, c[1]), key0), low1,
           exclusiveOr(exclusiveOr(high0, c[3]), key1), low0};
    }
    return c;
  }

  /// Computes (drawn >> 8) * 2^-24. The 24 bits fit an i32, whose conversion is native on every
  /// target.
  Value uniform(Value drawn) {
    Type narrow = shapedAs(drawn.getType(), b.getI32Type());
    Type number = shapedAs(drawn.getType(), b.getF32Type());
    Value top = shiftRight(drawn, 8);
    if (top.getType() != narrow) {
      top = arith::TruncIOp::create(b, narrow, top);
    }
    Value value = arith::SIToFPOp::create(b, number, top);
    Value scale = arith::ConstantOp::create(b, b.getF32FloatAttr(0x1p-24f));
    return arith::MulFOp::create(
        b, value,
        isa<VectorType>(number) ? Value(vector::BroadcastOp::create(b, number, scale)) : scale);
  }
};

/// a0 b0 a1 b1 ...
Value interleave(ImplicitLocOpBuilder &b, Value first, Value second) {
  int64_t count = cast<VectorType>(first.getType()).getDimSize(0);
  SmallVector<int64_t> mask;
  for (int64_t i = 0; i < count; ++i) {
    mask.append({i, count + i});
  }
  return vector::ShuffleOp::create(b, first, second, mask);
}

} // namespace

Value target::emitDrawnRow(ImplicitLocOpBuilder &b, Value row, Value drawRows, int64_t rowsOfText,
                           int64_t parts) {
  if (!drawRows) {
    return row;
  }
  Type type = row.getType();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
  };
  auto cast = [&](Value value, Type to) {
    return value.getType() == to ? value : Value(arith::IndexCastOp::create(b, to, value));
  };
  Value text = arith::DivUIOp::create(b, row, number(rowsOfText));
  Value position =
      arith::SubIOp::create(b, row, arith::MulIOp::create(b, text, number(rowsOfText)));
  // Tiles may have rows after the last text, whose numbers are unused.
  int64_t texts = llvm::cast<MemRefType>(drawRows.getType()).getDimSize(0);
  text = arith::MinUIOp::create(b, text, number(texts - 1));
  Value drawn = memref::LoadOp::create(b, drawRows, cast(text, b.getIndexType()));
  Value first = arith::MulIOp::create(b, cast(drawn, type), number(rowsOfText * parts));
  return arith::AddIOp::create(b, first, position);
}

Value target::emitUniform(ImplicitLocOpBuilder &b, Value elements, int64_t id, Value firstStream,
                          Value step, Value seed, PhiloxWord word) {
  Philox emitter{b, elements.getType(), word};
  RandomWords words = emitter.philox(emitter.shiftRight(elements, 2), id, firstStream, step, seed);
  Value which = arith::AndIOp::create(b, elements, emitter.constant(3));
  Value chosen = words[0];
  for (uint64_t i = 1; i < 4; ++i) {
    Value isThis = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, which, emitter.constant(i));
    chosen = arith::SelectOp::create(b, isThis, words[i], chosen);
  }
  return emitter.uniform(chosen);
}

std::array<Value, 4> target::emitUniformBlocks(ImplicitLocOpBuilder &b, Value blocks, int64_t id,
                                               Value firstStream, Value step, Value seed,
                                               PhiloxWord word) {
  Philox emitter{b, blocks.getType(), word};
  std::array<Value, 4> numbers;
  for (auto [number, drawn] :
       llvm::zip(numbers, emitter.philox(blocks, id, firstStream, step, seed))) {
    number = emitter.uniform(drawn);
  }
  return numbers;
}

Value target::emitUniformRun(ImplicitLocOpBuilder &b, Value first, int64_t count, int64_t id,
                             Value firstStream, Value step, Value seed, PhiloxWord word) {
  auto type = VectorType::get({count / 4}, b.getI64Type());
  Philox emitter{b, type, word};
  SmallVector<int64_t> offsets(count / 4);
  std::iota(offsets.begin(), offsets.end(), 0);
  Value ramp = arith::ConstantOp::create(b, b.getI64VectorAttr(offsets));
  Value block = arith::AddIOp::create(b, emitter.shiftRight(emitter.splat(first), 2), ramp);
  RandomWords words = emitter.philox(block, id, firstStream, step, seed);
  auto inOrder = [&](const RandomWords &four) {
    return interleave(b, interleave(b, four[0], four[2]), interleave(b, four[1], four[3]));
  };
  if (word == PhiloxWord::Narrow) { // a comparison then sees the integer
    return emitter.uniform(inOrder(words));
  }
  for (Value &number : words) {
    number = emitter.uniform(number);
  }
  return inOrder(words);
}

Value target::emitPairDraw(ImplicitLocOpBuilder &b, Value key, Value p, Value q, PhiloxWord word) {
  Type i64 = b.getI64Type();
  auto number = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, i64, value); };
  Value lower = arith::IndexCastOp::create(b, i64, arith::MinUIOp::create(b, p, q)),
        upper = arith::IndexCastOp::create(b, i64, arith::MaxUIOp::create(b, p, q));
  Value pair = arith::OrIOp::create(b, lower, arith::ShLIOp::create(b, upper, number(32)));
  Philox emitter{b, i64, word};
  RandomWords words =
      emitter.philox(pair, 0, number(0), number(0), arith::ExtUIOp::create(b, i64, key));
  Value top = emitter.shiftRight(words[0], 31);
  Value isSet =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ne, top, emitter.constant(0, top.getType()));
  Value isPair = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, p, q);
  return arith::AndIOp::create(b, isSet, isPair);
}
