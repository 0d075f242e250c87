// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses of rows. A block holds 64 rows and streams the vocabulary, 128 tokens at a time. Every
// thread keeps the maximum and the sum of its own columns of its rows; threads combine only at the
// end.
#include "../TensorCore/Columns.h"
#include "CrossEntropy.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::cross_entropy;

namespace {

constexpr WarpGrid grid{2, 2, 32, 64};
constexpr int64_t innerStep = 32, stageCount = 4;
constexpr int64_t floatBytes = sizeof(float);
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Running statistics of the logits x of a row: max, sum of e^(x - max), the target's x and, with
/// label smoothing, the sum of x (else null).
struct Statistics {
  Value maximum, sum, chosen, all;

  Values toValues() const {
    Values values{maximum, sum, chosen};
    if (all) {
      values.push_back(all);
    }
    return values;
  }
  static Statistics of(ValueRange values) {
    return {values[0], values[1], values[2], values.size() > 3 ? values[3] : Value()};
  }
};

class Losses {
public:
  Losses(const Head &head, StringRef name)
      : head(head), frame(head.op, head.domain, head.module, name, grid.threads()), e(frame.e),
        core(frame), rows(frame, head), numbersPerRow(head.smoothing > 0 ? 4 : 3) {}
  KernelStage generate();

private:
  void emitBlock();
  Values addTokens(const Values &sums, Value firstToken, ValueRange carried);
  void addRow(ArrayRef<Value> logits, ArrayRef<Value> columns, ArrayRef<Value> exists, Value target,
              Statistics &of);
  void merge(Statistics &into, const Statistics &from);
  void mergeLanes(Statistics &of);
  void store(Value line, const Statistics &of);
  void storeZeros();
  Value number(float value) { return arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(value)); }
  Value slot(Value warpColumn, Value line) {
    Value at = e.add(e.mul(warpColumn, grid.blockRows()), line);
    return e.mul(at, numbersPerRow * floatBytes);
  }
  int64_t rowsPerThread() const { return 2 * grid.rowFragments(); }

  const Head &head;
  Frame frame;
  Emitter &e;
  TensorCore core;
  LossRows rows;
  const int64_t numbersPerRow; ///< number of values in `Statistics`
  Value thread, firstRow, warpRow, warpColumn;
  Values targets; ///< i32: targets of this thread's rows
};

} // namespace

void Losses::merge(Statistics &into, const Statistics &from) {
  Value maximum = e.maxf(into.maximum, from.maximum);
  Value kept = e.mulf(into.sum, rows.exp(e.subf(into.maximum, maximum)));
  Value added = e.mulf(from.sum, rows.exp(e.subf(from.maximum, maximum)));
  into = {maximum, e.addf(kept, added), e.addf(into.chosen, from.chosen),
          into.all ? e.addf(into.all, from.all) : Value()};
}

void Losses::addRow(ArrayRef<Value> logits, ArrayRef<Value> columns, ArrayRef<Value> exists,
                    Value target, Statistics &of) {
  Value maximum = of.maximum;
  for (auto [x, column] : llvm::zip_equal(logits, columns)) {
    maximum = e.maxf(maximum, x);
    Value own = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, column, target);
    of.chosen = e.select(own, x, of.chosen);
  }
  Value sum = e.mulf(of.sum, rows.exp(e.subf(of.maximum, maximum)));
  for (Value x : logits) {
    sum = e.addf(sum, rows.exp(e.subf(x, maximum)));
  }
  of.maximum = maximum;
  of.sum = sum;
  for (size_t j = 0; of.all && j < logits.size(); ++j) {
    Value x = exists[j] ? e.select(exists[j], logits[j], number(0)) : logits[j];
    of.all = e.addf(of.all, x);
  }
}

Values Losses::addTokens(const Values &sums, Value firstToken, ValueRange carried) {
  Value pair = e.mul(Value(arith::RemUIOp::create(e.b, frame.lane, e.index(4))), 2);
  Value first = e.add(e.add(firstToken, warpColumn), pair);
  Values columns, biases, exists;
  for (int64_t j = 0; j < 2 * grid.columnFragments(); ++j) {
    Value column = e.add(first, j / 2 * fragmentColumns + j % 2);
    columns.push_back(e.toInteger(column));
    biases.push_back(rows.bias(column));
    bool whole = head.vocabulary % grid.blockColumns() == 0;
    exists.push_back(whole ? Value() : e.less(column, e.index(head.vocabulary)));
  }
  Values next;
  for (int64_t i = 0; i < rowsPerThread(); ++i) {
    Values logits;
    for (int64_t j = 0; j < 2 * grid.columnFragments(); ++j) {
      int64_t fragment = i / 2 * grid.columnFragments() + j / 2;
      Value x = sums[fragment * sumsPerFragment + i % 2 * 2 + j % 2];
      x = biases[j] ? e.addf(x, biases[j]) : x;
      logits.push_back(exists[j] ? e.select(exists[j], x, number(-infinity)) : x);
    }
    Statistics of = Statistics::of(carried.slice(numbersPerRow * i, numbersPerRow));
    addRow(logits, columns, exists, targets[i], of);
    next.append(of.toValues());
  }
  return next;
}

/// Combines the statistics of a row in all four lanes that share it.
void Losses::mergeLanes(Statistics &of) {
  for (int64_t distance : {1, 2}) {
    auto other = [&](Value value) -> Value {
      return NVVM::ShflOp::create(e.b, e.b.getF32Type(), e.integer(-1), value, e.integer(distance),
                                  e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
    };
    merge(of,
          {other(of.maximum), other(of.sum), other(of.chosen), of.all ? other(of.all) : Value()});
  }
}

// A finite initial maximum avoids infinity minus infinity in threads that see no token.
void Losses::emitBlock() {
  Factor held{frame.buffer(0), head.rows, head.width, false, grid.blockRows()};
  Factor streamed{frame.buffer(1), head.vocabulary, head.width, false, grid.blockColumns()};
  Pipeline pipeline(frame, core, grid, held, streamed, innerStep, stageCount);
  warpRow = pipeline.warpRow();
  warpColumn = pipeline.warpColumn();
  Value group = arith::DivUIOp::create(e.b, frame.lane, e.index(4));
  Values lines, start;
  for (int64_t i = 0; i < rowsPerThread(); ++i) {
    lines.push_back(e.add(e.add(warpRow, group), i / 2 * fragmentRows + i % 2 * 8));
    targets.push_back(rows.getTargetToken(frame.row(e.add(firstRow, lines.back()))));
    start.push_back(number(std::numeric_limits<float>::lowest()));
    start.append(numbersPerRow - 1, number(0));
  }
  Value steps = e.index(llvm::divideCeil(head.width, innerStep));
  Value blocks = e.index(llvm::divideCeil(head.vocabulary, grid.blockColumns()));
  auto origin = [&](Value block) -> Origin {
    return {firstRow, e.mul(block, grid.blockColumns()), e.index(0)};
  };
  pipeline.fill(origin(e.index(0)), steps);
  Values all = e.loop(e.index(0), blocks, 1, start, [&](Value block, ValueRange carried) {
    Values sums = pipeline.run(origin(block), steps, core.zeros(grid.sums()));
    core.barrier();
    Value next = e.add(block, 1);
    e.when(e.less(next, blocks), [&] { pipeline.fill(origin(next), steps); });
    return addTokens(sums, origin(block).column, carried);
  });
  Value first = arith::RemUIOp::create(e.b, frame.lane, e.index(4));
  Value speaks = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, first, e.index(0));
  Value mine = arith::RemUIOp::create(e.b, frame.warp, e.index(grid.columns));
  for (int64_t i = 0; i < rowsPerThread(); ++i) {
    Statistics of = Statistics::of(ValueRange(all).slice(numbersPerRow * i, numbersPerRow));
    mergeLanes(of);
    e.when(speaks, [&] {
      Value at = slot(mine, lines[i]);
      for (auto [j, value] : llvm::enumerate(of.toValues())) {
        core.store(value, core.shared(at, int64_t(j) * floatBytes), floatBytes);
      }
    });
  }
  core.barrier();
  e.when(e.less(thread, e.index(grid.blockRows())), [&] {
    Statistics of;
    for (int64_t column = 0; column < grid.columns; ++column) {
      Value at = slot(e.index(column), thread);
      Values read;
      for (int64_t i = 0; i < numbersPerRow; ++i) {
        read.push_back(core.load(e.b.getF32Type(), core.shared(at, i * floatBytes), floatBytes));
      }
      Statistics part = Statistics::of(read);
      if (column == 0) {
        of = part;
      } else {
        merge(of, part);
      }
    }
    store(thread, of);
  });
}

void Losses::store(Value line, const Statistics &of) {
  Row row = frame.row(e.add(firstRow, line));
  Value logarithm = math::LogOp::create(e.b, of.sum);
  Value below = e.subf(of.chosen, of.maximum);
  if (of.all) { // the mean of the logits minus the maximum, and the target's
    Value even = e.subf(e.mulf(of.all, number(1 / float(head.vocabulary))), of.maximum);
    below = e.addf(e.mulf(below, number(1 - head.smoothing)), e.mulf(even, number(head.smoothing)));
  }
  Value loss = e.select(rows.isScored(row), e.subf(logarithm, below), number(0));
  e.when(row.exists,
         [&] { e.store(loss, frame.buffer(unsigned(head.losses)), {row.batch, row.position}); });
  if (head.lse >= 0 || head.inputGradient >= 0) {
    e.when(row.valid,
           [&] { e.store(e.addf(of.maximum, logarithm), rows.lse(), {row.batch, row.position}); });
  }
}

void Losses::storeZeros() {
  e.when(e.less(thread, e.index(grid.blockRows())), [&] {
    Row row = frame.row(e.add(firstRow, thread));
    e.when(row.exists, [&] {
      e.store(number(0), frame.buffer(unsigned(head.losses)), {row.batch, row.position});
    });
  });
}

KernelStage Losses::generate() {
  thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  firstRow = e.mul(frame.block, grid.blockRows());
  e.when(
      anyValid(frame, head.domain, firstRow, grid.blockRows()), [&] { emitBlock(); },
      [&] { storeZeros(); });
  func::ReturnOp::create(e.b);
  int64_t bytes = stageCount * (grid.blockRows() + grid.blockColumns()) * innerStep * 2;
  int64_t blocks = llvm::divideCeil(head.rows, grid.blockRows());
  return {frame.function, blocks, grid.threads(), bytes};
}

KernelStage cross_entropy::emitLosses(const Head &head, StringRef name) {
  return Losses(head, name).generate();
}
