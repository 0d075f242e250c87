// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of memory, and loads and stores of f32, bf16 and i8 memory.
#include "Storage.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;

static Type getTensorElementType(Value memory) {
  return cast<MemRefType>(memory.getType()).getElementType();
}

Type target::getMemoryType(Type element) {
  return element.isBF16() ? Type(IntegerType::get(element.getContext(), 16)) : element;
}

MemRefType target::getPointerType(Type element) {
  return MemRefType::get({int64_t(1) << 60}, element);
}

MemRefType target::getBufferType(Operation *dispatch, unsigned i) {
  unsigned operands = dispatch->getNumOperands();
  Value tensor = i < operands ? dispatch->getOperand(i) : dispatch->getResult(i - operands);
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (shape.size() == 3) {
    shape = {shape[0] * shape[1], dispatch::paddedWidth(shape[2])};
  } else if (shape.empty()) {
    shape = {1};
  }
  return MemRefType::get(shape, type.getElementType());
}

bool target::isHalfMemory(Value memory) { return getTensorElementType(memory).isInteger(16); }

/// Returns `element`, or a vector of it with the shape of `like`.
static Type typeLike(Value like, Type element) {
  auto vector = dyn_cast<VectorType>(like.getType());
  return vector ? Type(vector.clone(element)) : element;
}

static Value getConstantValue(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  TypedAttr attribute = b.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto vector = dyn_cast<VectorType>(type)) {
    attribute = DenseElementsAttr::get(vector, Attribute(attribute));
  }
  return arith::ConstantOp::create(b, attribute);
}

Value target::emitExtend(ImplicitLocOpBuilder &b, Value bits) {
  Type word = typeLike(bits, b.getI32Type());
  Value wide = arith::ExtUIOp::create(b, word, bits);
  Value shifted = arith::ShLIOp::create(b, wide, getConstantValue(b, word, 16));
  return arith::BitcastOp::create(b, typeLike(bits, b.getF32Type()), shifted);
}

/// Adding 0x7fff and the lowest kept bit carries into the kept half exactly if the dropped half is
/// more than half a unit, or half a unit and the number is odd. A NaN could become infinite in this
/// way, so it keeps its upper half, with the quiet bit set.
Value target::emitRound(ImplicitLocOpBuilder &b, Value number) {
  Type word = typeLike(number, b.getI32Type());
  Value bits = arith::BitcastOp::create(b, word, number);
  Value half = getConstantValue(b, word, 16);
  Value upper = arith::ShRUIOp::create(b, bits, half);
  Value odd = arith::AndIOp::create(b, upper, getConstantValue(b, word, 1));
  Value carried = arith::AddIOp::create(
      b, arith::AddIOp::create(b, bits, getConstantValue(b, word, 0x7fff)), odd);
  Value rounded = arith::ShRUIOp::create(b, carried, half);
  Value quiet = arith::OrIOp::create(b, upper, getConstantValue(b, word, 0x40));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, number, number);
  Value result = arith::SelectOp::create(b, isNan, quiet, rounded);
  return arith::TruncIOp::create(b, typeLike(number, b.getI16Type()), result);
}

Value target::emitWhole(ImplicitLocOpBuilder &b, Value number) {
  Value wide = arith::ExtSIOp::create(b, typeLike(number, b.getI32Type()), number);
  return arith::SIToFPOp::create(b, typeLike(number, b.getF32Type()), wide);
}

/// Adding 3 * 2^22 leaves the units in the lowest bit of the sum's mantissa.
Value target::emitRoundToInteger(ImplicitLocOpBuilder &b, Value number, unsigned bits) {
  TypedAttr magic = b.getF32FloatAttr(0x3p22F);
  if (auto vector = dyn_cast<VectorType>(number.getType())) {
    magic = DenseElementsAttr::get(vector, 0x3p22F);
  }
  Value sum = arith::AddFOp::create(b, number, arith::ConstantOp::create(b, magic));
  Value word = arith::BitcastOp::create(b, typeLike(number, b.getI32Type()), sum);
  return arith::TruncIOp::create(b, typeLike(number, b.getIntegerType(bits)), word);
}

Value target::emitRoundToWhole(ImplicitLocOpBuilder &b, Value number) {
  auto constant = [&](float value) -> Value {
    TypedAttr attribute = b.getF32FloatAttr(value);
    if (auto vector = dyn_cast<VectorType>(number.getType())) {
      attribute = DenseElementsAttr::get(vector, value);
    }
    return arith::ConstantOp::create(b, attribute);
  };
  Value bounded = arith::MaxNumFOp::create(b, arith::MinNumFOp::create(b, number, constant(127)),
                                           constant(-127));
  return emitRoundToInteger(b, bounded, 8);
}

/// Returns f32 for elements of `memory` that were loaded, if that is their type in a kernel.
static Value emitLoaded(ImplicitLocOpBuilder &b, Value loaded, Value memory) {
  Type element = getTensorElementType(memory);
  return element.isInteger(16)  ? target::emitExtend(b, loaded)
         : element.isInteger(8) ? target::emitWhole(b, loaded)
                                : loaded;
}

/// Returns `number` in the type of `memory`.
static Value emitStored(ImplicitLocOpBuilder &b, Value number, Value memory) {
  Type element = getTensorElementType(memory);
  return element.isInteger(16)  ? target::emitRound(b, number)
         : element.isInteger(8) ? target::emitRoundToWhole(b, number)
                                : number;
}

/// Loads a vector of the memory's elements; masked ones are zeros.
static Value loadElements(ImplicitLocOpBuilder &b, int64_t count, Value memory, ValueRange at,
                          Value mask) {
  auto type = VectorType::get({count}, getTensorElementType(memory));
  if (!mask) {
    return vector::LoadOp::create(b, type, memory, at);
  }
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(type));
  return vector::MaskedLoadOp::create(b, type, memory, at, mask, zeros);
}

Value target::loadBits(ImplicitLocOpBuilder &b, int64_t count, Value memory, ValueRange at,
                       Value mask) {
  assert(isHalfMemory(memory) && "other elements are no bf16");
  return loadElements(b, count, memory, at, mask);
}

Value target::loadVector(ImplicitLocOpBuilder &b, int64_t lanes, Value memory, ValueRange at,
                         Value mask) {
  return emitLoaded(b, loadElements(b, lanes, memory, at, mask), memory);
}

void target::storeVector(ImplicitLocOpBuilder &b, Value vector, Value memory, ValueRange at,
                         Value mask) {
  Value stored = emitStored(b, vector, memory);
  if (mask) {
    vector::MaskedStoreOp::create(b, memory, at, mask, stored);
  } else {
    vector::StoreOp::create(b, stored, memory, at);
  }
}

Value target::loadElement(ImplicitLocOpBuilder &b, Value memory, ValueRange at) {
  return emitLoaded(b, memref::LoadOp::create(b, memory, at), memory);
}

void target::storeElement(ImplicitLocOpBuilder &b, Value number, Value memory, ValueRange at) {
  memref::StoreOp::create(b, emitStored(b, number, memory), memory, at);
}
