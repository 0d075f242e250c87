// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences. With a weight, a launch computes one row of each text, as every row needs all
// columns of the previous one; launches of one kernel count their blocks, from which each knows its
// row. Where rows are cut off at every k-th place, a launch computes one row of each chunk of k
// rows, so that there are k launches. Where numbers cut rows off and bound the rows between them, a
// launch computes one place of all chunks: each warp finds the rows at that place by a ballot. A
// warp computes one column for a few rows at a time: it reads the weight's rows with consecutive
// lanes at consecutive columns, and reduces over its lanes. Of a weight by input, a lane has a
// column of its own, and the warps of a block sum parts of the products, which they add up in
// shared memory. Without a weight a thread computes one column of all rows of a text or chunk, in
// one launch.
#include "Recurrence.h"
#include "../../Common/RecurrenceRows.h"
#include "../Frame/Arrival.h"
#include "../Frame/Lanes.h"
#include "../Rows/Rows.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t mostSums = 16, mostTexts = 8; ///< in registers of a thread; rows of its sums
constexpr int64_t mostParts = 64;               ///< blocks of different rows, by columns
constexpr int64_t warps = threadsPerBlock / threadsPerWarp;

/// The chunks of rows between places that are cut off; one chunk without such places. With a bound
/// on rows between numbers, each row is a chunk, and a launch skips the rows at other places.
struct ChunkGrid {
  explicit ChunkGrid(dispatch::RecurrenceOp op) {
    int64_t positions = op.getDomain().getPositions(), k = op.getResetEvery();
    auto within = static_cast<int64_t>(op.getResetWithin());
    isListed = k == 0 && within > 0 && within < positions && op.getWeighted() &&
               !op.getDomain().getScheduled();
    chunks = isListed ? positions : 1;
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
  bool isListed = false;
};

class RecurrenceKernel {
public:
  RecurrenceKernel(dispatch::RecurrenceOp op, ModuleOp module, StringRef name)
      : op(op), domain(op.getDomain()), frame(op, domain, module, name), b(frame.b), e(frame.e),
        rows(op, e, [&](unsigned i) { return frame.buffer(i); }),
        columns(static_cast<int64_t>(op.getColumns())), groups(op.countProductGroups()),
        inner(op.countInnerColumns()), grid(op), rowCount(domain.getBatch() * grid.chunks),
        texts(std::min({rowCount, mostTexts, mostSums / std::max<int64_t>(groups, 1)})),
        byLane(op.getByInput()), blockColumns(byLane ? threadsPerWarp : warps),
        columnBlocks(llvm::divideCeil(columns, blockColumns)),
        parts(std::clamp<int64_t>(rowCount / rowsOfBlock(), 1, mostParts)),
        blocks(groups > 0 ? columnBlocks * parts
                          : llvm::divideCeil(rowCount * columns, threadsPerBlock)) {}

  FailureOr<Kernel> generate();
  Frame &kernelFrame() { return frame; }

private:
  /// A row of one text.
  struct TextRow {
    Value batch, position, previous, length; ///< index
    Value valid, linked, marked;             ///< i1
  };

  /// Rows that a block must have before other blocks share them.
  int64_t rowsOfBlock() const { return byLane && !grid.isListed ? texts : 64; }
  Value loadPlace();
  Values loadIf(Value condition, int64_t count, llvm::function_ref<Values()> load);
  Value isAtPlace(const TextRow &row, Value place);
  TextRow findRow(Value batch, Value place);
  Values multiply(ArrayRef<TextRow> tile);
  SmallVector<Values> loadPrevious(ArrayRef<Value> lines, ArrayRef<Value> linked, Value k,
                                   int64_t vector);
  Values multiplyByLane(ArrayRef<Value> lines, ArrayRef<Value> linked);
  Value addParts(int64_t sum);
  void emitTile(ArrayRef<TextRow> tile);
  void emitPlace(Value place);
  void emitListed(Value first, Value place);
  void emitColumns(int64_t places);
  void emitCell(const TextRow &row, ValueRange products);

  dispatch::RecurrenceOp op;
  dispatch::DomainAttr domain;
  Frame frame;
  ImplicitLocOpBuilder &b;
  Emitter &e;
  RecurrenceRows rows;
  const int64_t columns, groups, inner;
  const ChunkGrid grid;
  const int64_t rowCount; ///< of a launch
  const int64_t texts;
  const bool byLane; ///< each lane has a column of its own
  const int64_t blockColumns, columnBlocks, parts, blocks;

  Value column;      ///< of the warp, or of the thread
  Value partsOfSums; ///< shared memory: sums of each warp, by warp, sum and lane
};

} // namespace

/// Returns the number of launches before this one: every block counts itself at its end, so fewer
/// than `blocks` of this launch have when a block starts.
Value RecurrenceKernel::loadPlace() {
  Value arrived = LLVM::LoadOp::create(
      b, b.getI32Type(), frame.counter(e.index(0)), Kernel::counterBytes, /*isVolatile=*/false,
      /*isNonTemporal=*/false, /*isInvariant=*/false,
      /*isInvariantGroup=*/false, LLVM::AtomicOrdering::monotonic, "device");
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
    if (grid.isListed) {
      row.position = arith::RemUIOp::create(b, number, e.index(grid.chunks));
    }
    Value exists = e.both(e.atLeast(row.position, e.index(0)), e.less(row.position, row.length));
    row.valid = e.both(row.valid, exists);
    row.position = e.max(e.min(row.position, e.index(domain.getPositions() - 1)), e.index(0));
    row.valid = factor > 0 ? e.both(row.valid, e.less(row.batch, frame.rows)) : row.valid;
    if (op.getResets()) { // an invalid row has no number: reads the first row's
      row.batch = e.select(row.valid, row.batch, e.index(0));
      row.position = e.select(row.valid, row.position, e.index(0));
      row.length = e.select(row.valid, row.length, e.index(1));
    }
  }
  RecurrenceRows::Link link = rows.link(row.batch, row.position, row.length);
  row.previous = link.previous;
  row.linked = link.linked;
  row.marked = op.getAdjoint() ? rows.emitMark(row.batch, row.position) : link.cut;
  return row;
}

/// Loads columns [k, k + vector) of each previous row, zeros without one. All loads come before
/// their uses, as nothing moves a load over the branch of another one.
SmallVector<Values> RecurrenceKernel::loadPrevious(ArrayRef<Value> lines, ArrayRef<Value> linked,
                                                   Value k, int64_t vector) {
  SmallVector<Values> lefts;
  for (auto [line, isLinked] : llvm::zip_equal(lines, linked)) {
    lefts.push_back(loadIf(isLinked, vector, [&, line = line] {
      return loadElements(frame, rows.results.front(), line, k, vector);
    }));
  }
  return lefts;
}

/// Sums this warp's part of the products with a weight by input, by text and group. A lane has a
/// column; the warps take vectors of the weight's rows in turns.
Values RecurrenceKernel::multiplyByLane(ArrayRef<Value> lines, ArrayRef<Value> linked) {
  int64_t vector = getVectorElements(b.getF32Type(), {inner});
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Value within = e.min(column, e.index(columns - 1));
  return e.loop(e.mul(frame.warp, vector), e.index(inner), vector * warps,
                Values(lines.size() * groups, zero), [&](Value k, ValueRange so) {
                  Values next(so), weights;
                  for (int64_t v = 0; v < vector; ++v) {
                    for (int64_t group = 0; group < groups; ++group) {
                      weights.push_back(loadElements(frame, rows.weight, e.add(k, v),
                                                     e.add(within, group * columns), 1)
                                            .front());
                    }
                  }
                  SmallVector<Values> lefts = loadPrevious(lines, linked, k, vector);
                  for (size_t i = 0; i < lines.size(); ++i) {
                    for (int64_t v = 0; v < vector; ++v) {
                      for (int64_t group = 0; group < groups; ++group) {
                        Value &sum = next[i * groups + group];
                        sum = e.fma(lefts[i][v], weights[v * groups + group], sum);
                      }
                    }
                  }
                  return next;
                });
}

/// Returns a sum of this lane's column over the parts of all warps.
Value RecurrenceKernel::addParts(int64_t sum) {
  Value total;
  for (int64_t warp = 0; warp < warps; ++warp) {
    Value at = e.add(frame.lane, (warp * texts * groups + sum) * threadsPerWarp);
    Value part = memref::LoadOp::create(b, partsOfSums, ValueRange{at});
    total = total ? Value(arith::AddFOp::create(b, total, part)) : part;
  }
  return total;
}

/// Computes the products of the column's rows of the weight with the previous rows, by text and
/// group; zeros without a previous row. With a column per lane, the sums are parts of them.
Values RecurrenceKernel::multiply(ArrayRef<TextRow> tile) {
  Values lines, linked;
  for (const TextRow &row : tile) {
    linked.push_back(e.both(row.valid, row.linked));
    lines.push_back(rows.getRow(op.getOutputs().front(), row.batch, row.previous));
  }
  if (byLane) {
    return multiplyByLane(lines, linked);
  }
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Values sums(tile.size() * groups, zero);
  Value within = e.min(column, e.index(columns - 1));
  int64_t vector = getVectorElements(b.getF32Type(), {inner});
  sums = e.loop(e.mul(frame.lane, vector), e.index(inner), vector * threadsPerWarp, sums,
                [&](Value k, ValueRange so) {
                  Values next(so);
                  SmallVector<Values> weights;
                  for (int64_t group = 0; group < groups; ++group) {
                    weights.push_back(loadElements(frame, rows.weight,
                                                   e.add(within, group * columns), k, vector));
                  }
                  SmallVector<Values> lefts = loadPrevious(lines, linked, k, vector);
                  for (size_t i = 0; i < lines.size(); ++i) {
                    for (int64_t group = 0; group < groups; ++group) {
                      Value &sum = next[i * groups + group];
                      for (int64_t v = 0; v < vector; ++v) {
                        sum = e.fma(lefts[i][v], weights[group][v], sum);
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
    Value line = rows.getRow(tensor, row.batch, at);
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
      addRow(input, rows.inputs[i], row.position, Value());
      continue;
    }
    Value at = e.add(row.position, by);
    Value exists = e.both(e.atLeast(at, e.index(0)), e.less(at, row.length));
    Value isOff = arith::ConstantIntOp::create(b, b.getI1Type(), 1);
    exists = e.both(exists, arith::XOrIOp::create(b, row.marked, isOff));
    addRow(input, rows.inputs[i], e.select(exists, at, row.position), exists);
  }
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    if (i < op.getCarried()) {
      addRow(result, rows.results[i], row.previous, row.linked);
    }
  }
  for (Operation &source : body.without_terminator()) {
    b.clone(source, mapping);
  }
  auto yielded = body.getTerminator()->getOperands().begin();
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    Value line = rows.getRow(result, row.batch, row.position);
    for (int64_t group = 0; group < op.countGroups(result); ++group) {
      e.store(mapping.lookupOrDefault(*yielded++), rows.results[i],
              {line, e.add(column, group * columns)});
    }
  }
}

/// Computes this column of rows of a launch. All warps of a block have the same rows.
void RecurrenceKernel::emitTile(ArrayRef<TextRow> tile) {
  Value hasColumn = e.less(column, e.index(columns));
  Values products = multiply(tile);
  if (byLane) {
    for (auto [i, part] : llvm::enumerate(products)) {
      Value at = e.mul(frame.warp, texts * groups * threadsPerWarp);
      at = e.add(e.add(at, frame.lane), static_cast<int64_t>(i) * threadsPerWarp);
      memref::StoreOp::create(b, part, partsOfSums, ValueRange{at});
    }
    NVVM::BarrierOp::create(b);
  }
  // A row's cell is computed by a lane, or with a column per lane by a warp.
  Value own = byLane ? frame.warp : frame.lane;
  for (auto [i, row] : llvm::enumerate(tile)) {
    int64_t turn = static_cast<int64_t>(i) % (byLane ? warps : threadsPerWarp);
    Value isTurn = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, own, e.index(turn));
    e.when(e.both(e.both(row.valid, hasColumn), isTurn), [&] {
      Values sums;
      for (int64_t group = 0; group < groups; ++group) {
        int64_t sum = static_cast<int64_t>(i) * groups + group;
        sums.push_back(byLane ? addParts(sum) : products[sum]);
      }
      emitCell(row, sums);
    });
  }
  if (byLane) {
    NVVM::BarrierOp::create(b); // the next rows' sums overwrite these
  }
}

/// Returns i1: true if a valid row is the row `place` of its chunk.
Value RecurrenceKernel::isAtPlace(const TextRow &row, Value place) {
  Value on = arith::ConstantIntOp::create(b, b.getI1Type(), 1);
  Values found = e.loop(e.index(0), place, 1, {row.position, on}, [&](Value, ValueRange so) {
    RecurrenceRows::Link link = rows.link(row.batch, so[0], row.length);
    return Values{link.previous, e.both(so[1], link.linked)};
  });
  Value isLinked = rows.link(row.batch, found[0], row.length).linked;
  Value begins = arith::XOrIOp::create(b, isLinked, on);
  return e.both(row.valid, e.both(found[1], begins));
}

/// Computes the rows at a place among a warp's number of rows from `first`, a tile at a time.
void RecurrenceKernel::emitListed(Value first, Value place) {
  TextRow own = findRow(e.add(first, frame.lane), place);
  Value votes = NVVM::VoteSyncOp::create(b, b.getI32Type(), e.integer(-1), isAtPlace(own, place),
                                         NVVM::VoteSyncKind::ballot);
  Value count = arith::IndexCastOp::create(b, b.getIndexType(), math::CtPopOp::create(b, votes));
  e.loop(e.index(0), count, texts, votes, [&](Value, ValueRange so) {
    Value left = so.front();
    SmallVector<TextRow> tile;
    for (int64_t i = 0; i < texts; ++i) {
      Value isOne = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, left, e.integer(0));
      Value others = arith::AndIOp::create(b, left, e.sub(left, e.integer(1)));
      Value below = e.sub(arith::XOrIOp::create(b, left, others), e.integer(1));
      Value lane = arith::IndexCastOp::create(b, b.getIndexType(), math::CtPopOp::create(b, below));
      tile.push_back(findRow(e.add(first, lane), place));
      tile.back().valid = e.both(tile.back().valid, isOne);
      left = others;
    }
    emitTile(tile);
    return Values{left};
  });
}

/// Computes the rows of one place.
void RecurrenceKernel::emitPlace(Value place) {
  Value inBlock = byLane ? frame.lane : frame.warp;
  Value part = arith::DivUIOp::create(b, frame.block, e.index(columnBlocks));
  Value columnBlock = arith::RemUIOp::create(b, frame.block, e.index(columnBlocks));
  column = e.add(e.mul(columnBlock, blockColumns), inBlock);
  int64_t step = grid.isListed ? threadsPerWarp : texts;
  e.loop(e.mul(part, step), e.index(rowCount), step * parts, [&](Value first) {
    if (grid.isListed) {
      emitListed(first, place);
      return;
    }
    SmallVector<TextRow> tile;
    for (int64_t i = 0; i < texts; ++i) {
      tile.push_back(findRow(e.add(first, i), place));
    }
    emitTile(tile);
  });
}

/// Computes this thread's column of all rows of a text or chunk, without products.
void RecurrenceKernel::emitColumns(int64_t places) {
  Value inBlock = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  Value number = e.add(e.mul(frame.block, threadsPerBlock), inBlock);
  column = arith::RemUIOp::create(b, number, e.index(columns));
  number = arith::DivUIOp::create(b, number, e.index(columns));
  e.loop(e.index(0), e.index(places), 1, [&](Value place) {
    TextRow row = findRow(number, place);
    e.when(row.valid, [&] { emitCell(row, ValueRange()); });
  });
}

FailureOr<Kernel> RecurrenceKernel::generate() {
  int64_t places = grid.every > 0  ? grid.every
                   : grid.isListed ? rows.countPlaces()
                                   : domain.getPositions();
  int64_t launches = groups > 0 ? places : 1;
  if (groups > 0) {
    if (byLane) {
      partsOfSums = rows::sharedMemory(frame, "sums", warps * texts * groups * threadsPerWarp,
                                       b.getF32Type());
    }
    emitPlace(loadPlace());
    Value slot = rows::pointerTo(frame, rows::sharedMemory(frame, "arrived", 1, b.getI32Type()));
    isLastToArrive(frame, e.index(0), launches * blocks, slot);
  } else {
    emitColumns(places);
  }
  auto launchRows = static_cast<double>(domain.getLaunchRows());
  Kernel kernel = frame.kernel(blocks, groups > 0 ? "matmul" : "row",
                               2 * launchRows * double(inner) * double(groups * columns));
  kernel.stages.resize(launches, kernel.stages.front());
  kernel.counters = groups > 0 ? 1 : 0;
  return kernel;
}

FailureOr<Kernel> cuda::generateRecurrence(dispatch::RecurrenceOp op, ModuleOp module,
                                           StringRef name) {
  RecurrenceKernel kernel(op, module, name);
  return kernel.kernelFrame().finish(kernel.generate());
}
