// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transfers of four-column vectors between memory and registers.
#include "Columns.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

static MemRefType getRowType(Value memory) { return cast<MemRefType>(memory.getType()); }
static bool isWhole(Value memory) {
  return getRowType(memory).getShape().back() % columnsPerThread == 0;
}
static VectorType four(Type element) { return VectorType::get({columnsPerThread}, element); }
static int64_t countBytes(Type element) { return element.getIntOrFloatBitWidth() / 8; }

static Value toF32(Emitter &e, Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isF32()) {
    return value;
  }
  auto vector = dyn_cast<VectorType>(value.getType());
  Type type = vector ? Type(four(e.b.getF32Type())) : Type(e.b.getF32Type());
  return arith::ExtFOp::create(e.b, type, value);
}

Value cuda::loadColumns(TensorCore &core, Emitter &e, Value memory, ValueRange indices) {
  Type element = getRowType(memory).getElementType();
  if (isWhole(memory)) {
    return toF32(e, core.load(four(element), core.global(memory, indices),
                              columnsPerThread * countBytes(element)));
  }
  Value last = e.index(getRowType(memory).getShape().back() - 1);
  SmallVector<Value> at(indices), values;
  for (int64_t i = 0; i < columnsPerThread; ++i) {
    at.back() = e.min(e.add(indices.back(), i), last);
    values.push_back(core.load(element, core.global(memory, at), countBytes(element)));
  }
  return toF32(e, vector::FromElementsOp::create(e.b, four(element), values));
}

void cuda::storeColumns(TensorCore &core, Emitter &e, Value value, Value memory,
                        ValueRange indices) {
  Type element = getRowType(memory).getElementType();
  if (!element.isF32()) {
    value = arith::TruncFOp::create(e.b, four(element), value);
  }
  if (isWhole(memory)) {
    return core.store(value, core.global(memory, indices), columnsPerThread * countBytes(element));
  }
  SmallVector<Value> at(indices);
  for (int64_t i = 0; i < columnsPerThread; ++i) {
    at.back() = e.add(indices.back(), i);
    Value one = vector::ExtractOp::create(e.b, value, ArrayRef<int64_t>{i});
    e.when(e.less(at.back(), e.index(getRowType(memory).getShape().back())),
           [&] { core.store(one, core.global(memory, at), countBytes(element)); });
  }
}

Value cuda::broadcastColumns(Emitter &e, Value memory) {
  Value one = memref::LoadOp::create(e.b, memory, ValueRange{e.index(0)});
  return vector::BroadcastOp::create(e.b, four(e.b.getF32Type()), toF32(e, one));
}

// Either the first row is valid, or the run reaches the first row of the next sequence.
Value cuda::anyValid(Frame &frame, dispatch::DomainAttr domain, Value first, int64_t count) {
  Row row = frame.row(first);
  if (domain.getFactor() == 0) {
    return row.valid;
  }
  Emitter &e = frame.e;
  Value next = e.add(row.batch, 1);
  Value end = e.min(e.add(first, count), e.index(domain.getLaunchRows()));
  Value reaches = e.both(e.less(e.mul(next, domain.getPositions()), end), e.less(next, frame.rows));
  return arith::OrIOp::create(e.b, row.valid, reaches);
}

static Type getTensorElementType(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

LogicalResult cuda::checkFactors(Operation *op, ValueRange factors) {
  for (Value factor : factors) {
    if (!getTensorElementType(factor).isBF16()) {
      return op->emitOpError("expected factors of bf16, found ")
             << factor.getType() << "; set \"precision\": {\"compute\": \"bf16\"} in the spec";
    }
  }
  return success();
}

LogicalResult cuda::checkStorage(Operation *op, ValueRange tensors) {
  for (Value tensor : tensors) {
    if (!getTensorElementType(tensor).isF32() && !getTensorElementType(tensor).isBF16()) {
      return op->emitOpError("expected tensors of f32 or bf16, found ") << tensor.getType();
    }
  }
  return success();
}
