// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The row kernel: which block takes which rows. The body is emitted once, for one row.
#include "Rows.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;

namespace {

class RowKernel {
public:
  RowKernel(Frame &frame, dispatch::RowsOp op, const Plan &plan, const Schedule &schedule)
      : frame(frame), e(frame.e), op(op), plan(plan), emitter(frame, op, plan, schedule) {}

  void emit() {
    emitter.emitShared();
    plan.parts > 0 ? emitSummedRows() : emitRows();
  }

private:
  /// All threads of a warp stay together where a warp holds one row at most: what is skipped is
  /// skipped by all of them. Elsewhere a row that is not valid computes on the first row's memory.
  bool skips() const { return plan.team >= threadsPerWarp && plan.parts == 0; }

  Row rowOf(Value number, Value exists) {
    Row row = frame.row(number);
    if (exists) {
      row.exists = exists;
      row.valid = e.both(exists, row.valid);
    }
    return row;
  }

  /// What is read for a row.
  Row readFor(Row row) {
    if (!skips() || op.getZeroInvalid()) {
      for (Value *index : {&row.global, &row.batch, &row.position}) {
        *index = e.select(row.valid, *index, e.index(0));
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
    Row row = rowOf(item, nullptr);
    Value stores = storesOf(row);
    if (!skips()) {
      emitter.emitRow(readFor(row), row, stores, slice, {});
      return;
    }
    e.when(stores, [&] { emitter.emitRow(readFor(row), row, nullptr, slice, {}); });
  }

  Value storesOf(const Row &row) { return op.getZeroInvalid() ? row.exists : row.valid; }

  void emitSummedRows() {
    int64_t rows = op.getDomain().getLaunchRows(), teams = plan.teams();
    int64_t ofPart = llvm::divideCeil(rows, plan.parts);
    Value part = arith::DivUIOp::create(frame.b, frame.block, e.index(plan.partBlocks));
    Value block = arith::RemUIOp::create(frame.b, frame.block, e.index(plan.partBlocks));
    Value end = e.min(e.mul(e.add(part, 1), ofPart), e.index(rows));
    Value first = e.add(e.mul(part, ofPart), e.mul(block, plan.partRows));
    end = e.min(e.add(first, plan.partRows), end);
    emitter.clearSums();
    Values sums = e.loop(first, end, teams, emitter.zeroSums(), [&](Value base, ValueRange so) {
      Value number = e.add(base, emitter.teamOfBlock);
      Row row = rowOf(number, e.less(number, end));
      return emitter.emitRow(readFor(row), row, storesOf(row), nullptr, so);
    });
    emitter.storeSums(sums);
  }

  Frame &frame;
  cpu::Emitter &e;
  dispatch::RowsOp op;
  const Plan &plan;
  BodyEmitter emitter;
};

} // namespace

/// The launch that sums what the blocks of each part left in the workspace.
static Stage generateSumOfParts(dispatch::RowsOp op, const Plan &summed, const Schedule &schedule,
                                ModuleOp module, StringRef name) {
  Plan plan;
  plan.vector = 4;
  plan.team = plan.chunks = 1;
  plan.threads = threadsPerBlock;
  int64_t vectors = 1;
  for (auto [i, output] : llvm::enumerate(op.getOutputs())) {
    int64_t width = cast<RankedTensorType>(output.getType()).getShape().back();
    vectors = std::max<int64_t>(vectors, llvm::divideCeil(width, plan.vector));
  }
  plan.blocks = llvm::divideCeil(summed.parts * vectors, plan.threads);
  Frame frame(op, op.getDomain(), module, (name + "_sum").str(), plan.threads);
  BodyEmitter(frame, op, plan, schedule).emitSumOfParts(summed);
  func::ReturnOp::create(frame.b);
  return {frame.function, plan.blocks, plan.threads, 0};
}

FailureOr<Kernel> cuda::generateRows(dispatch::RowsOp op, ModuleOp module, StringRef name) {
  FailureOr<Schedule> schedule = Schedule::of(op);
  FailureOr<Plan> plan = makePlan(op);
  if (failed(schedule) || failed(plan)) {
    return failure();
  }
  Frame frame(op, op.getDomain(), module, name, plan->threads);
  RowKernel(frame, op, *plan, *schedule).emit();
  func::ReturnOp::create(frame.b);
  cpu::Kernel estimate;
  cpu::rows::estimate(op, estimate);
  Kernel kernel;
  kernel.stages.push_back({frame.function, plan->blocks, plan->threads, 0});
  kernel.workspaceBytes = sumOffsets(op, *plan).back();
  kernel.kind = estimate.kind;
  kernel.flops = estimate.flops;
  kernel.bytes = plan->bytes;
  if (plan->staged()) {
    kernel.stages.push_back(generateSumOfParts(op, *plan, *schedule, module, name));
  }
  return kernel;
}
