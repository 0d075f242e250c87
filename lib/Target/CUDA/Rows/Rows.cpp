// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row kernels: assigns rows to blocks. The body is emitted once, for one row.
#include "Rows.h"

#include "../Frame/Arrival.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;

Value rows::pointerTo(Frame &frame, Value memory) {
  ImplicitLocOpBuilder &b = frame.b;
  Value address = memref::ExtractAlignedPointerAsIndexOp::create(b, memory);
  address = arith::IndexCastOp::create(b, b.getI64Type(), address);
  constexpr unsigned sharedSpace = 3;
  return LLVM::IntToPtrOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), sharedSpace),
                                  address);
}

namespace {

class RowKernel {
public:
  RowKernel(Frame &frame, dispatch::RowsOp op, const Plan &plan, const Schedule &schedule)
      : frame(frame), e(frame.e), op(op), plan(plan), schedule(schedule),
        emitter(frame, op, plan, schedule) {}

  void emit() {
    emitShared(emitter);
    plan.parts > 0 ? emitSummedRows() : emitRows();
  }

private:
  /// A team that is at least a warp skips invalid rows, as the branch is then uniform in each warp.
  /// Smaller teams compute invalid rows on zeros.
  bool skips() const { return plan.team >= threadsPerWarp; }

  Row computeRow(Value number, Value exists) {
    Row row = frame.row(number);
    if (exists) {
      row.exists = exists;
      row.valid = e.both(exists, row.valid);
    }
    return row;
  }

  /// Row to read; addresses for an invalid row are within its operands.
  Row readFor(Row row) {
    if (computesInvalid(op, plan)) {
      for (Value *index : {&row.row, &row.batch, &row.position}) {
        *index = e.select(row.valid, *index, e.index(0));
      }
      if (op.getDomain().getAxis()) {
        row.length = frame.computeLength(row.batch);
      }
    }
    return row;
  }

  void emitRows() {
    int64_t items = op.getDomain().getLaunchRows() * plan.slices;
    int64_t teams = plan.teams(), perTurn = plan.blocks * teams;
    Value first = e.mul(frame.block, teams);
    if (items <= perTurn) {
      emitItem(first);
    } else {
      e.loop(first, e.index(items), perTurn, [&](Value base) { emitItem(base); });
    }
  }

  void emitItem(Value base) {
    Value item = e.add(base, emitter.teamOfBlock), slice;
    if (plan.slices > 1) {
      slice = arith::RemUIOp::create(frame.b, item, e.index(plan.slices));
      item = arith::DivUIOp::create(frame.b, item, e.index(plan.slices));
    }
    Row row = computeRow(item, nullptr);
    Value stores = getStoreCondition(row);
    if (!skips()) {
      emitRow(emitter, readFor(row), row, stores, slice, {});
      return;
    }
    e.when(stores, [&] { emitRow(emitter, readFor(row), row, nullptr, slice, {}); });
  }

  Value getStoreCondition(const Row &row) { return op.getZeroInvalid() ? row.exists : row.valid; }

  void emitSummedRows() {
    int64_t rows = op.getDomain().getLaunchRows(), teams = plan.teams();
    int64_t ofPart = llvm::divideCeil(rows, plan.parts);
    Value part = arith::DivUIOp::create(frame.b, frame.block, e.index(plan.partBlocks));
    Value block = arith::RemUIOp::create(frame.b, frame.block, e.index(plan.partBlocks));
    Value end = e.min(e.mul(e.add(part, 1), ofPart), e.index(rows));
    Value first = e.add(e.mul(part, ofPart), e.mul(block, plan.partRows));
    end = e.min(e.add(first, plan.partRows), end);
    clearSums(emitter);
    Values sums = e.loop(first, end, teams, makeZeroSums(emitter), [&](Value base, ValueRange so) {
      Value number = e.add(base, emitter.teamOfBlock);
      Row row = computeRow(number, e.less(number, end));
      Value stores = getStoreCondition(row);
      return skips() ? emitWhere(stores, row, so)
                     : emitRow(emitter, readFor(row), row, stores, nullptr, so);
    });
    storeSums(emitter, sums);
    if (plan.staged()) {
      sumParts(part);
    }
  }

  /// The last block of a part sums the results of all its blocks in the workspace.
  void sumParts(Value part) {
    Plan whole;
    whole.vector = 4;
    whole.team = whole.chunks = 1;
    whole.threads = plan.threads;
    Value slot = pointerTo(frame, sharedMemory(frame, "arrived", 1, frame.b.getI32Type()));
    Value last = isLastToArrive(frame, part, plan.partBlocks, slot);
    e.when(last, [&] {
      TeamRowEmitter ofParts(frame, op, whole, schedule);
      emitSumOfParts(ofParts, plan, part);
    });
  }

  /// Returns the sums including a row that meets the condition, else unchanged.
  Values emitWhere(Value condition, const Row &row, ValueRange sums) {
    ImplicitLocOpBuilder &b = frame.b;
    if (sums.empty()) {
      e.when(condition, [&] { emitRow(emitter, readFor(row), row, nullptr, nullptr, {}); });
      return {};
    }
    auto branch = scf::IfOp::create(b, sums.getTypes(), condition, true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b, emitRow(emitter, readFor(row), row, nullptr, nullptr, sums));
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, sums);
    return Values(branch.getResults());
  }

  Frame &frame;
  Emitter &e;
  dispatch::RowsOp op;
  const Plan &plan;
  const Schedule &schedule;
  TeamRowEmitter emitter;
};

} // namespace

FailureOr<Kernel> cuda::generateRows(dispatch::RowsOp op, ModuleOp module, StringRef name) {
  FailureOr<Schedule> schedule = Schedule::of(op);
  FailureOr<Plan> plan = makePlan(op);
  if (failed(schedule) || failed(plan)) {
    return failure();
  }
  Frame frame(op, op.getDomain(), module, name, plan->threads);
  RowKernel(frame, op, *plan, *schedule).emit();
  func::ReturnOp::create(frame.b);
  Work work = computeWork(op);
  Kernel kernel;
  kernel.stages.push_back({frame.function, plan->blocks, plan->threads, 0});
  kernel.workspaceBytes = sumOffsets(op, *plan).back();
  kernel.kind = work.kind;
  kernel.flops = work.flops;
  kernel.bytes = plan->bytes;
  kernel.counters = plan->staged() ? plan->parts : 0;
  return kernel;
}
