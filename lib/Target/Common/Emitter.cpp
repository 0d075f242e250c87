// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function per operation, as a shorthand for the builder.
#include "sluice/Target/Common/Emitter.h"

#include "Storage.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice::target;

Value Emitter::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }
Value Emitter::integer(int64_t value) {
  return arith::ConstantIntOp::create(b, b.getI32Type(), value);
}

Value Emitter::splat(float value) {
  return arith::ConstantOp::create(b, DenseElementsAttr::get(floats, value));
}

Value Emitter::splatInteger(int64_t value) {
  return arith::ConstantOp::create(b,
                                   DenseElementsAttr::get(integers, static_cast<int32_t>(value)));
}

Value Emitter::toInteger(Value index) {
  return arith::IndexCastOp::create(b, b.getI32Type(), index);
}

Value Emitter::broadcast(Value scalar) {
  if (isa<VectorType>(scalar.getType())) {
    return scalar;
  }
  return vector::BroadcastOp::create(b, VectorType::get({lanes}, scalar.getType()), scalar);
}

Value Emitter::constantLike(Value a, int64_t value) {
  Type element = getElementTypeOrSelf(a.getType());
  TypedAttr attribute = b.getIntegerAttr(element, value);
  if (auto type = dyn_cast<VectorType>(a.getType())) {
    attribute = DenseElementsAttr::get(type, cast<Attribute>(attribute));
  }
  return arith::ConstantOp::create(b, attribute);
}

Value Emitter::add(Value a, Value c) { return b.createOrFold<arith::AddIOp>(a, c); }
Value Emitter::sub(Value a, Value c) { return b.createOrFold<arith::SubIOp>(a, c); }
Value Emitter::mul(Value a, Value c) { return b.createOrFold<arith::MulIOp>(a, c); }
Value Emitter::add(Value a, int64_t c) { return c == 0 ? a : add(a, constantLike(a, c)); }
Value Emitter::mul(Value a, int64_t c) { return c == 1 ? a : mul(a, constantLike(a, c)); }

Value Emitter::floorDiv(Value a, int64_t positive) {
  if (positive == 1) {
    return a;
  }
  if ((positive & (positive - 1)) == 0) {
    return arith::ShRSIOp::create(b, a, constantLike(a, llvm::Log2_64(positive)));
  }
  Value negative = less(a, constantLike(a, 0));
  Value lowered = select(negative, add(a, 1 - positive), a);
  return arith::DivSIOp::create(b, lowered, constantLike(a, positive));
}

Value Emitter::min(Value a, Value c) { return b.createOrFold<arith::MinSIOp>(a, c); }
Value Emitter::max(Value a, Value c) { return b.createOrFold<arith::MaxSIOp>(a, c); }
Value Emitter::roundUp(Value a, int64_t multiple) {
  return mul(floorDiv(add(a, multiple - 1), multiple), multiple);
}

Value Emitter::less(Value a, Value c) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, a, c);
}

Value Emitter::atLeast(Value a, Value c) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, a, c);
}

Value Emitter::both(Value a, Value c) { return arith::AndIOp::create(b, a, c); }

Value Emitter::addf(Value a, Value c) { return arith::AddFOp::create(b, a, c); }
Value Emitter::subf(Value a, Value c) { return arith::SubFOp::create(b, a, c); }
Value Emitter::mulf(Value a, Value c) { return arith::MulFOp::create(b, a, c); }

Value Emitter::maxf(Value a, Value c) {
  return select(arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, a, c), a, c);
}

// vector.fma would lower to fmuladd, which becomes a multiply and an add if the backend does not
// fuse.
Value Emitter::fma(Value a, Value c, Value d) { return math::FmaOp::create(b, a, c, d); }
Value Emitter::select(Value condition, Value a, Value c) {
  return arith::SelectOp::create(b, condition, a, c);
}

Value Emitter::load(Value memory, ValueRange indices) {
  return loadVector(b, lanes, memory, indices);
}

Value Emitter::loadScalar(Value memory, ValueRange indices) {
  return loadElement(b, memory, indices);
}

void Emitter::store(Value value, Value memory, ValueRange indices) {
  if (isa<VectorType>(value.getType())) {
    storeVector(b, value, memory, indices);
  } else {
    storeElement(b, value, memory, indices);
  }
}

static Value prefixMask(Emitter &e, int64_t valid) {
  auto type = VectorType::get({e.lanes}, e.b.getI1Type());
  return vector::ConstantMaskOp::create(e.b, type, ArrayRef<int64_t>{valid});
}

Value Emitter::load(Value memory, ValueRange indices, int64_t valid) {
  if (valid >= lanes) {
    return load(memory, indices);
  }
  return loadVector(b, lanes, memory, indices, prefixMask(*this, valid));
}

void Emitter::store(Value value, Value memory, ValueRange indices, int64_t valid) {
  if (valid >= lanes) {
    return store(value, memory, indices);
  }
  storeVector(b, value, memory, indices, prefixMask(*this, valid));
}

Value Emitter::shuffle(Value a, Value c, ArrayRef<int64_t> lanesOf) {
  return vector::ShuffleOp::create(b, a, c, lanesOf);
}

Value Emitter::sum(Value vector) {
  for (int64_t distance = lanes / 2; distance > 0; distance /= 2) {
    SmallVector<int64_t> swapped;
    for (int64_t i = 0; i < lanes; ++i) {
      swapped.push_back(i ^ distance);
    }
    vector = addf(vector, shuffle(vector, vector, swapped));
  }
  return vector;
}

Value Emitter::sumEach(Values vectors) {
  for (int64_t bit = 1; bit < lanes; bit *= 2) {
    SmallVector<int64_t> own, other;
    for (int64_t i = 0; i < lanes; ++i) {
      int64_t from = (i & bit) != 0 ? lanes : 0;
      own.push_back(from + i);
      other.push_back(from + (i ^ bit));
    }
    Values merged;
    for (size_t i = 0; i + 1 < vectors.size(); i += 2) {
      Value a = vectors[i], c = vectors[i + 1];
      merged.push_back(addf(shuffle(a, c, own), shuffle(a, c, other)));
    }
    if (vectors.size() == 1) {
      for (int64_t &lane : other) {
        lane %= lanes;
      }
      merged.push_back(addf(vectors[0], shuffle(vectors[0], vectors[0], other)));
    }
    vectors = std::move(merged);
  }
  return vectors[0];
}

void Emitter::loop(Value from, Value to, int64_t step, llvm::function_ref<void(Value)> body) {
  loop(from, to, step, {}, [&](Value i, ValueRange) {
    body(i);
    return Values();
  });
}

Values Emitter::loop(Value from, Value to, int64_t step, ValueRange carried,
                     llvm::function_ref<Values(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, from, to, index(step), carried);
  OpBuilder::InsertionGuard guard(b);
  // A loop without loop-carried values already has its terminator.
  b.setInsertionPointToStart(op.getBody());
  Values next = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!carried.empty()) {
    scf::YieldOp::create(b, next);
  }
  return Values(op.getResults());
}

void Emitter::when(Value condition, llvm::function_ref<void()> then,
                   llvm::function_ref<void()> otherwise) {
  auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  then();
  if (otherwise) {
    b.setInsertionPointToStart(op.elseBlock());
    otherwise();
  }
}
