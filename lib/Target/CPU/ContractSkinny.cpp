// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Few rows times a weight matrix: bound by reading the weights. A row of W [out, in] lies together,
// so an output is a dot product along the input. An item is a block of output columns; it gathers
// the rows that are due to scratch, as f32, and takes each row of W to all of them.
#include "Skinny.h"
#include "Storage.h"
#include "Tile.h"
#include "sluice/Target/CPU/Emitter.h"
#include "sluice/Target/CPU/Epilogue.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

Value cpu::ringRow(ImplicitLocOpBuilder &b, int64_t extent, Value batch, Value position) {
  Value rows = arith::ConstantIndexOp::create(b, extent);
  Value first = arith::MulIOp::create(b, batch, rows);
  return arith::AddIOp::create(b, first, arith::RemUIOp::create(b, position, rows));
}

namespace {

/// How rows and columns are cut.
struct Cut {
  int64_t rows;        ///< taken together: their sums for `columns` columns stay in registers
  int64_t columns;     ///< rows of W side by side, a power of two
  int64_t itemColumns; ///< output columns an item, a multiple of the lanes
  int64_t items;

  Cut(const Target &target, int64_t launchRows, int64_t width);
};

Cut::Cut(const Target &target, int64_t launchRows, int64_t width) {
  rows = std::min(launchRows, target.registers / 4);
  columns = target.lanes;
  while (columns > 1 && columns * rows + rows + 2 > target.registers) {
    columns /= 2;
  }
  // Some 32 items let threads even out; a whole vector of columns each, for the epilogue.
  constexpr int64_t wantedItems = 32;
  int64_t vectors = llvm::divideCeil(width, target.lanes);
  itemColumns = llvm::divideCeil(vectors, wantedItems) * target.lanes;
  items = llvm::divideCeil(width, itemColumns);
}

constexpr int64_t lineBytes = 64; ///< of a cache line

class SkinnyGenerator {
public:
  SkinnyGenerator(dispatch::ContractOp op, ModuleOp module, StringRef name, const Target &target)
      : op(op), domain(op.getDomain()), frame(op, module, name, target),
        e(frame.builder(), target.lanes), epilogue(op, frame),
        inner(typeOf(op.getInput()).getShape().back()), width(typeOf(op.getWeight()).getDimSize(0)),
        cut(target, domain.getLaunchRows(), width) {}

  FailureOr<Kernel> generate();

private:
  using Values = Emitter::Values;
  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  static int64_t extentOf(Value value) { return typeOf(value).getDimSize(1); }
  Value listDue();
  void emitRows(Value first, Value due);
  void emitDots(ArrayRef<Value> rows, Value column, int64_t columns);
  Values stepDots(ArrayRef<Value> rows, ArrayRef<Value> outputs, Value k, int64_t valid,
                  ValueRange dots);
  void prefetch(Value column, int64_t columns, Value k);
  void emitEpilogue(Value first, Value count, Value column);
  Value listed(Value list, Value slot) {
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), e.loadScalar(list, {slot}));
  }

  dispatch::ContractOp op;
  dispatch::DomainAttr domain;
  Frame frame;
  Emitter e;
  Epilogue epilogue;
  const int64_t inner, width;
  const Cut cut;

  Value input, weight, itemEnd;
  SmallVector<Value> extras, results;
  Value batches, positions; ///< of the rows that are due, in order
  Value sums;               ///< [cut.rows][lanes], and as much again that is written over
  bool failed_ = false;
};

} // namespace

FailureOr<Kernel> SkinnyGenerator::generate() {
  input = frame.buffer(0);
  weight = frame.buffer(1);
  for (size_t i = 0; i < op.getExtras().size(); ++i) {
    extras.push_back(frame.buffer(2 + i));
  }
  for (size_t i = 0; i < op.getOutputs().size(); ++i) {
    results.push_back(frame.buffer(op->getNumOperands() + i));
  }
  Type f32 = e.b.getF32Type(), i64 = e.b.getI64Type();
  int64_t launchRows = domain.getLaunchRows();
  batches = frame.scratch(MemRefType::get({launchRows}, i64));
  positions = frame.scratch(MemRefType::get({launchRows}, i64));
  sums = frame.scratch(MemRefType::get({cut.rows, 2 * e.lanes}, f32));

  Value due = listDue();
  e.loop(e.index(0), due, cut.rows, [&](Value first) { emitRows(first, due); });
  frame.finish();
  if (failed_) {
    return failure();
  }
  Kernel kernel{frame.function(), cut.items, frame.scratchBytes(), "matmul"};
  kernel.flops = 2.0 * double(launchRows) * double(inner) * double(width);
  auto bytesEach = [](Type type) {
    return cast<RankedTensorType>(type).getElementTypeBitWidth() / 8;
  };
  kernel.bytes = double(inner) * double(width + launchRows) * bytesEach(op.getWeight().getType());
  for (Type type : llvm::concat<const Type>(llvm::to_vector(op.getExtras().getTypes()),
                                            llvm::to_vector(op->getResultTypes()))) {
    auto shaped = cast<RankedTensorType>(type);
    double elements =
        shaped.getRank() == 3 ? double(launchRows * width) : double(shaped.getNumElements());
    kernel.bytes += elements * bytesEach(type);
  }
  return kernel;
}

/// Batch row and position of every row that is due, and how many there are.
Value SkinnyGenerator::listDue() {
  Value none = e.index(0);
  auto outer = [&](Value batch, ValueRange before) {
    Frame::Run run = frame.run(batch);
    return e.loop(e.index(0), run.count, 1, before, [&](Value j, ValueRange listed) {
      auto number = [&](Value value) {
        return arith::IndexCastOp::create(e.b, e.b.getI64Type(), value);
      };
      e.store(number(batch), batches, listed);
      e.store(number(e.add(run.start, j)), positions, listed);
      return Emitter::Values{e.add(listed.front(), 1)};
    });
  };
  return e.loop(e.index(0), e.index(domain.getBatch()), 1, none, outer).front();
}

/// Rows [first, first + cut.rows) of those that are due; where there are fewer, the last stands for
/// those that are missing, and is not stored again.
void SkinnyGenerator::emitRows(Value first, Value due) {
  Value last = e.add(due, -1);
  SmallVector<Value> rows;
  for (int64_t i = 0; i < cut.rows; ++i) {
    Value slot = e.min(e.add(first, i), last);
    rows.push_back(
        ringRow(e.b, extentOf(op.getInput()), listed(batches, slot), listed(positions, slot)));
  }
  Value count = e.min(e.index(cut.rows), e.sub(due, first));
  Value isAlone = e.less(count, e.index(2));
  Value begin = e.mul(frame.item(), cut.itemColumns);
  Value end = e.min(e.add(begin, cut.itemColumns), e.index(width));
  auto together = [&](Value column) {
    e.loop(e.index(0), e.index(e.lanes), cut.columns,
           [&](Value offset) { emitDots(rows, e.add(column, offset), cut.columns); });
  };
  e.loop(begin, end, e.lanes, [&](Value column) {
    auto alone = [&] { emitDots(rows.front(), column, e.lanes); };
    if (cut.rows == 1) {
      alone();
    } else {
      e.when(isAlone, alone, [&] { together(column); });
    }
    emitEpilogue(first, count, column);
  });
}

/// Columns [column, column + columns) of `rows`, to `sums` at column mod lanes. Columns behind the
/// last are the last again. The order of a sum depends on neither number.
void SkinnyGenerator::emitDots(ArrayRef<Value> rows, Value column, int64_t columns) {
  Values outputs;
  for (int64_t j = 0; j < columns; ++j) {
    outputs.push_back(e.min(e.add(column, j), e.index(width - 1)));
  }
  int64_t line = lineBytes * 8 / typeOf(op.getWeight()).getElementTypeBitWidth();
  int64_t unroll = std::max<int64_t>(1, line / e.lanes) * e.lanes;
  int64_t whole = inner / unroll * unroll;
  Values dots(columns * rows.size(), e.splat(0));
  dots = e.loop(e.index(0), e.index(whole), unroll, dots, [&](Value k, ValueRange carried) {
    Values next(carried);
    prefetch(column, columns, k);
    for (int64_t i = 0; i < unroll; i += e.lanes) {
      next = stepDots(rows, outputs, e.add(k, i), e.lanes, next);
    }
    return next;
  });
  for (int64_t k = whole; k < inner; k += e.lanes) {
    dots = stepDots(rows, outputs, e.index(k), inner - k, dots);
  }
  Value at = arith::RemUIOp::create(e.b, column, e.index(e.lanes));
  for (size_t i = 0; i < rows.size(); ++i) {
    Values ofRow;
    for (int64_t j = 0; j < columns; ++j) {
      ofRow.push_back(dots[j * rows.size() + i]);
    }
    e.store(e.sumEach(ofRow), sums, {e.index(i), at});
  }
}

/// `dots`, by column and row, with the terms of `valid` elements from `k` on.
Emitter::Values SkinnyGenerator::stepDots(ArrayRef<Value> rows, ArrayRef<Value> outputs, Value k,
                                          int64_t valid, ValueRange dots) {
  Values factors, next;
  for (Value row : rows) {
    factors.push_back(e.load(input, {row, k}, valid));
  }
  for (Value output : outputs) {
    Value weights = e.load(weight, {output, k}, valid);
    for (Value factor : factors) {
      next.push_back(e.fma(factor, weights, dots[next.size()]));
    }
  }
  return next;
}

/// Asks for the line at `k` of the columns that come some kilobytes later. Rows of W as long as a
/// page the processor follows by itself.
void SkinnyGenerator::prefetch(Value column, int64_t columns, Value k) {
  constexpr int64_t pageBytes = 4096;
  if (inner * typeOf(op.getWeight()).getElementTypeBitWidth() / 8 >= pageBytes) {
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    Value later = e.min(e.add(column, e.lanes + j), e.index(width - 1));
    memref::PrefetchOp::create(e.b, weight, ValueRange{later, k}, /*isWrite=*/false,
                               /*localityHint=*/3, /*isDataCache=*/true);
  }
}

void SkinnyGenerator::emitEpilogue(Value first, Value count, Value column) {
  Value mask =
      width % e.lanes == 0 ? Value() : emitColumnMask(e.b, e.lanes, column, e.index(width));
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value slot = e.add(first, i);
    Value batch = listed(batches, slot), position = listed(positions, slot);
    Emitter::Values arguments{e.load(sums, {i, e.index(0)})};
    for (auto [n, extra] : llvm::enumerate(op.getArgumentExtras())) {
      auto access = cast<dispatch::AccessAttr>(op.getAccesses()[n]);
      if (access.getKind() == dispatch::AccessKind::Vector) {
        arguments.push_back(loadVector(e.b, e.lanes, extras[n], column, mask));
      } else if (access.getKind() == dispatch::AccessKind::Scalar) {
        arguments.push_back(e.broadcast(e.loadScalar(extras[n], {e.index(0)})));
      } else {
        Value row = ringRow(e.b, extentOf(extra), batch, position);
        arguments.push_back(e.load(extras[n], {row, column}));
      }
    }
    FailureOr<SmallVector<Value>> yielded = epilogue.emit(arguments, {slot, column, position});
    if (failed(yielded)) {
      failed_ = true;
      return;
    }
    if (op.getRotary()) {
      yielded->front() = emitColumnRotation(
          e.b, yielded->front(), extras.back(), [&] { return position; }, column,
          *op.getRotatedColumns(), e.lanes);
    }
    for (auto [n, result] : llvm::enumerate(op.getOutputs())) {
      Value row = ringRow(e.b, extentOf(result), batch, position);
      e.store((*yielded)[n], results[n], {row, column});
    }
  });
}

FailureOr<Kernel> cpu::generateSkinnyContract(dispatch::ContractOp op, ModuleOp module,
                                              StringRef name, const Target &target) {
  return SkinnyGenerator(op, module, name, target).generate();
}
