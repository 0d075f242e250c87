// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Few rows times a weight matrix: bound by reading the weights. Rows of W [out, in] are contiguous,
// so a warp reads several of them at once, with consecutive lanes at consecutive columns, and
// reduces over its lanes at the end. The order of a sum depends on the inner dimension only. Of
// weights of 4 bits, the two lanes that share a byte read it in the same access.
#include "../Frame/Lanes.h"
#include "Contract.h"
#include "SumRows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t mostRows = 4; ///< rows whose sums a thread has in registers
constexpr int64_t warps = threadsPerBlock / threadsPerWarp;

RankedTensorType getRowType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Returns the number of rows of W that a warp reads at once: fewer if some multiprocessors of a
/// large GPU would have no block.
int64_t columnsOfWarp(int64_t width) {
  constexpr int64_t wanted = 132;
  int64_t columns = 4;
  while (columns > 1 && int64_t(llvm::divideCeil(width, columns * warps)) < wanted) {
    columns /= 2;
  }
  return columns;
}

class StepContraction {
public:
  StepContraction(dispatch::ContractOp op, ModuleOp module, StringRef name)
      : op(op), domain(op.getDomain()), frame(op, domain, module, name), e(frame.e),
        inner(op.getInner()), width(op.getColumns()),
        vector(getVectorElements(getRowType(op.getInput()).getElementType(), {inner})),
        warpColumns(columnsOfWarp(width)), blockColumns(warps * warpColumns) {}

  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  Value countDue();
  void locate(Value slot, Value place);
  void emitRows(Value first, Value due, int64_t count);
  Values emitDots(ArrayRef<Value> lines);
  Values loadWeights(Value output, Value k);
  void emitEpilogue(Value first, Value due, int64_t count);
  Value loadPlace(Value place, int64_t number);
  /// Address in shared memory: f32 sums [rows][blockColumns], then the batch rows and positions of
  /// the rows, i32.
  Value sumAt(Value place, Value column) {
    return core->shared(e.mul(e.add(e.mul(place, blockColumns), column), 4));
  }
  Value placeAt(Value place, int64_t number) {
    return core->shared(e.mul(place, 8), mostRows * blockColumns * 4 + number * 4);
  }

  dispatch::ContractOp op;
  dispatch::DomainAttr domain;
  Frame frame;
  Emitter &e;
  const int64_t inner, width, vector, warpColumns, blockColumns;
  std::unique_ptr<TensorCore> core;
  std::unique_ptr<SumRows> epilogue;
  Value input, weight, scales, thread, firstColumn; ///< `firstColumn`: of the block
  bool isUnknown = false;                           ///< the epilogue has an unsupported op
};

} // namespace

/// Returns the number of due rows of the whole batch.
Value StepContraction::countDue() {
  auto add = [&](Value batch, ValueRange so) {
    return Values{e.add(so[0], frame.run(batch).count)};
  };
  return e.loop(e.index(0), e.index(domain.getBatch()), 1, ValueRange{e.index(0)}, add)[0];
}

/// Stores batch row and position of the `slot`-th due row, in order, to shared memory.
void StepContraction::locate(Value slot, Value place) {
  auto step = [&](Value batch, ValueRange so) {
    RowSchedule run = frame.run(batch);
    Value before = so[0], within = e.sub(slot, before);
    Value here = e.both(e.atLeast(within, e.index(0)), e.less(within, run.count));
    return Values{e.add(before, run.count), e.select(here, batch, so[1]),
                  e.select(here, e.add(run.start, within), so[2])};
  };
  Value zero = e.index(0);
  Values found = e.loop(zero, e.index(domain.getBatch()), 1, ValueRange{zero, zero, zero}, step);
  core->store(e.toInteger(found[1]), placeAt(place, 0), 4);
  core->store(e.toInteger(found[2]), placeAt(place, 1), 4);
}

Value StepContraction::loadPlace(Value place, int64_t number) {
  Value loaded = core->load(e.b.getI32Type(), placeAt(place, number), 4);
  return arith::IndexCastOp::create(e.b, e.b.getIndexType(), loaded);
}

/// Loads `vector` weights of a row of W from column `k`, in f32. Weights of 4 bits are in one half
/// of a group.
Values StepContraction::loadWeights(Value output, Value k) {
  if (!scales) {
    return loadElements(frame, weight, output, k, vector);
  }
  int64_t groups = llvm::divideCeil(inner, dispatch::groupWeights);
  auto remainder = [&](int64_t divisor) -> Value {
    return arith::RemUIOp::create(e.b, k, e.index(divisor));
  };
  Value row = e.add(e.mul(output, groups), e.floorDiv(k, dispatch::groupWeights));
  Value isSecond = e.atLeast(remainder(dispatch::groupWeights), e.index(dispatch::groupBytes));
  auto bytes = VectorType::get({vector}, e.b.getI8Type());
  Value loaded =
      vector::LoadOp::create(e.b, bytes, weight, ValueRange{row, remainder(dispatch::groupBytes)},
                             false, llvm::MaybeAlign(uint64_t(vector)));
  Value scale = e.loadScalar(scales, {row});
  Values weights;
  for (int64_t i = 0; i < vector; ++i) {
    Value byte =
        arith::ExtSIOp::create(e.b, e.b.getI32Type(), vector::ExtractOp::create(e.b, loaded, i));
    Value first = e.add(arith::AndIOp::create(e.b, byte, e.integer(15)), -8);
    Value number = e.select(isSecond, e.floorDiv(byte, 16), first);
    weights.push_back(e.mulf(arith::SIToFPOp::create(e.b, e.b.getF32Type(), number), scale));
  }
  return weights;
}

/// Computes sums of this warp's columns over all of the inner dimension, column by column and row
/// by row. Columns past the last repeat it.
Values StepContraction::emitDots(ArrayRef<Value> lines) {
  Values outputs;
  Value column = e.add(firstColumn, e.mul(frame.warp, warpColumns));
  for (int64_t i = 0; i < warpColumns; ++i) {
    outputs.push_back(e.min(e.add(column, i), e.index(width - 1)));
  }
  auto step = [&](Value k, ValueRange so) {
    SmallVector<Values> weights, rows;
    for (Value output : outputs) {
      weights.push_back(loadWeights(output, k));
    }
    for (Value line : lines) {
      rows.push_back(loadElements(frame, input, line, k, vector));
    }
    Values sums(so);
    for (int64_t i = 0; i < vector; ++i) {
      for (auto [c, ofColumn] : llvm::enumerate(weights)) {
        for (auto [r, ofRow] : llvm::enumerate(rows)) {
          Value &sum = sums[c * rows.size() + r];
          sum = e.fma(ofRow[i], ofColumn[i], sum);
        }
      }
    }
    return sums;
  };
  Values zeros = core->zeros(warpColumns * int64_t(lines.size()));
  Values sums =
      e.loop(e.mul(frame.lane, vector), e.index(inner), vector * threadsPerWarp, zeros, step);
  for (Value &sum : sums) {
    sum = sumOfLanes(frame, sum, threadsPerWarp);
  }
  return sums;
}

/// Processes due rows [first, first + count). If there are fewer, the last one is repeated, and
/// stored once.
void StepContraction::emitRows(Value first, Value due, int64_t count) {
  e.when(e.less(thread, e.index(count)),
         [&] { locate(e.min(e.add(first, thread), e.add(due, -1)), thread); });
  core->barrier();
  Values lines;
  int64_t extent = getRowType(op.getInput()).getDimSize(1);
  for (int64_t r = 0; r < count; ++r) {
    Row row;
    row.batch = loadPlace(e.index(r), 0);
    row.position = loadPlace(e.index(r), 1);
    lines.push_back(frame.memoryRow(extent, row));
  }
  Values sums = emitDots(lines);
  Value isFirst = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, frame.lane, e.index(0));
  e.when(isFirst, [&] {
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value column = e.add(e.mul(frame.warp, warpColumns), int64_t(i) / count);
      core->store(sum, sumAt(e.index(int64_t(i) % count), column), 4);
    }
  });
  core->barrier();
  emitEpilogue(first, due, count);
  core->barrier(); // the places and sums of the next rows overwrite these
}

/// Processes four columns of a row per thread.
void StepContraction::emitEpilogue(Value first, Value due, int64_t count) {
  int64_t quads = blockColumns / columnsPerThread;
  Value place = arith::DivUIOp::create(e.b, thread, e.index(quads));
  Value within =
      e.mul(Value(arith::RemUIOp::create(e.b, thread, e.index(quads))), columnsPerThread);
  Value column = e.add(firstColumn, within);
  Value isDue = e.less(e.add(first, place), due);
  Value exists = e.both(e.less(place, e.index(count)), e.less(column, e.index(width)));
  e.when(e.both(exists, isDue), [&] {
    Row row;
    row.batch = loadPlace(place, 0);
    row.position = loadPlace(place, 1);
    row.row = e.add(first, place);
    row.exists = row.valid = arith::ConstantIntOp::create(e.b, 1, 1);
    Value sums = core->load(VectorType::get({columnsPerThread}, e.b.getF32Type()),
                            sumAt(place, within), 4 * columnsPerThread);
    epilogue->setColumn(column);
    isUnknown |= failed(epilogue->emit(sums, row, epilogue->loadExtras(row)));
  });
}

FailureOr<Kernel> StepContraction::generate() {
  core = std::make_unique<TensorCore>(frame);
  epilogue = std::make_unique<SumRows>(op, frame, *core, /*guarded=*/false);
  input = frame.buffer(0);
  weight = frame.buffer(1);
  scales = op.getGrouped() ? frame.buffer(unsigned(1 + op.getExtras().size())) : Value();
  thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  firstColumn = e.mul(frame.block, blockColumns);
  int64_t together = std::min(domain.getLaunchRows(), mostRows);
  Value due = countDue();
  e.loop(e.index(0), due, together, [&](Value first) {
    if (together == 1) {
      return emitRows(first, due, 1);
    }
    Value isOne =
        arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, e.sub(due, first), e.index(1));
    e.when(isOne, [&] { emitRows(first, due, 1); }, [&] { emitRows(first, due, together); });
  });
  if (isUnknown) {
    return failure();
  }
  int64_t blocks = llvm::divideCeil(width, blockColumns);
  double launchRows = double(domain.getLaunchRows());
  Kernel kernel = frame.kernel(blocks, "matmul", 2 * launchRows * double(inner) * double(width),
                               mostRows * (blockColumns * 4 + 8));
  auto countBytes = [](Value value) {
    return double(getRowType(value).getElementTypeBitWidth() / 8);
  };
  kernel.bytes = double(getRowType(op.getWeight()).getNumElements()) * countBytes(op.getWeight()) +
                 double(inner) * launchRows * countBytes(op.getInput());
  for (Value tensor : llvm::concat<Value>(llvm::to_vector(op.getExtras()),
                                          llvm::to_vector_of<Value>(op->getResults()))) {
    bool isRows = getRowType(tensor).getRank() == 3;
    double elements =
        isRows ? launchRows * double(width) : double(getRowType(tensor).getNumElements());
    kernel.bytes += elements * countBytes(tensor);
  }
  return kernel;
}

FailureOr<Kernel> cuda::generateStepContract(dispatch::ContractOp op, ModuleOp module,
                                             StringRef name) {
  StepContraction contraction(op, module, name);
  return contraction.kernelFrame().finish(contraction.generate());
}
