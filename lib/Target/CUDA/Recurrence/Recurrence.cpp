// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences. A launch computes one row of each text, as every row needs all columns of the
// previous one; launches of one kernel count their blocks, from which each knows its row. Where
// rows are cut off at every k-th place, a launch computes one row of each chunk of k rows, so that
// there are k launches. A warp computes one column for a few rows at a time: it reads the weight's
// rows with consecutive lanes at consecutive columns, and reduces over its lanes. Of a weight by
// input, a lane reads a column of its own instead.
#include "Recurrence.h"
#include "../../Common/RowAccess.h"
#include "../Frame/Arrival.h"
#include "../Frame/Lanes.h"
#include "../Rows/Rows.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t mostTexts = 4;                    ///< rows whose sums a thread has in registers
constexpr int64_t rowsOfBlock = 64, mostParts = 64; ///< blocks of different rows, by columns
constexpr int64_t warps = threadsPerBlock / threadsPerWarp;

/// The chunks of rows between places that are cut off; one chunk without such places.
struct ChunkGrid {
  explicit ChunkGrid(dispatch::RecurrenceOp op) {
    int64_t positions = op.getDomain().getPositions(), k = op.getResetEvery();
    if (k == 0 || k >= positions || op.getDomain().getScheduled()) {
      return;
    }
    every = k;
    // A row is cut off at its own place or, with `adjoint`, at its previous row's.
    int64_t after = op.getAdjoint() ? (op.getReversed() ? -1 : 1) : 0;
    first = llvm::mod(static_cast<int64_t>(op.getResetAt()) + after, every);
    first -= op.getReversed() || first == 0 ? 0 : every; // rows before the first place
    chunks = op.getReversed() ? 1 + llvm::divideCeil(positions - 1 - first, every)
                              : llvm::divideCeil(positions - first, every);
  }
  int64_t every = 0;  ///< rows of a chunk; 0 for a text
  int64_t first = 0;  ///< row that begins the first chunk
  int64_t chunks = 1; ///< of a text
};

class RecurrenceKernel {
public:
  RecurrenceKernel(dispatch::RecurrenceOp op, ModuleOp module, StringRef name)
      : op(op), domain(op.getDomain()), frame(op, domain, module, name), b(frame.b), e(frame.e),
        columns(static_cast<int64_t>(op.getColumns())), groups(op.countProductGroups()),
        inner(op.countInnerColumns()), grid(op), rowCount(domain.getBatch() * grid.chunks),
        texts(std::min(rowCount, mostTexts)), byLane(groups == 0 || op.getByInput()),
        blockColumns(byLane ? threadsPerBlock : warps),
        columnBlocks(llvm::divideCeil(columns, blockColumns)),
        parts(std::clamp<int64_t>(rowCount / rowsOfBlock, 1, mostParts)),
        blocks(columnBlocks * parts) {}

  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  /// A row of one text.
  struct TextRow {
    Value batch, position, previous, length; ///< index
    Value valid, linked, marked;             ///< i1
  };

  static int64_t getExtent(Value rows) {
    return cast<RankedTensorType>(rows.getType()).getDimSize(1);
  }
  Value getRow(Value tensor, Value batch, Value position) {
    return sequenceRow(b, domain, getExtent(tensor), batch, position);
  }
  Value loadPlace();
  Values loadIf(Value condition, int64_t count, llvm::function_ref<Values()> load);
  Value emitMark(Value batch, Value position);
  TextRow findRow(Value batch, Value place);
  Values multiply(ArrayRef<TextRow> rows);
  void emitCell(const TextRow &row, ValueRange products);

  dispatch::RecurrenceOp op;
  dispatch::DomainAttr domain;
  Frame frame;
  ImplicitLocOpBuilder &b;
  Emitter &e;
  const int64_t columns, groups, inner;
  const ChunkGrid grid;
  const int64_t rowCount; ///< of a launch
  const int64_t texts;
  const bool byLane; ///< each lane has a column of its own
  const int64_t blockColumns, columnBlocks, parts, blocks;

  Value weight, bits, column; ///< `column`: of the warp, or of the thread
  SmallVector<Value> inputs, results;
};

} // namespace

/// Returns the number of launches before this one: every block counts itself at its end, so fewer
/// than `blocks` of this launch have when a block starts.
Value RecurrenceKernel::loadPlace() {
  Value arrived =
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, frame.counter(e.index(0)), e.integer(0),
                                LLVM::AtomicOrdering::monotonic, "device", Kernel::counterBytes);
  Value place = arith::DivUIOp::create(b, arrived, e.integer(blocks));
  return arith::IndexCastOp::create(b, b.getIndexType(), place);
}

/// Loads `count` numbers if the condition holds; else returns zeros.
Values RecurrenceKernel::loadIf(Value condition, int64_t count, llvm::function_ref<Values()> load) {
  SmallVector<Type> types(count, b.getF32Type());
  auto branch = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, load());
  b.setInsertionPointToStart(branch.elseBlock());
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  scf::YieldOp::create(b, Values(count, zero));
  return Values(branch.getResults());
}

Value RecurrenceKernel::emitMark(Value batch, Value position) {
  Value marked = arith::ConstantIntOp::create(b, b.getI1Type(), 0);
  if (op.getResets()) {
    auto type = cast<RankedTensorType>(op.getBits().getType());
    Value at = domain.getScheduled()
                   ? arith::RemUIOp::create(b, position, e.index(getExtent(op.getBits())))
                   : position;
    SmallVector<Value> place = {batch, at};
    if (type.getRank() == 3) {
      place = {e.add(e.mul(batch, getExtent(op.getBits())), at), e.index(0)};
    }
    Value number = memref::LoadOp::create(b, bits, place);
    if (type.getElementType().isF32()) {
      Value half = arith::ConstantOp::create(b, b.getF32FloatAttr(0.5));
      marked = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, number, half);
    } else {
      marked = e.less(e.integer(0), number);
    }
  }
  if (auto every = static_cast<int64_t>(op.getResetEvery()); every > 0) {
    int64_t ahead = llvm::mod(-static_cast<int64_t>(op.getResetAt()), every);
    Value rest = arith::RemUIOp::create(b, e.add(position, ahead), e.index(every));
    Value isPlace = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, rest, e.index(0));
    marked = arith::OrIOp::create(b, marked, isPlace);
  }
  return marked;
}

/// Finds a row of this launch. Its positions are within the buffers if it is not valid.
RecurrenceKernel::TextRow RecurrenceKernel::findRow(Value number, Value place) {
  TextRow row;
  row.valid = e.less(number, e.index(rowCount));
  number = e.min(number, e.index(rowCount - 1));
  row.batch = arith::DivUIOp::create(b, number, e.index(grid.chunks));
  if (domain.getScheduled()) {
    RowSchedule run = frame.run(row.batch);
    row.position = e.add(run.start, place);
    row.valid = e.both(row.valid, e.less(place, run.count));
    row.length = e.add(run.start, run.count);
  } else {
    int64_t factor = domain.getFactor();
    row.length = frame.validLength(factor, domain.getPositions(), row.batch);
    Value first = e.index(op.getReversed() ? domain.getPositions() - 1 : 0);
    if (grid.every > 0) {
      Value chunk = arith::RemUIOp::create(b, number, e.index(grid.chunks));
      first = e.add(e.mul(chunk, grid.every), grid.first);
    }
    row.position = op.getReversed() ? e.sub(first, place) : e.add(first, place);
    Value exists = e.both(e.atLeast(row.position, e.index(0)), e.less(row.position, row.length));
    row.valid = e.both(row.valid, exists);
    row.position = e.max(e.min(row.position, e.index(domain.getPositions() - 1)), e.index(0));
    row.valid = factor > 0 ? e.both(row.valid, e.less(row.batch, frame.rows)) : row.valid;
  }
  Value previous = e.add(row.position, op.getReversed() ? 1 : -1);
  Value exists = op.getReversed() ? e.less(previous, row.length) : e.less(e.index(0), row.position);
  row.previous = e.select(exists, previous, row.position);
  Value cut = emitMark(row.batch, op.getAdjoint() ? row.previous : row.position);
  Value isOff = arith::ConstantIntOp::create(b, b.getI1Type(), 1);
  row.linked = e.both(exists, arith::XOrIOp::create(b, cut, isOff));
  row.marked = op.getAdjoint() ? emitMark(row.batch, row.position) : cut;
  return row;
}

/// Computes the products of the column's rows of the weight with the previous rows, by text and
/// group; zeros without a previous row.
Values RecurrenceKernel::multiply(ArrayRef<TextRow> rows) {
  Values lines, linked;
  for (const TextRow &row : rows) {
    linked.push_back(e.both(row.valid, row.linked));
    lines.push_back(getRow(op.getOutputs().front(), row.batch, row.previous));
  }
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Values sums(rows.size() * groups, zero);
  Value within = e.min(column, e.index(columns - 1));
  if (byLane) {
    return e.loop(e.index(0), e.index(inner), 1, sums, [&](Value k, ValueRange so) {
      Values next(so), weights;
      for (int64_t group = 0; group < groups; ++group) {
        weights.push_back(
            loadElements(frame, weight, k, e.add(within, group * columns), 1).front());
      }
      for (auto [i, line] : llvm::enumerate(lines)) {
        Value left = loadIf(linked[i], 1, [&] {
                       return Values{e.loadScalar(results.front(), {line, k})};
                     }).front();
        for (int64_t group = 0; group < groups; ++group) {
          Value &sum = next[i * groups + group];
          sum = e.fma(left, weights[group], sum);
        }
      }
      return next;
    });
  }
  int64_t vector = getVectorElements(b.getF32Type(), {inner});
  sums = e.loop(e.mul(frame.lane, vector), e.index(inner), vector * threadsPerWarp, sums,
                [&](Value k, ValueRange so) {
                  Values next(so);
                  SmallVector<Values> weights;
                  for (int64_t group = 0; group < groups; ++group) {
                    weights.push_back(
                        loadElements(frame, weight, e.add(within, group * columns), k, vector));
                  }
                  for (auto [i, line] : llvm::enumerate(lines)) {
                    Values lefts = loadIf(linked[i], vector, [&] {
                      return loadElements(frame, results.front(), line, k, vector);
                    });
                    for (int64_t group = 0; group < groups; ++group) {
                      Value &sum = next[i * groups + group];
                      for (int64_t v = 0; v < vector; ++v) {
                        sum = e.fma(lefts[v], weights[group][v], sum);
                      }
                    }
                  }
                  return next;
                });
  for (Value &sum : sums) {
    sum = sumOfLanes(frame, sum, threadsPerWarp);
  }
  return sums;
}

/// Runs the body for this thread's column of one row, and stores the results.
void RecurrenceKernel::emitCell(const TextRow &row, ValueRange products) {
  Block &body = op.getBody().front();
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  IRMapping mapping;
  unsigned next = 0;
  auto add = [&](llvm::function_ref<Value()> load) { // loads only numbers that the body reads
    BlockArgument argument = body.getArgument(next++);
    mapping.map(argument, argument.use_empty() ? zero : load());
  };
  auto addRow = [&](Value tensor, Value memory, Value at, Value exists) {
    Value line = getRow(tensor, row.batch, at);
    for (int64_t group = 0; group < op.countGroups(tensor); ++group) {
      add([&] {
        auto load = [&] {
          return loadElements(frame, memory, line, e.add(column, group * columns), 1);
        };
        return exists ? loadIf(exists, 1, load).front() : load().front();
      });
    }
  };
  for (Value product : products) {
    add([&] { return product; });
  }
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    int64_t by = op.getOffset(i);
    if (by == 0) {
      addRow(input, inputs[i], row.position, Value());
      continue;
    }
    Value at = e.add(row.position, by);
    Value exists = e.both(e.atLeast(at, e.index(0)), e.less(at, row.length));
    Value isOff = arith::ConstantIntOp::create(b, b.getI1Type(), 1);
    exists = e.both(exists, arith::XOrIOp::create(b, row.marked, isOff));
    addRow(input, inputs[i], e.select(exists, at, row.position), exists);
  }
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    if (i < op.getCarried()) {
      addRow(result, results[i], row.previous, row.linked);
    }
  }
  for (Operation &source : body.without_terminator()) {
    b.clone(source, mapping);
  }
  auto yielded = body.getTerminator()->getOperands().begin();
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    Value line = getRow(result, row.batch, row.position);
    for (int64_t group = 0; group < op.countGroups(result); ++group) {
      e.store(mapping.lookupOrDefault(*yielded++), results[i],
              {line, e.add(column, group * columns)});
    }
  }
}

FailureOr<Kernel> RecurrenceKernel::generate() {
  unsigned next = 0;
  if (op.getWeighted()) {
    weight = frame.buffer(next++);
  }
  for (size_t i = 0; i < op.getInputs().size(); ++i) {
    inputs.push_back(frame.buffer(next++));
  }
  bits = op.getResets() ? frame.buffer(next) : Value();
  for (size_t i = 0; i < op.getOutputs().size(); ++i) {
    results.push_back(frame.buffer(op->getNumOperands() + i));
  }
  Value place = loadPlace();
  Value inBlock = byLane ? e.add(e.mul(frame.warp, threadsPerWarp), frame.lane) : frame.warp;
  Value part = arith::DivUIOp::create(b, frame.block, e.index(columnBlocks));
  Value columnBlock = arith::RemUIOp::create(b, frame.block, e.index(columnBlocks));
  column = e.add(e.mul(columnBlock, blockColumns), inBlock);
  Value hasColumn = e.less(column, e.index(columns));
  e.loop(e.mul(part, texts), e.index(rowCount), texts * parts, [&](Value first) {
    SmallVector<TextRow> rows;
    for (int64_t i = 0; i < texts; ++i) {
      rows.push_back(findRow(e.add(first, i), place));
    }
    Values products = groups > 0 ? multiply(rows) : Values();
    for (auto [i, row] : llvm::enumerate(rows)) {
      Value isOwn = e.both(row.valid, hasColumn);
      if (!byLane) { // a lane for each text
        Value isLane = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, frame.lane, e.index(i));
        isOwn = e.both(isOwn, isLane);
      }
      e.when(isOwn, [&] { emitCell(row, ValueRange(products).slice(i * groups, groups)); });
    }
  });
  int64_t launches = grid.every > 0 ? grid.every : domain.getPositions();
  Value slot = rows::pointerTo(frame, rows::sharedMemory(frame, "arrived", 1, b.getI32Type()));
  isLastToArrive(frame, e.index(0), launches * blocks, slot);
  auto rows = static_cast<double>(domain.getLaunchRows());
  Kernel kernel = frame.kernel(blocks, groups > 0 ? "matmul" : "row",
                               2 * rows * double(inner) * double(groups * columns));
  kernel.stages.resize(launches, kernel.stages.front());
  kernel.counters = 1;
  return kernel;
}

FailureOr<Kernel> cuda::generateRecurrence(dispatch::RecurrenceOp op, ModuleOp module,
                                           StringRef name) {
  RecurrenceKernel kernel(op, module, name);
  return kernel.kernelFrame().finish(kernel.generate());
}
