// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Epilogue of a contraction: from sums to stored rows. Loads and stores are whole adjacent vectors.
#include "SumRows.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using dispatch::AccessKind;

static AccessKind getAccessKind(Attribute access) {
  return cast<dispatch::AccessAttr>(access).getKind();
}

static int64_t getExtent(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return type.getRank() == 3 ? type.getDimSize(1) : 0;
}

SumRows::SumRows(dispatch::ContractOp op, Frame &frame, TensorCore &core, bool guarded)
    : op(op), frame(frame), core(core), e(frame.e), guarded(guarded),
      epilogue(op, frame.b,
               {frame.step, frame.seed, frame.firstStream, PhiloxWord::Narrow, frame.drawRows}) {
  for (size_t i = 0; i < op.getExtras().size(); ++i) {
    extras.push_back(frame.buffer(2 + i));
  }
  for (size_t i = 0; i < op.getOutputs().size(); ++i) {
    results.push_back(frame.buffer(op->getNumOperands() + i));
  }
}

void SumRows::setColumn(Value first) {
  column = first;
  shared.clear();
  size_t arguments = op.getArgumentExtras().size();
  for (auto [memory, access] :
       llvm::zip(ArrayRef(extras).take_front(arguments), op.getAccesses())) {
    Value value;
    if (getAccessKind(access) == AccessKind::Vector) {
      value = loadColumns(core, e, memory, {column});
    } else if (getAccessKind(access) == AccessKind::Scalar) {
      value = broadcastColumns(e, memory);
    }
    shared.push_back(value);
  }
}

/// Loads this thread's columns of an extra operand's row. Rows past the last one are not clamped to
/// it: the extra may alias a result, whose last row another thread stores. Rows outside the batch
/// of a domain with an axis are not loaded either, because they may have no memory.
Value SumRows::loadRow(Value memory, int64_t extent, const Row &row) {
  Value line = frame.memoryRow(extent, row);
  bool isPartial = bool(op.getDomain().getAxis());
  if (!guarded && !isPartial) {
    return loadColumns(core, e, memory, {line, column});
  }
  auto type = VectorType::get({columnsPerThread}, frame.b.getF32Type());
  auto branch = scf::IfOp::create(frame.b, TypeRange(type), isPartial ? row.valid : row.exists,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(frame.b);
  frame.b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(frame.b, loadColumns(core, e, memory, {line, column}));
  frame.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(frame.b,
                       Value(arith::ConstantOp::create(frame.b, frame.b.getZeroAttr(type))));
  return branch.getResult(0);
}

Values SumRows::loadExtras(const Row &row) {
  Values values;
  for (auto [memory, tensor, access] : llvm::zip_equal(extras, op.getExtras(), op.getAccesses())) {
    bool isRow = getAccessKind(access) == AccessKind::Row;
    values.push_back(isRow ? loadRow(memory, getExtent(tensor), row) : Value());
  }
  if (op.getRotary()) {
    values[op.getArgumentExtras().size()] = loadAngles(row);
  }
  return values;
}

/// Returns cosines and sines of this thread's two pairs of columns. The table repeats for every
/// head, and all columns get some angles.
Value SumRows::loadAngles(const Row &row) {
  Value table = extras[op.getArgumentExtras().size()];
  int64_t head = cast<MemRefType>(table.getType()).getDimSize(1);
  int64_t together = head % columnsPerThread == 0 ? columnsPerThread : 2;
  Type number = frame.b.getF32Type();
  Values angles;
  for (int64_t i = 0; i < columnsPerThread; i += together) {
    Value at = arith::RemUIOp::create(frame.b, e.add(column, i), e.index(head));
    Value some = core.load(VectorType::get({together}, number),
                           core.global(table, {row.position, at}), together * sizeof(float));
    for (int64_t j = 0; j < together; ++j) {
      angles.push_back(vector::ExtractOp::create(frame.b, some, ArrayRef<int64_t>{j}));
    }
  }
  return vector::FromElementsOp::create(frame.b, VectorType::get({columnsPerThread}, number),
                                        angles);
}

/// Rotates pairs of columns below the first column that is not rotated.
Value SumRows::rotate(Value value, Value angles) {
  Value turned = emitRotation(frame.b, value, angles, /*back=*/false);
  auto rotated = int64_t(*op.getRotatedColumns());
  Value isFirst = e.less(column, e.index(rotated));
  Value isSecond =
      rotated % columnsPerThread == 0 ? isFirst : e.less(e.add(column, 2), e.index(rotated));
  Values numbers;
  for (int64_t i = 0; i < columnsPerThread; ++i) {
    auto element = [&](Value of) -> Value {
      return vector::ExtractOp::create(frame.b, of, ArrayRef<int64_t>{i});
    };
    numbers.push_back(e.select(i < 2 ? isFirst : isSecond, element(turned), element(value)));
  }
  return vector::FromElementsOp::create(frame.b, value.getType(), numbers);
}

LogicalResult SumRows::emit(Value sums, const Row &row, ArrayRef<Value> loaded) {
  Values arguments{sums};
  for (auto [own, common] : llvm::zip(loaded, shared)) {
    arguments.push_back(own ? own : common);
  }
  FailureOr<SmallVector<Value>> yielded = epilogue.emit(arguments, {row.row, column, row.position});
  if (failed(yielded)) {
    return failure();
  }
  if (op.getRotary()) {
    yielded->front() = rotate(yielded->front(), loaded[op.getArgumentExtras().size()]);
  }
  e.when(row.valid, [&] {
    for (auto [value, memory, tensor] : llvm::zip_equal(*yielded, results, op.getOutputs())) {
      storeColumns(core, e, value, memory, {frame.memoryRow(getExtent(tensor), row), column});
    }
  });
  return success();
}

LogicalResult cuda::checkSumRows(dispatch::ContractOp op) {
  if (failed(checkStorage(op, op.getExtras())) || failed(checkStorage(op, op.getOutputs()))) {
    return failure();
  }
  for (Attribute attribute : op.getAccesses()) {
    auto access = cast<dispatch::AccessAttr>(attribute);
    bool isTable = op.getRotary() && access.getKind() == AccessKind::Table;
    if (!access.isIdentity() && access.getKind() != AccessKind::Vector &&
        access.getKind() != AccessKind::Scalar && !isTable) {
      return op.emitOpError("expected extra operands of access row (identity map), vector or "
                            "scalar, found ")
             << attribute;
    }
  }
  for (Attribute attribute : op.getResultAccesses()) {
    if (!cast<dispatch::AccessAttr>(attribute).isIdentity()) {
      return op.emitOpError("expected results of access row (identity map), found ") << attribute;
    }
  }
  return success();
}
