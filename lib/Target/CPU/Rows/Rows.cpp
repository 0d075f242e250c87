// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Row kernels: items are ranges of rows, fixed by shapes; each row is one run of the body.
#include "Rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::rows;
using dispatch::AccessAttr;
using dispatch::AccessKind;

/// Returns the width of the widest row of the body, which measures an item's size.
static int64_t widestRow(dispatch::RowsOp op) {
  int64_t widest = 1;
  auto widen = [&](Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
      widest = std::max(widest, type.getNumElements());
    }
  };
  llvm::for_each(op.getBody().getArguments(), widen);
  llvm::for_each(op.getBody().front().getTerminator()->getOperands(), widen);
  return widest;
}

/// Returns the rows per item: about 64 items, so that threads balance, but large enough that the
/// work outweighs the launch.
static int64_t rowsPerItem(int64_t launchRows, int64_t parts, int64_t width) {
  if (parts > 0) {
    return llvm::divideCeil(launchRows, parts);
  }
  constexpr int64_t items = 64, leastElements = 4096;
  int64_t count = std::max<int64_t>(llvm::divideCeil(launchRows, items),
                                    llvm::divideCeil(leastElements, width));
  return std::min(count, launchRows);
}

static LogicalResult checkOperand(dispatch::RowsOp op, unsigned i) {
  auto access = cast<AccessAttr>(op.getAccesses()[i]);
  auto type = cast<RankedTensorType>(op.getInputs()[i].getType());
  Value argument = op.getBody().getArgument(i);
  int64_t operands = op.getInputs().size();
  if (access.getKind() == AccessKind::Gather &&
      (access.getIndex() < 0 || access.getIndex() >= operands ||
       isRow(op.getBody().getArgument(access.getIndex())))) {
    return op.emitOpError("R-005: expected operand ")
           << i << " to be gathered by an i32 body argument, found index " << access.getIndex();
  }
  int64_t group = std::max<int64_t>(getGroupSize(argument), 1);
  if (group != access.getGroup()) {
    return op.emitOpError("R-006: expected body argument ")
           << i << " to hold " << access.getGroup() << " rows, found " << group;
  }
  int64_t width = type.getRank() == 0 ? 1 : type.getShape().back();
  if (access.getKind() == AccessKind::Vector) {
    width = type.getNumElements();
  }
  if (getElementTypeOrSelf(argument.getType()) != dispatch::getBodyType(type.getElementType()) ||
      (isRow(argument) && getRowWidth(argument) > width && !readsOutsideColumns(op, i))) {
    return op.emitOpError("R-008: expected body argument ")
           << i << " to be at most " << width << " columns of " << type.getElementType()
           << ", found " << argument.getType();
  }
  return success();
}

static LogicalResult check(dispatch::RowsOp op) {
  for (unsigned i = 0; i < op.getInputs().size(); ++i) {
    if (failed(checkOperand(op, i))) {
      return failure();
    }
  }
  auto yield = cast<dispatch::YieldOp>(op.getBody().front().getTerminator());
  for (auto [i, value] : llvm::enumerate(yield.getValues())) {
    auto type = cast<RankedTensorType>(op.getOutputs()[i].getType());
    auto row = dyn_cast<RankedTensorType>(value.getType());
    int64_t width = row ? row.getNumElements() : 0;
    int64_t expected = row && type.getRank() > 0 ? type.getShape().back() : 0;
    if (width != expected ||
        getElementTypeOrSelf(value.getType()) != dispatch::getBodyType(type.getElementType())) {
      return op.emitOpError("R-009: expected a row or element of ")
             << type << " yielded, found " << value.getType();
    }
  }
  return success();
}

static void emitRowLoop(Frame &frame, dispatch::RowsOp op, VectorRowEmitter &emitter,
                        int64_t perItem) {
  ImplicitLocOpBuilder &b = frame.builder();
  dispatch::DomainAttr domain = op.getDomain();
  int64_t positions = domain.getPositions();
  Value first = arith::MulIOp::create(b, frame.item(), frame.index(perItem));
  Value last = arith::AddIOp::create(b, first, frame.index(perItem));
  last = arith::MinSIOp::create(b, last, frame.index(domain.getLaunchRows()));
  Lengths lengths;
  Value batch;
  if (!domain.getScheduled()) {
    lengths = frame.lengths(domain.getFactor(), positions);
    batch = domain.getFactor() ? frame.rows() : Value();
  }

  auto loop = scf::ForOp::create(b, first, last, frame.index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value row = loop.getInductionVar();
  RowPosition at{row, arith::DivUIOp::create(b, row, frame.index(positions)),
                 arith::RemUIOp::create(b, row, frame.index(positions))};
  if (domain.getScheduled()) {
    Frame::RowSchedule run = frame.run(at.batch);
    Value due = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, at.position, run.count);
    auto branch = scf::IfOp::create(b, due, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
    emitRow(emitter, {row, at.batch, arith::AddIOp::create(b, run.start, at.position), run.length});
    return;
  }
  if (domain.getAxis()) {
    at.length = frame.length(at.batch);
  }
  if (domain.getFactor() == 0) {
    emitRow(emitter, at);
    return;
  }
  Value inBatch = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, at.batch, batch);
  Value inLength =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, at.position, lengths.of(at.batch));
  auto branch =
      scf::IfOp::create(b, arith::AndIOp::create(b, inBatch, inLength), op.getZeroInvalid());
  b.setInsertionPointToStart(branch.thenBlock());
  emitRow(emitter, at);
  if (op.getZeroInvalid()) {
    b.setInsertionPointToStart(branch.elseBlock());
    emitZeros(emitter, at);
  }
}

FailureOr<Kernel> cpu::generateRows(dispatch::RowsOp op, ModuleOp module, StringRef name,
                                    const Target &target) {
  FailureOr<Schedule> schedule = Schedule::of(op);
  FailureOr<int64_t> parts = computeSumParts(op);
  if (failed(schedule) || failed(parts) || failed(check(op))) {
    return failure();
  }
  int64_t launchRows = op.getDomain().getLaunchRows();
  int64_t perItem = rowsPerItem(launchRows, *parts, widestRow(op));

  Frame frame(op, module, name, target);
  VectorRowEmitter emitter(frame, op, *schedule);
  clearSums(emitter);
  emitRowLoop(frame, op, emitter, perItem);
  storeSums(emitter);
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = *parts > 0 ? *parts : llvm::divideCeil(launchRows, perItem);
  kernel.scratchBytes = frame.scratchBytes();
  Work work = computeWork(op);
  kernel.flops = work.flops;
  kernel.bytes = work.bytes;
  kernel.kind = work.kind;
  return kernel;
}
