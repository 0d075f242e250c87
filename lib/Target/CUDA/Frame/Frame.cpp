// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Function of a kernel, its buffers and the rows of its domain.
#include "Frame.h"

#include "../../Common/RowBody.h"
#include "../../Common/Storage.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

Frame::Frame(Operation *dispatch, dispatch::DomainAttr domain, ModuleOp module, StringRef name,
             int64_t threads)
    : b(dispatch->getLoc(), dispatch->getContext()), e(b, 1), threads(threads), dispatch(dispatch),
      domain(domain) {
  b.setInsertionPointToEnd(module.getBody());
  FunctionType type =
      b.getFunctionType({getPointerType(b.getI8Type()), getPointerType(b.getI64Type())}, {});
  function = func::FuncOp::create(b, name, type);
  // Without the block size ptxas must assume 1024 threads with 64 registers each. A minimum of one
  // block per multiprocessor keeps it from spilling registers to fit one more.
  auto attribute = [&](StringRef key, StringRef value) { return b.getStrArrayAttr({key, value}); };
  function->setAttr("passthrough",
                    b.getArrayAttr({attribute("nvvm.reqntid", std::to_string(threads)),
                                    attribute("nvvm.minctasm", "1")}));
  b.setInsertionPointToStart(function.addEntryBlock());
  arena = function.getArgument(0);
  arguments = function.getArgument(1);
  auto toIndex = [&](Value value) -> Value {
    return arith::IndexCastOp::create(b, b.getIndexType(), value);
  };
  block = toIndex(NVVM::BlockIdXOp::create(b, b.getI32Type()));
  Value thread = toIndex(NVVM::ThreadIdXOp::create(b, b.getI32Type()));
  warp = arith::DivUIOp::create(b, thread, e.index(threadsPerWarp));
  lane = arith::RemUIOp::create(b, thread, e.index(threadsPerWarp));
  constexpr auto lengthAt = static_cast<int64_t>(target::AbiScalar::Length);
  if (domain.getAxis()) {
    lengths = scalars(lengthAt, domain.getBatch());
  } else {
    length = toIndex(scalar(lengthAt));
  }
  rows = toIndex(scalar(static_cast<int64_t>(target::AbiScalar::Rows)));
  step = scalar(static_cast<int64_t>(target::AbiScalar::Step));
  seed = scalar(static_cast<int64_t>(target::AbiScalar::Seed));
  firstStream = argument(argumentCount(dispatch) - 2);
  if (dispatch::drawsByUpdate(dispatch)) {
    drawRows = scalars(static_cast<int64_t>(target::AbiScalar::DrawRows), domain.getBatch());
  }
}

Value Frame::workspace() {
  Value offset = argument(argumentCount(dispatch) - 1);
  return arith::IndexCastOp::create(b, b.getIndexType(), offset);
}

Value Frame::workspaceView(MemRefType type, int64_t byte) {
  return memref::ViewOp::create(b, type, arena, e.add(workspace(), byte), ValueRange{});
}

Value Frame::counter(Value number) {
  Value end = memref::ExtractAlignedPointerAsIndexOp::create(b, arena);
  Value down = e.mul(e.add(number, 1), Kernel::counterBytes);
  Value address = e.sub(e.add(end, workspace()), down);
  address = arith::IndexCastOp::create(b, b.getI64Type(), address);
  constexpr unsigned globalSpace = 1;
  return LLVM::IntToPtrOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), globalSpace),
                                  address);
}

Kernel Frame::kernel(int64_t blocks, StringRef kind, double flops, int64_t sharedBytes) {
  double bytes = 0;
  for (Type type : llvm::concat<const Type>(llvm::to_vector(dispatch->getOperandTypes()),
                                            llvm::to_vector(dispatch->getResultTypes()))) {
    auto tensor = cast<RankedTensorType>(type);
    bytes += double(tensor.getNumElements()) * tensor.getElementTypeBitWidth() / 8;
  }
  return {{{function, blocks, threads, sharedBytes}}, 0, 0, kind, flops, bytes, 0};
}

Value Frame::argument(int64_t position) { return e.loadScalar(arguments, e.index(position)); }

Value Frame::scalars(int64_t which, int64_t count) {
  Value offset = argument(dispatch->getNumOperands() + dispatch->getNumResults() + which);
  offset = arith::IndexCastOp::create(b, b.getIndexType(), offset);
  auto type = MemRefType::get({count}, b.getI64Type());
  return memref::ViewOp::create(b, type, arena, offset, ValueRange{});
}

Value Frame::scalar(int64_t which) { return e.loadScalar(scalars(which, 1), e.index(0)); }

Value Frame::computeLength(Value batch) {
  if (length) {
    return length;
  }
  if (!batch.getType().isIndex()) {
    batch = arith::IndexCastOp::create(b, b.getIndexType(), batch);
  }
  Value own = e.loadScalar(lengths, e.min(batch, e.index(domain.getBatch() - 1)));
  return arith::IndexCastOp::create(b, b.getIndexType(), own);
}

Value Frame::buffer(unsigned i) {
  Value offset = arith::IndexCastOp::create(b, b.getIndexType(), argument(i));
  return memref::ViewOp::create(b, getBufferType(dispatch, i), arena, offset, ValueRange{});
}

Value Frame::validLength(int64_t factor, int64_t positions, Value batch) {
  return factor == 0 ? e.index(positions)
                     : Value(arith::CeilDivUIOp::create(b, computeLength(batch), e.index(factor)));
}

Row Frame::row(Value number) {
  Row row;
  int64_t total = domain.getLaunchRows();
  row.exists = e.less(number, e.index(total));
  row.row = e.min(number, e.index(total - 1));
  row.batch = arith::DivUIOp::create(b, row.row, e.index(domain.getPositions()));
  row.position = arith::RemUIOp::create(b, row.row, e.index(domain.getPositions()));
  row.valid = row.exists;
  row.length = computeLength(row.batch);
  if (domain.getScheduled()) {
    RowSchedule due = run(row.batch);
    row.valid = e.both(row.valid, e.less(row.position, due.count));
    row.position = e.add(due.start, row.position);
    row.length = due.length;
  } else if (domain.getFactor() > 0) {
    Value inside = e.less(row.position, validLength(domain.getFactor(), 0, row.batch));
    row.valid = e.both(row.valid, e.both(e.less(row.batch, rows), inside));
  }
  return row;
}

RowSchedule Frame::run(Value batch) {
  Value schedule = buffer(dispatch->getNumOperands() - 1);
  auto number = [&](int64_t column) -> Value {
    Value loaded = e.loadScalar(schedule, {batch, e.index(column)});
    return arith::IndexCastOp::create(b, b.getIndexType(), loaded);
  };
  return {number(0), number(1), number(2)};
}

Value Frame::memoryRow(int64_t extent, const Row &row) {
  return domain.getScheduled() ? ringRow(b, extent, row.batch, row.position) : row.row;
}

Value Frame::isValid(Value number) {
  Value sequence = arith::DivUIOp::create(b, number, e.index(domain.getPositions()));
  Value position = arith::RemUIOp::create(b, number, e.index(domain.getPositions()));
  return e.both(e.less(sequence, rows),
                e.less(position, validLength(domain.getFactor(), 0, sequence)));
}

Value Frame::validEnd(Value number) {
  Value positions = e.integer(domain.getPositions());
  Value sequence = arith::DivUIOp::create(b, e.toInteger(number), positions);
  Value end = e.add(arith::MulIOp::create(b, sequence, positions),
                    e.toInteger(validLength(domain.getFactor(), 0, sequence)));
  return e.select(e.less(sequence, e.toInteger(rows)), end, e.integer(0));
}

FailureOr<Kernel> Frame::finish(FailureOr<Kernel> made) {
  if (failed(made)) {
    function.erase();
  } else {
    func::ReturnOp::create(b);
  }
  return made;
}
