// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frame of a kernel: its function, and typed views of its memory.
#include "sluice/Target/CPU/Frame.h"

#include "../Common/Storage.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

Frame::Frame(Operation *dispatch, ModuleOp module, StringRef name, const Target &target)
    : dispatch_(dispatch), target_(target), b(dispatch->getLoc(), dispatch->getContext()) {
  b.setInsertionPointToEnd(module.getBody());
  MemRefType bytes = getPointerType(b.getI8Type());
  FunctionType type =
      b.getFunctionType({bytes, getPointerType(b.getI64Type()), b.getI64Type(), bytes}, {});
  func = func::FuncOp::create(b, name, type);
  b.setInsertionPointToStart(func.addEntryBlock());
  arena = func.getArgument(0);
  arguments = func.getArgument(1);
  itemIndex = arith::IndexCastOp::create(b, b.getIndexType(), func.getArgument(2));
  scratchArena = func.getArgument(3);
}

Value Frame::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

Value Frame::argument(int64_t position) {
  return memref::LoadOp::create(b, arguments, index(position));
}

Value Frame::buffer(unsigned i) {
  Value offset = arith::IndexCastOp::create(b, b.getIndexType(), argument(i));
  MemRefType type = getBufferType(dispatch_, i);
  MemRefType memory = MemRefType::get(type.getShape(), getMemoryType(type.getElementType()));
  return memref::ViewOp::create(b, memory, arena, offset, ValueRange{});
}

Value Frame::viewScalar(AbiScalar scalar, bool isByRow) {
  int64_t position =
      dispatch_->getNumOperands() + dispatch_->getNumResults() + static_cast<int64_t>(scalar);
  Value offset = arith::IndexCastOp::create(b, b.getIndexType(), argument(position));
  dispatch::DomainAttr domain = cast<dispatch::KernelInterface>(dispatch_).getDomain();
  auto memory = MemRefType::get({isByRow ? domain.getBatch() : 1}, b.getI64Type());
  return memref::ViewOp::create(b, memory, arena, offset, ValueRange{});
}

Value Frame::length(Value batch) {
  bool isOwn = batch && dispatch::findSequenceAxis(dispatch_);
  Value view = viewScalar(AbiScalar::Length, isOwn);
  Value loaded = memref::LoadOp::create(b, view, isOwn ? batch : index(0));
  return arith::IndexCastOp::create(b, b.getIndexType(), loaded);
}

Value Frame::rows() {
  Value view = viewScalar(AbiScalar::Rows);
  Value loaded = memref::LoadOp::create(b, view, index(0));
  return arith::IndexCastOp::create(b, b.getIndexType(), loaded);
}

Value Frame::step() {
  Value view = viewScalar(AbiScalar::Step);
  return memref::LoadOp::create(b, view, index(0));
}

Value Frame::seed() {
  Value view = viewScalar(AbiScalar::Seed);
  return memref::LoadOp::create(b, view, index(0));
}

Value Frame::firstStream() { return argument(argumentCount(dispatch_) - 1); }

Value Frame::drawRows() {
  return dispatch::drawsByUpdate(dispatch_) ? viewScalar(AbiScalar::DrawRows, /*isByRow=*/true)
                                            : Value();
}

Frame::RowSchedule Frame::run(Value batch) {
  Value schedule = buffer(dispatch_->getNumOperands() - 1);
  auto number = [&](int64_t column) -> Value {
    Value loaded = memref::LoadOp::create(b, schedule, ValueRange{batch, index(column)});
    return arith::IndexCastOp::create(b, b.getIndexType(), loaded);
  };
  return {number(0), number(1), number(2)};
}

Lengths Frame::lengths(int64_t factor, int64_t positions) {
  Lengths made;
  made.frame = this;
  made.factor = factor;
  if (factor == 0) {
    made.all = index(positions);
  } else if (!dispatch::findSequenceAxis(dispatch_)) {
    made.all = arith::CeilDivUIOp::create(b, length({}), index(factor));
  }
  return made;
}

Value Lengths::of(Value batch) const {
  if (all) {
    return all;
  }
  Value length = frame->length(batch);
  return arith::CeilDivUIOp::create(frame->builder(), length, frame->index(factor));
}

Value Lengths::ofAll() const {
  assert(all && "each row of the batch has its own");
  return all;
}

Value Frame::scratch(MemRefType type) {
  int64_t bytes = type.getNumElements() * (type.getElementTypeBitWidth() / 8);
  Value view = memref::ViewOp::create(b, type, scratchArena, index(scratchUsed), ValueRange{});
  scratchUsed += (bytes + 63) / 64 * 64;
  return view;
}

Value Frame::workspace(MemRefType type, int64_t byte) {
  Value start = arith::AddIOp::create(
      b, arith::IndexCastOp::create(b, b.getIndexType(), argument(argumentCount(dispatch_))),
      index(byte));
  return memref::ViewOp::create(b, type, arena, start, ValueRange{});
}

void Frame::finish() { func::ReturnOp::create(b); }

Value cpu::getCounters(Frame &frame, int64_t count) {
  auto type = MemRefType::get({count}, frame.builder().getI32Type());
  return frame.workspace(type, -count * Kernel::counterBytes);
}
