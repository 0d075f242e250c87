// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over rows (access `columns`). The sums of a team are in its registers; teams of a block
// combine through shared memory, and blocks of a part through the workspace, in the last block.
// Shapes fix every order.
#include "Rows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::rows;
using dispatch::AccessKind;

static constexpr int64_t sumsTogether = 8; ///< rows of partial sums read at a time

static void forSums(TeamRowEmitter &emitter,
                    llvm::function_ref<void(unsigned result, int64_t width)> body) {
  dispatch::RowsOp op = emitter.op;
  for (auto [i, value] : llvm::enumerate(getYield(op).getValues())) {
    if (getResultKind(op, i) == AccessKind::Columns) {
      body(i, getRowWidth(value));
    }
  }
}

/// Returns the destination of the sums of a block.
static Source getSumRow(TeamRowEmitter &emitter, unsigned result) {
  Frame &frame = emitter.frame;
  dispatch::RowsOp op = emitter.op;
  const Plan &plan = emitter.plan;
  int64_t width = getRowWidth(getYield(op).getValues()[result]);
  return plan.staged()
             ? emitter.addresses.workspaceRow(emitter.e.index(sumOffsets(op, plan)[result]),
                                              frame.block, width)
             : emitter.addresses.resultRow(result, emitter.at, width, nullptr, frame.block);
}

Values rows::makeZeroSums(TeamRowEmitter &emitter) {
  const Plan &plan = emitter.plan;
  Values zeros;
  forSums(emitter, [&](unsigned, int64_t width) {
    zeros.append(plan.whole ? plan.countChunks(width) : 0,
                 makeZero(emitter, emitter.getVectorType(emitter.b.getF32Type())));
  });
  return zeros;
}

void rows::clearSums(TeamRowEmitter &emitter) {
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  if (plan.whole) {
    return;
  }
  forSums(emitter, [&](unsigned result, int64_t width) {
    Source row = getSumRow(emitter, result);
    int64_t step = plan.step();
    e.loop(e.index(0), e.index(llvm::alignTo(uint64_t(width), uint64_t(step))), step,
           [&](Value base) {
             Columns columns = makeColumns(emitter, width, base, plan.chunks, true);
             for (size_t j = 0; j < emitter.getColumnVectorCount(columns); ++j) {
               store(emitter, makeZero(emitter, emitter.getVectorType(emitter.b.getF32Type())), row,
                     columns, j, nullptr);
             }
           });
  });
}

/// The columns of a thread are private, in registers and in memory; no other thread reads them
/// before the end.
void rows::addToSums(TeamRowEmitter &emitter, unsigned result, Columns &columns) {
  Emitter &e = emitter.e;
  Values added = emitter.rowValues(getYield(emitter.op).getValues()[result], columns);
  for (Value &value : added) {
    value = e.select(emitter.at.valid, value, makeZero(emitter, value.getType()));
  }
  if (emitter.plan.whole) {
    for (auto [sum, value] : llvm::zip_equal(emitter.sums[result], added)) {
      sum = e.addf(sum, value);
    }
    return;
  }
  Source row = getSumRow(emitter, result);
  for (auto [j, value] : llvm::enumerate(added)) {
    auto add = [&, j = j, &value = value] {
      store(emitter, e.addf(load(emitter, row, columns, j), value), row, columns, j, nullptr);
    };
    columns.ragged[j] ? e.when(e.less(columns.first[j], e.index(columns.width)), add) : add();
  }
}

static void storeSum(TeamRowEmitter &emitter, unsigned result, int64_t width,
                     ValueRange sumsOfTeam) {
  ImplicitLocOpBuilder &b = emitter.b;
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  Source row = getSumRow(emitter, result);
  Columns &own = emitter.inHand[width];
  if (plan.teams() == 1) {
    for (auto [j, sum] : llvm::enumerate(sumsOfTeam)) {
      store(emitter, sum, row, own, j, nullptr);
    }
    return;
  }
  VectorType type = emitter.getVectorType(b.getF32Type());
  auto aligned = llvm::MaybeAlign(std::min<uint64_t>(plan.vector * 4, 16));
  Value start = e.mul(emitter.teamOfBlock, plan.step());
  for (auto [j, sum] : llvm::enumerate(sumsOfTeam)) {
    vector::StoreOp::create(b, sum, emitter.sumMemory, ValueRange{e.add(start, own.first[j])},
                            false, aligned);
  }
  NVVM::BarrierOp::create(b);
  int64_t perTurn = plan.threads * plan.vector;
  for (int64_t base = 0; base < width; base += perTurn) {
    Columns columns;
    columns.width = width;
    columns.first = {e.add(e.mul(emitter.thread, plan.vector), base)};
    columns.ragged = {base + perTurn > width};
    Value column = e.min(columns.first[0], e.index(plan.step() - plan.vector)), sum;
    for (int64_t team = 0; team < plan.teams(); ++team) {
      Value loaded =
          vector::LoadOp::create(b, type, emitter.sumMemory,
                                 ValueRange{e.add(column, team * plan.step())}, false, aligned);
      sum = sum ? e.addf(sum, loaded) : loaded;
    }
    store(emitter, sum, row, columns, 0, nullptr);
  }
}

void rows::storeSums(TeamRowEmitter &emitter, ValueRange rest) {
  ImplicitLocOpBuilder &b = emitter.b;
  const Plan &plan = emitter.plan;
  if (!plan.whole) {
    return;
  }
  if (plan.teams() > 1) {
    emitter.sumMemory =
        sharedMemory(emitter.frame, "sums", plan.teams() * plan.step(), b.getF32Type());
  }
  bool first = true;
  forSums(emitter, [&](unsigned result, int64_t width) {
    if (!first && plan.teams() > 1) {
      NVVM::BarrierOp::create(b);
    }
    first = false;
    size_t count = plan.countChunks(width);
    storeSum(emitter, result, width, rest.take_front(count));
    rest = rest.drop_front(count);
  });
}

void rows::emitSumOfParts(TeamRowEmitter &emitter, const Plan &summed, Value part) {
  const Plan &plan = emitter.plan;
  Emitter &e = emitter.e;
  SmallVector<int64_t> offsets = sumOffsets(emitter.op, summed);
  Value first = e.mul(part, summed.partBlocks);
  forSums(emitter, [&](unsigned result, int64_t width) {
    auto sumVector = [&](Value index) {
      Columns columns;
      columns.width = width;
      columns.first = {e.mul(index, plan.vector)};
      columns.ragged = {width % plan.vector != 0};
      auto add = [&](Value sum, Value from, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          Source row =
              emitter.addresses.workspaceRow(e.index(offsets[result]), e.add(from, i), width);
          sum = e.addf(sum, load(emitter, row, columns, 0));
        }
        return sum;
      };
      int64_t full = summed.partBlocks / sumsTogether * sumsTogether;
      Value sum = e.loop(e.index(0), e.index(full), sumsTogether,
                         {makeZero(emitter, emitter.getVectorType(emitter.b.getF32Type()))},
                         [&](Value block, ValueRange so) {
                           return Values{add(so[0], e.add(first, block), sumsTogether)};
                         })[0];
      sum = add(sum, e.add(first, full), summed.partBlocks - full);
      store(emitter, sum, emitter.addresses.resultRow(result, emitter.at, width, nullptr, part),
            columns, 0, nullptr);
    };
    e.loop(emitter.thread, e.index(llvm::divideCeil(width, plan.vector)), plan.threads, sumVector);
  });
}
