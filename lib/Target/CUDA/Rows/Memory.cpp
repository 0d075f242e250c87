// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads and stores of vectors of columns: 16 bytes per access if the row allows it, else single
// elements.
#include "../../Common/Storage.h"
#include "Rows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;

Value rows::sharedMemory(Frame &frame, const Twine &name, int64_t elements, Type element) {
  ImplicitLocOpBuilder &b = frame.b;
  auto type =
      MemRefType::get({elements}, element, MemRefLayoutAttrInterface(), b.getI64IntegerAttr(3));
  std::string symbol = (frame.function.getName() + "_" + name.str()).str();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(frame.function);
    memref::GlobalOp::create(b, symbol, b.getStringAttr("private"), type, b.getUnitAttr(), false,
                             b.getI64IntegerAttr(16));
  }
  return memref::GetGlobalOp::create(b, type, symbol);
}

Value rows::makeZero(TeamRowEmitter &emitter, Type type) {
  ImplicitLocOpBuilder &b = emitter.b;
  return arith::ConstantOp::create(b, b.getZeroAttr(type));
}

/// Converts between the types of memory and of the body: bf16 or i8, and f32.
Value rows::convertElements(TeamRowEmitter &emitter, Value value, Type element) {
  ImplicitLocOpBuilder &b = emitter.b;
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element) {
    return value;
  }
  auto shaped = dyn_cast<ShapedType>(value.getType());
  Type to = shaped ? Type(shaped.clone(element)) : element;
  if (from.isInteger(8)) {
    return arith::SIToFPOp::create(b, to, value);
  }
  if (element.isInteger(8)) {
    return emitRoundToWhole(b, value);
  }
  bool widens = from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth();
  return widens ? Value(arith::ExtFOp::create(b, to, value))
                : Value(arith::TruncFOp::create(b, to, value));
}

/// Returns the mask of the elements of vector `j` that are columns; null if all are.
Value rows::computeMask(TeamRowEmitter &emitter, const Columns &columns, size_t j) {
  ImplicitLocOpBuilder &b = emitter.b;
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  if (!columns.ragged[j]) {
    return nullptr;
  }
  if (columns.width % plan.vector == 0) {
    return e.less(columns.first[j], e.index(columns.width));
  }
  VectorType type = emitter.getVectorType(b.getI32Type());
  SmallVector<int32_t> numbers(plan.vector);
  std::iota(numbers.begin(), numbers.end(), 0);
  Value steps = arith::ConstantOp::create(b, DenseElementsAttr::get(type, ArrayRef(numbers)));
  Value first = vector::BroadcastOp::create(b, type, e.toInteger(columns.first[j]));
  Value end = arith::ConstantOp::create(b, DenseElementsAttr::get(type, int32_t(columns.width)));
  Value column = arith::AddIOp::create(b, first, steps);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, column, end);
}

/// Accesses are at most 16 bytes wide, and external memory may only be aligned to that.
static llvm::MaybeAlign getVectorAlignment(VectorType type) {
  uint64_t bytes = uint64_t(type.getDimSize(0)) * type.getElementTypeBitWidth() / 8;
  return llvm::Align(std::min<uint64_t>(bytes, 16));
}

/// Returns true if the last vector of a row may be accessed as a whole.
static bool holdsWholeVectors(const Source &source, int64_t vector) {
  return source.readable >= int64_t(llvm::alignTo(uint64_t(source.width), uint64_t(vector)));
}

/// Loads column `column` of a row some of whose columns are outside its source.
static Value loadPadded(TeamRowEmitter &emitter, const Source &source, Value column) {
  Emitter &e = emitter.e;
  Value at = e.add(column, source.first), last = e.index(source.columns - 1);
  Value nearest = e.max(e.min(at, last), e.index(0));
  Value isInside = arith::CmpIOp::create(emitter.b, arith::CmpIPredicate::eq, at, nearest);
  Value number = e.loadScalar(source.memory, nearest);
  return e.select(isInside, number, emitConstant(emitter.b, source.outside, number.getType()));
}

/// Columns past the end repeat the last vector or element of the row; stores and sums skip them.
Value rows::load(TeamRowEmitter &emitter, const Source &source, const Columns &columns, size_t j) {
  ImplicitLocOpBuilder &b = emitter.b;
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  VectorType type =
      emitter.getVectorType(cast<MemRefType>(source.memory.getType()).getElementType());
  Value first = columns.first[j], loaded;
  bool ragged = columns.ragged[j];
  if (source.columns > 0) {
    Values elements;
    for (int64_t i = 0; i < plan.vector; ++i) {
      elements.push_back(loadPadded(emitter, source, i ? e.add(first, i) : first));
    }
    loaded = vector::FromElementsOp::create(b, type, elements);
  } else if (source.aligned && (!ragged || holdsWholeVectors(source, plan.vector))) {
    int64_t last = (source.width - 1) / plan.vector * plan.vector;
    Value column = ragged ? e.min(first, e.index(last)) : first;
    loaded =
        vector::LoadOp::create(b, type, source.memory, column, false, getVectorAlignment(type));
  } else {
    Values elements;
    for (int64_t i = 0; i < plan.vector; ++i) {
      Value column = i ? e.add(first, i) : first;
      column = ragged ? e.min(column, e.index(source.width - 1)) : column;
      elements.push_back(e.loadScalar(source.memory, column));
    }
    loaded = vector::FromElementsOp::create(b, type, elements);
  }
  if (!source.inside) {
    return loaded;
  }
  return e.select(source.inside, loaded, emitConstant(b, source.outside, type));
}

void rows::store(TeamRowEmitter &emitter, Value value, const Source &source, const Columns &columns,
                 size_t j, Value guard) {
  ImplicitLocOpBuilder &b = emitter.b;
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  value =
      convertElements(emitter, value, cast<MemRefType>(source.memory.getType()).getElementType());
  auto type = cast<VectorType>(value.getType());
  Value first = columns.first[j];
  auto when = [&](Value column, llvm::function_ref<void()> write) {
    Value condition = columns.ragged[j] ? e.less(column, e.index(source.width)) : Value();
    condition = guard && condition ? e.both(guard, condition) : guard ? guard : condition;
    condition ? e.when(condition, write) : write();
  };
  if (source.aligned && (!columns.ragged[j] || holdsWholeVectors(source, plan.vector))) {
    when(first, [&] {
      vector::StoreOp::create(b, value, source.memory, first, false, getVectorAlignment(type));
    });
    return;
  }
  for (int64_t i = 0; i < plan.vector; ++i) {
    Value column = i ? e.add(first, i) : first;
    Value element = vector::ExtractOp::create(b, value, i);
    when(column, [&] { e.store(element, source.memory, column); });
  }
}

Values rows::loadArgument(TeamRowEmitter &emitter, unsigned argument, const Source &source,
                          Columns &columns) {
  dispatch::RowsOp op = emitter.op;
  Type element = getElementTypeOrSelf(op.getBody().getArgument(argument).getType());
  bool guarded = computesInvalid(op, emitter.plan) &&
                 getTensorAccess(op, argument).getKind() != dispatch::AccessKind::Vector;
  Values values;
  for (size_t j = 0; j < emitter.getColumnVectorCount(columns); ++j) {
    auto read = [&] {
      return convertElements(emitter, load(emitter, source, columns, j), element);
    };
    values.push_back(
        guarded ? readWhere(emitter.frame, emitter.at.valid, emitter.getVectorType(element), read)
                : read());
  }
  return values;
}

/// Synchronizes after the last read of a row, because a result may alias an operand.
void rows::synchronizeTeam(TeamRowEmitter &emitter) {
  ImplicitLocOpBuilder &b = emitter.b;
  if (emitter.plan.team > threadsPerWarp) {
    NVVM::BarrierOp::create(b);
  } else {
    NVVM::SyncWarpOp::create(b, emitter.e.integer(-1));
  }
}
