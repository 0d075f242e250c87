// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Philox4x32-10 (Salmon et al., SC 2011) as straight-line integer arithmetic. The 32-bit words live
// in the low halves of 64-bit lanes: x86 multiplies 32 x 32 -> 64 bits there in one instruction.
#include "sluice/Target/CPU/Random.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;

namespace {

using Words = std::array<Value, 4>;

struct Emitter {
  ImplicitLocOpBuilder &b;
  Type type; ///< i64 or a vector of it

  Value constant(uint64_t value) {
    return splat(arith::ConstantIntOp::create(b, b.getI64Type(), int64_t(value)));
  }
  Value splat(Value scalar) {
    return isa<VectorType>(type) ? Value(vector::BroadcastOp::create(b, type, scalar)) : scalar;
  }
  Value low(Value x) { return arith::AndIOp::create(b, x, constant(0xffffffff)); }
  Value shiftRight(Value x, uint64_t bits) { return arith::ShRUIOp::create(b, x, constant(bits)); }
  Value exclusiveOr(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }

  /// Words of block `block` (element / 4).
  Words philox(Value block, int64_t id, Value firstStream, Value step, Value seed) {
    Value stream =
        arith::AddIOp::create(b, firstStream, arith::ConstantIntOp::create(b, b.getI64Type(), id));
    Words c{low(block), shiftRight(block, 32), low(splat(stream)), low(splat(step))};
    Value key0 = low(splat(seed)), key1 = shiftRight(splat(seed), 32);
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        key0 = low(arith::AddIOp::create(b, key0, constant(0x9E3779B9)));
        key1 = low(arith::AddIOp::create(b, key1, constant(0xBB67AE85)));
      }
      Value product0 = arith::MulIOp::create(b, c[0], constant(0xD2511F53));
      Value product1 = arith::MulIOp::create(b, c[2], constant(0xCD9E8D57));
      c = {exclusiveOr(exclusiveOr(shiftRight(product1, 32), c[1]), key0), low(product1),
           exclusiveOr(exclusiveOr(shiftRight(product0, 32), c[3]), key1), low(product0)};
    }
    return c;
  }

  /// (word >> 8) * 2^-24. The 24 bits fit an i32, whose conversion is native on every target.
  Value uniform(Value word) {
    auto shaped = dyn_cast<ShapedType>(type);
    Type narrow = shaped ? Type(shaped.clone(b.getI32Type())) : Type(b.getI32Type());
    Type number = shaped ? Type(shaped.clone(b.getF32Type())) : Type(b.getF32Type());
    Value top = arith::TruncIOp::create(b, narrow, shiftRight(word, 8));
    Value value = arith::SIToFPOp::create(b, number, top);
    Value scale = arith::ConstantOp::create(b, b.getF32FloatAttr(0x1p-24f));
    return arith::MulFOp::create(
        b, value, shaped ? Value(vector::BroadcastOp::create(b, number, scale)) : scale);
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

Value cpu::emitUniform(ImplicitLocOpBuilder &b, Value elements, int64_t id, Value firstStream,
                       Value step, Value seed) {
  Emitter emitter{b, elements.getType()};
  Words words = emitter.philox(emitter.shiftRight(elements, 2), id, firstStream, step, seed);
  Value which = arith::AndIOp::create(b, elements, emitter.constant(3));
  Value word = words[0];
  for (uint64_t i = 1; i < 4; ++i) {
    Value isThis = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, which, emitter.constant(i));
    word = arith::SelectOp::create(b, isThis, words[i], word);
  }
  return emitter.uniform(word);
}

std::array<Value, 4> cpu::emitUniformBlocks(ImplicitLocOpBuilder &b, Value blocks, int64_t id,
                                            Value firstStream, Value step, Value seed) {
  Emitter emitter{b, blocks.getType()};
  std::array<Value, 4> numbers;
  for (auto [number, word] :
       llvm::zip(numbers, emitter.philox(blocks, id, firstStream, step, seed))) {
    number = emitter.uniform(word);
  }
  return numbers;
}

Value cpu::emitUniformRun(ImplicitLocOpBuilder &b, Value first, int64_t count, int64_t id,
                          Value firstStream, Value step, Value seed) {
  auto type = VectorType::get({count / 4}, b.getI64Type());
  Emitter emitter{b, type};
  SmallVector<int64_t> offsets(count / 4);
  std::iota(offsets.begin(), offsets.end(), 0);
  Value ramp = arith::ConstantOp::create(b, b.getI64VectorAttr(offsets));
  Value block = arith::AddIOp::create(b, emitter.shiftRight(emitter.splat(first), 2), ramp);
  Words words = emitter.philox(block, id, firstStream, step, seed);
  std::array<Value, 4> numbers;
  for (auto [number, word] : llvm::zip(numbers, words)) {
    number = emitter.uniform(word);
  }
  return interleave(b, interleave(b, numbers[0], numbers[2]),
                    interleave(b, numbers[1], numbers[3]));
}
