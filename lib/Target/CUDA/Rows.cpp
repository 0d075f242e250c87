// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows, one warp each. Lane l holds columns l, l + 32, ... of every row in registers; statistics
// are sums over a lane's columns, then five shuffles.
#include "Frame.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using dispatch::AccessAttr;
using dispatch::AccessKind;

namespace {

constexpr int64_t warps = threadsPerBlock / threadsPerWarp;
constexpr int64_t widestRow = 1024, mostColumns = 2048;

class RowPass {
public:
  RowPass(dispatch::RowsOp op, ModuleOp module, StringRef name)
      : op(op), frame(op, op.getDomain(), module, name), e(frame.e) {}
  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  /// Where the elements of a row lie. Without `row` the memory is one row.
  struct Source {
    Value memory, row, inside, firstColumn;
  };
  LogicalResult check();
  AccessAttr accessOf(unsigned i);
  Source sourceOf(unsigned i, Body &body, const Row &row, int64_t member);
  Values load(unsigned i, Body &body, const Row &row);
  Value loadElement(const Source &source, Value column);
  void store(unsigned result, const Row &row, const Values &values, Type type);
  Value expand(AffineMap map, ValueRange operands);

  dispatch::RowsOp op;
  Frame frame;
  cpu::Emitter &e;
};

} // namespace

AccessAttr RowPass::accessOf(unsigned i) {
  unsigned inputs = op.getInputs().size();
  return cast<AccessAttr>(i < inputs ? op.getAccesses()[i] : op.getResultAccesses()[i - inputs]);
}

LogicalResult RowPass::check() {
  for (Attribute access : op.getResultAccesses()) {
    if (cast<AccessAttr>(access).getKind() == AccessKind::Columns) {
      return op.emitOpError("expected results that each row makes alone, found sums over rows: ")
             << access << "; the CUDA target has no kernel for them yet";
    }
  }
  SmallVector<Type> types(op.getBody().getArgumentTypes());
  llvm::append_range(types, op.getBody().front().getTerminator()->getOperandTypes());
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (tensor && tensor.getRank() > 0 &&
        (tensor.getShape().back() > widestRow || tensor.getNumElements() > mostColumns)) {
      return op.emitOpError("expected rows of at most ")
             << widestRow << " columns and groups of " << mostColumns << " in all, found " << type;
    }
  }
  return success();
}

Value RowPass::expand(AffineMap map, ValueRange operands) {
  return (*affine::expandAffineMap(frame.b, op.getLoc(), map, operands))[0];
}

/// A row outside its source is found at an edge of it, and `inside` says that it is to be zeros.
RowPass::Source RowPass::sourceOf(unsigned i, Body &body, const Row &row, int64_t member) {
  AccessAttr access = accessOf(i);
  auto type = cast<RankedTensorType>(op.getInputs()[i].getType());
  Source source{frame.buffer(i), nullptr, nullptr,
                expand(access.getColumn().getValue(), row.position)};
  switch (access.getKind()) {
  case AccessKind::Row:
  case AccessKind::Table: {
    bool batched = access.getKind() == AccessKind::Row;
    int64_t extent = type.getDimSize(batched ? 1 : 0);
    Value valid = frame.validLength(access.getSourceFactor(), extent);
    Value position = expand(access.getMap().getValue(), {row.position, e.index(member), valid});
    source.inside = e.both(e.atLeast(position, e.index(0)), e.less(position, valid));
    position = e.min(e.max(position, e.index(0)), e.index(extent - 1));
    source.row = batched ? e.add(e.mul(row.batch, extent), position) : position;
    break;
  }
  case AccessKind::Flat:
    source.row = row.global;
    break;
  case AccessKind::Gather: {
    Value index = body.get(op.getBody().getArgument(access.getIndex()))[0];
    source.row = arith::IndexCastOp::create(frame.b, frame.b.getIndexType(), index);
    break;
  }
  default: // Vector and Scalar: the whole memory.
    break;
  }
  // One number a position: dense, [B, T'].
  if (source.row && access.getKind() == AccessKind::Row && type.getRank() == 2) {
    source.firstColumn = arith::RemUIOp::create(frame.b, source.row, e.index(type.getDimSize(1)));
    source.row = arith::DivUIOp::create(frame.b, source.row, e.index(type.getDimSize(1)));
  } else if (source.row && cast<MemRefType>(source.memory.getType()).getRank() == 1) {
    source.firstColumn = source.row;
    source.row = nullptr;
  }
  return source;
}

Value RowPass::loadElement(const Source &source, Value column) {
  column = column ? e.add(source.firstColumn, column) : source.firstColumn;
  SmallVector<Value> indices;
  if (source.row) {
    indices.push_back(source.row);
  }
  indices.push_back(column);
  Value value = e.loadScalar(source.memory, indices);
  if (!source.inside) {
    return value;
  }
  Value zero = arith::ConstantOp::create(frame.b, frame.b.getZeroAttr(value.getType()));
  return e.select(source.inside, value, zero);
}

/// Columns past the end read the last one; nothing stores them, and sums leave them out.
Values RowPass::load(unsigned i, Body &body, const Row &row) {
  auto type = dyn_cast<RankedTensorType>(op.getBody().getArgument(i).getType());
  if (!type) {
    return {loadElement(sourceOf(i, body, row, 0), nullptr)};
  }
  Values values;
  int64_t d = type.getShape().back();
  for (int64_t member = 0; member < type.getNumElements() / d; ++member) {
    Source source = sourceOf(i, body, row, member);
    for (int64_t j = 0; j < partsOf(d); ++j) {
      Value column = body.columnOf(j);
      bool ragged = (j + 1) * threadsPerWarp > d;
      values.push_back(loadElement(source, ragged ? e.min(column, e.index(d - 1)) : column));
    }
  }
  return values;
}

void RowPass::store(unsigned result, const Row &row, const Values &values, Type type) {
  unsigned i = op.getInputs().size() + result;
  AccessKind kind = accessOf(i).getKind();
  Value memory = frame.buffer(i);
  SmallVector<Value> indices;
  if (kind == AccessKind::Row &&
      cast<RankedTensorType>(op.getOutputs()[result].getType()).getRank() == 2) {
    indices = {row.batch, row.position};
  } else if (kind == AccessKind::Row || kind == AccessKind::Flat) {
    indices = {row.global};
  } else if (kind == AccessKind::Scalar) {
    indices = {e.index(0)};
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor) {
    Value first = arith::CmpIOp::create(frame.b, arith::CmpIPredicate::eq, frame.lane, e.index(0));
    e.when(first, [&] { e.store(values[0], memory, indices); });
    return;
  }
  int64_t d = tensor.getShape().back(), parts = partsOf(d);
  for (auto [j, value] : llvm::enumerate(values)) {
    int64_t part = int64_t(j) % parts, member = int64_t(j) / parts;
    Value column = e.add(frame.lane, part * threadsPerWarp);
    SmallVector<Value> at(indices);
    at.push_back(e.add(column, member * d));
    if ((part + 1) * threadsPerWarp > d) {
      e.when(e.less(column, e.index(d)), [&, &value = value] { e.store(value, memory, at); });
    } else {
      e.store(value, memory, at);
    }
  }
}

FailureOr<Kernel> RowPass::generate() {
  if (failed(check())) {
    return failure();
  }
  Row row = frame.row(e.add(e.mul(frame.block, warps), frame.warp));
  Block &block = op.getBody().front();
  Body body(frame, block, row);
  auto yielded = block.getTerminator()->getOperands();
  bool fails = false;
  // The condition is the same for the lanes of a warp, so that they meet at its shuffles.
  e.when(row.valid, [&] {
    for (bool gathers : {false, true}) {
      for (unsigned i = 0; i < op.getInputs().size(); ++i) {
        if ((accessOf(i).getKind() == AccessKind::Gather) == gathers) {
          body.map(block.getArgument(i), load(i, body, row));
        }
      }
    }
    fails = failed(body.emit());
    if (fails) {
      return;
    }
    // A result may share an operand's row: every lane has read before any writes.
    NVVM::SyncWarpOp::create(frame.b, e.integer(-1));
    for (auto [i, value] : llvm::enumerate(yielded)) {
      store(i, row, body.get(value), value.getType());
    }
  });
  if (op.getZeroInvalid() && !fails) {
    Value isTrue = arith::ConstantIntOp::create(frame.b, frame.b.getI1Type(), 1);
    e.when(e.both(row.exists, arith::XOrIOp::create(frame.b, row.valid, isTrue)), [&] {
      for (auto [i, value] : llvm::enumerate(yielded)) {
        TypedAttr zero = frame.b.getZeroAttr(getElementTypeOrSelf(value.getType()));
        store(i, row,
              Values(Body::elements(value.getType()), arith::ConstantOp::create(frame.b, zero)),
              value.getType());
      }
    });
  }
  if (fails) {
    return failure();
  }
  int64_t blocks = llvm::divideCeil(op.getDomain().getLaunchRows(), warps);
  return frame.kernel(blocks, "row", 0);
}

FailureOr<Kernel> cuda::generateRows(dispatch::RowsOp op, ModuleOp module, StringRef name) {
  RowPass pass(op, module, name);
  return pass.kernelFrame().finish(pass.generate());
}
