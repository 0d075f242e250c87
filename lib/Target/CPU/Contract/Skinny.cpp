// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Few rows times a weight matrix: bound by reading the weights. Rows of W [out, in] are contiguous,
// so an output is a dot product along the input. An item is a block of output columns, for all due
// rows. It reads W in a few concurrent streams, each over a run of consecutive rows. A stream is
// sequential for kilobytes, which the hardware prefetcher recognizes. Adjacent rows of W instead
// would be streams that end after each row.
//
// A weight of whole numbers is multiplied as it is stored (Whole.h).
#include "../../Common/RowBody.h"
#include "../../Common/Storage.h"
#include "Contract.h"
#include "Epilogue.h"
#include "Tile.h"
#include "Whole.h"
#include "sluice/Target/Common/Emitter.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

constexpr int64_t streams = 4; ///< concurrent runs of rows of W

/// Steps of a sum of products of i8 and i16 in a lane of i32, which does not overflow: a step adds
/// two products of at most 127 * 32767.
constexpr int64_t wholeSteps = 256;

/// Division of rows and columns.
struct Cut {
  int64_t rows; ///< maximum rows at a time, a power of two: their sums stay in registers
  int64_t run;  ///< rows of W per stream and item, for one row
  int64_t items;

  Cut(const Target &target, int64_t launchRows, int64_t width);
  /// Returns the maximum number of rows of W whose sums for `rows` rows fit in registers.
  int64_t columnsFor(int64_t rows) const;
  /// Output columns per item, a multiple of the lanes.
  int64_t itemColumns() const { return streams * run; }

private:
  const Target &target;
};

int64_t Cut::columnsFor(int64_t rows) const {
  // A weight is loaded for `rows` rows and an input for `columns` columns: 7 loads for 12
  // multiply-adds with 16 registers, where a cycle has two loads and two multiply-adds. The
  // remaining registers hold one weight per column and an input.
  int64_t columns = std::min(streams, (target.registers - streams) / rows);
  // Fills one vector of sums at once, if loads and prefetches are still fewer than multiply-adds.
  int64_t whole = target.lanes / rows;
  bool isBetter = whole >= 2 && whole < columns && rows + 2 * whole < target.lanes;
  return isBetter ? whole : columns;
}

Cut::Cut(const Target &target, int64_t launchRows, int64_t width)
    : rows(std::min<int64_t>(llvm::PowerOf2Ceil(launchRows), target.registers / 4)),
      target(target) {
  // Long runs, but enough items for threads to balance.
  constexpr int64_t longRun = 16, leastItems = 8;
  run = std::max<int64_t>(1, width / (leastItems * streams));
  run = std::min<int64_t>(longRun, llvm::bit_floor(uint64_t(run)));
  run = std::max(run, target.lanes / streams);
  items = llvm::divideCeil(width, itemColumns());
}

class SkinnyGenerator {
public:
  SkinnyGenerator(dispatch::ContractOp op, ModuleOp module, StringRef name, const Target &target)
      : op(op), domain(op.getDomain()), frame(op, module, name, target),
        e(frame.builder(), target.lanes), epilogue(makeEpilogue(op, frame)), inner(op.getInner()),
        width(op.getColumns()), cut(target, domain.getLaunchRows(), width) {
    if (getRowType(op.getWeight()).getElementType().isInteger(8)) {
      whole.emplace(op, e);
    }
  }

  FailureOr<Kernel> generate();

private:
  static RankedTensorType getRowType(Value value) {
    return cast<RankedTensorType>(value.getType());
  }
  static int64_t getExtent(Value value) { return getRowType(value).getDimSize(1); }
  int64_t getWeightBits() {
    return op.getGrouped() ? 4 : getRowType(op.getWeight()).getElementTypeBitWidth();
  }
  Value listDue();
  void emitItem(Value due);
  void emitFor(Value due, int64_t rows);
  void emitColumns(Value due, int64_t rows, int64_t columns);
  /// Returns true if the sums of this many rows and columns form a whole tile, one vector of sums.
  bool isTile(int64_t rows, int64_t columns) const {
    return rows > 2 && columns == cut.columnsFor(rows) && rows * columns == e.lanes;
  }
  void turnSums(Value due, int64_t rows, int64_t columns);
  /// `count` output columns, each `apart` after the previous one.
  struct SkinnyColumns {
    Value first;
    int64_t count, apart;
  };
  void emitGroup(Value first, Value due, int64_t rows, const SkinnyColumns &columns);
  void emitSums(Value first, int64_t count, const SkinnyColumns &columns);
  Values emitDots(ArrayRef<Value> rows, ArrayRef<Value> outputs, ArrayRef<Value> later);
  Values sumProducts(ArrayRef<Value> rows, ArrayRef<Value> outputs, ArrayRef<Value> later,
                     int64_t begin, int64_t end);
  Values laterRows(const SkinnyColumns &columns);
  void prefetchWeights(ArrayRef<Value> later, Value k);
  Values stepDots(ArrayRef<Value> rows, ArrayRef<Value> outputs, Value k, int64_t valid,
                  ValueRange dots);
  void emitEpilogue(Value slot, Value column);
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

  Value input, weight;
  SmallVector<Value> extras, results;
  Value batches, positions, inputRows; ///< due rows, in order
  Value sums;                          ///< [due rows][columns of the item]
  Value tiles;   ///< [first due row][step] sums of a tile of `lanes`, by column and row
  Value begin;   ///< first column of the item
  Value lastDue; ///< slot of the last due row
  std::optional<WholeProducts> whole; ///< for a weight of whole numbers
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
  int64_t slots = llvm::divideCeil(launchRows, cut.rows) * cut.rows;
  for (Value *list : {&batches, &positions, &inputRows}) {
    *list = frame.scratch(MemRefType::get({slots}, i64));
  }
  sums = frame.scratch(MemRefType::get({slots, cut.itemColumns()}, f32));
  if (int64_t columns = cut.columnsFor(cut.rows); isTile(cut.rows, columns)) {
    // Fewer rows use at least as many columns.
    int64_t run = cut.itemColumns() / columns;
    tiles = frame.scratch(MemRefType::get({slots / cut.rows, run, e.lanes}, f32));
  }

  if (whole) {
    whole->allocate(frame, slots);
  }
  begin = e.mul(frame.item(), cut.itemColumns());
  emitItem(listDue());
  frame.finish();
  if (failed_) {
    return failure();
  }
  Kernel kernel{frame.function(), cut.items, frame.scratchBytes(), "matmul"};
  kernel.flops = 2.0 * double(launchRows) * double(inner) * double(width);
  auto bytesEach = [](Type type) {
    return cast<RankedTensorType>(type).getElementTypeBitWidth() / 8;
  };
  kernel.bytes =
      double(getRowType(op.getWeight()).getNumElements()) * bytesEach(op.getWeight().getType()) +
      double(inner) * double(launchRows) * bytesEach(op.getInput().getType());
  for (Type type : llvm::concat<const Type>(llvm::to_vector(op.getExtras().getTypes()),
                                            llvm::to_vector(op->getResultTypes()))) {
    auto shaped = cast<RankedTensorType>(type);
    double elements =
        shaped.getRank() == 3 ? double(launchRows * width) : double(shaped.getNumElements());
    kernel.bytes += elements * bytesEach(type);
  }
  return kernel;
}

/// Lists batch row, position and input row of every due row, and returns their number. If fewer are
/// due than are processed together, the input of the last one is repeated.
Value SkinnyGenerator::listDue() {
  Value none = e.index(0);
  auto outer = [&](Value batch, ValueRange before) {
    Frame::RowSchedule run = frame.run(batch);
    return e.loop(e.index(0), run.count, 1, before, [&](Value j, ValueRange listed) {
      auto number = [&](Value value) {
        return arith::IndexCastOp::create(e.b, e.b.getI64Type(), value);
      };
      Value position = e.add(run.start, j);
      e.store(number(batch), batches, listed);
      e.store(number(position), positions, listed);
      e.store(number(ringRow(e.b, getExtent(op.getInput()), batch, position)), inputRows, listed);
      return Values{e.add(listed.front(), 1)};
    });
  };
  Value due = e.loop(e.index(0), e.index(domain.getBatch()), 1, none, outer).front();
  e.loop(due, e.roundUp(due, cut.rows), 1,
         [&](Value slot) { e.store(e.loadScalar(inputRows, {e.add(due, -1)}), inputRows, slot); });
  return due;
}

void SkinnyGenerator::emitItem(Value due) {
  if (whole) {
    lastDue = e.add(due, -1);
    e.loop(e.index(0), due, 1, [&](Value slot) { whole->roundRow(listed(inputRows, slot), slot); });
  }
  emitFor(due, 1);
  Value end = e.min(e.add(begin, cut.itemColumns()), e.index(width));
  e.loop(begin, end, e.lanes, [&](Value column) {
    e.loop(e.index(0), due, 1, [&](Value slot) { emitEpilogue(slot, column); });
  });
}

/// Emits the item's columns with the smallest tile of at least `rows` rows that holds all due rows.
void SkinnyGenerator::emitFor(Value due, int64_t rows) {
  auto these = [&] { emitColumns(due, rows, cut.columnsFor(rows)); };
  if (rows == cut.rows) {
    these();
  } else {
    e.when(e.less(due, e.index(rows + 1)), these, [&] { emitFor(due, 2 * rows); });
  }
}

/// Emits the item's columns in `columns` streams. All streams advance by one row of W at a time,
/// for all due rows, `rows` of them at once; so W comes from L1 for all groups but the first.
/// Columns outside every stream come last.
void SkinnyGenerator::emitColumns(Value due, int64_t rows, int64_t columns) {
  int64_t run = cut.itemColumns() / columns, rest = cut.itemColumns() % columns;
  auto eachGroup = [&](const SkinnyColumns &of) {
    e.loop(e.index(0), due, rows, [&](Value first) {
      if (rows < cut.rows) { // either all rows are due, or none
        emitSums(first, rows, of);
      } else {
        emitGroup(first, due, rows, of);
      }
    });
  };
  e.loop(e.index(0), e.index(run), 1,
         [&](Value step) { eachGroup({e.add(begin, step), columns, run}); });
  if (rest > 0) {
    eachGroup({e.add(begin, columns * run), rest, 1});
  }
  if (isTile(rows, columns)) {
    turnSums(due, rows, columns);
  }
}

/// Computes sums of `rows` due rows from `first`, or of half of them, or of one, if no more are
/// due.
void SkinnyGenerator::emitGroup(Value first, Value due, int64_t rows,
                                const SkinnyColumns &columns) {
  auto these = [&] { emitSums(first, rows, columns); };
  if (rows == 1) {
    return these();
  }
  int64_t fewer = rows == cut.rows && rows > 2 ? rows / 2 : 1;
  Value isFew = e.less(e.sub(due, first), e.index(fewer + 1));
  e.when(isFew, [&] { emitGroup(first, due, fewer, columns); }, these);
}

/// Transposes tiles of sums to rows, `lanes` steps at a time.
void SkinnyGenerator::turnSums(Value due, int64_t rows, int64_t columns) {
  int64_t run = cut.itemColumns() / columns;
  e.loop(e.index(0), e.sub(due, e.index(rows / 2)), rows, [&](Value first) { // fewer rows form no
                                                                             // tile
    Value group = e.floorDiv(first, rows);
    for (int64_t start = 0; start < run; start += e.lanes) {
      for (int64_t sum = 0; sum < e.lanes; sum += 4) {
        auto place = [&](int64_t i) {
          return Values{group, e.index(std::min(start + i, run - 1)), e.index(sum)};
        };
        for (auto [at, row] : llvm::enumerate(loadTransposed(e.b, e.lanes, tiles, place))) {
          int64_t i = sum + int64_t(at);
          e.store(row, sums, {e.add(first, i % rows), e.index(i / rows * run + start)},
                  run - start);
        }
      }
    }
  });
}

/// Computes sums of due rows [first, first + count).
void SkinnyGenerator::emitSums(Value first, int64_t count, const SkinnyColumns &columns) {
  Values rows, outputs;
  for (int64_t i = 0; i < count; ++i) {
    Value slot = e.add(first, i);
    rows.push_back(whole ? e.min(slot, lastDue) : listed(inputRows, slot));
  }
  for (int64_t j = 0; j < columns.count; ++j) {
    Value output = e.add(columns.first, j * columns.apart);
    bool exists = width % cut.itemColumns() == 0;
    outputs.push_back(exists ? output : e.min(output, e.index(width - 1)));
  }
  bool tile = isTile(count, columns.count);
  Values dots = emitDots(rows, outputs, tile ? laterRows(columns) : Values());
  if (tile) {
    Value step = e.sub(columns.first, begin);
    e.store(e.sumEach(dots), tiles, {e.floorDiv(first, count), step, e.index(0)});
    return;
  }
  // Reduces a power of two of vectors at once.
  auto all = static_cast<int64_t>(dots.size());
  int64_t most = llvm::isPowerOf2_64(all) ? std::min(all, e.lanes) : count;
  for (int64_t at = 0; at < all; at += most) {
    Value each = e.sumEach(Values(ArrayRef(dots).slice(at, most)));
    for (int64_t i = at; i < at + most; ++i) {
      Value column = e.add(e.sub(columns.first, begin), i / count * columns.apart);
      e.store(vector::ExtractOp::create(e.b, each, i - at), sums,
              {e.add(first, i % count), column});
    }
  }
}

/// Computes one vector of partial sums per row and column, by column. The order of a sum depends on
/// neither number. Prefetches later rows of W meanwhile.
Values SkinnyGenerator::emitDots(ArrayRef<Value> rows, ArrayRef<Value> outputs,
                                 ArrayRef<Value> later) {
  if (!whole || op.getGrouped()) {
    return sumProducts(rows, outputs, later, 0, inner);
  }
  Values sums;
  int64_t part = wholeSteps * 2 * e.lanes;
  for (int64_t begin = 0; begin < inner; begin += part) {
    Values dots = sumProducts(rows, outputs, later, begin, std::min(begin + part, inner));
    for (auto [i, dot] : llvm::enumerate(dots)) {
      Value number = arith::SIToFPOp::create(e.b, e.floats, dot);
      begin == 0 ? sums.push_back(number) : void(sums[i] = e.addf(sums[i], number));
    }
  }
  return sums;
}

/// Computes the partial sums over the columns [begin, end) of the input.
Values SkinnyGenerator::sumProducts(ArrayRef<Value> rows, ArrayRef<Value> outputs,
                                    ArrayRef<Value> later, int64_t begin, int64_t end) {
  constexpr int64_t lineBytes = 64; // size of a cache line
  int64_t line = lineBytes * 8 / getWeightBits();
  int64_t each = whole ? whole->stepColumns : e.lanes; // columns per step
  int64_t unroll = std::max<int64_t>(1, line / each) * each;
  int64_t unrolled = begin + (end - begin) / unroll * unroll;
  auto step = [&](Value k, int64_t valid, ValueRange dots) {
    return whole ? whole->step(rows, outputs, k, valid, dots)
                 : stepDots(rows, outputs, k, valid, dots);
  };
  bool isInteger = whole && !op.getGrouped();
  Values dots(outputs.size() * rows.size(), isInteger ? e.splatInteger(0) : e.splat(0));
  dots = e.loop(e.index(begin), e.index(unrolled), unroll, dots, [&](Value k, ValueRange carried) {
    Values next(carried);
    prefetchWeights(later, k);
    for (int64_t i = 0; i < unroll; i += each) {
      next = step(e.add(k, i), each, next);
    }
    return next;
  });
  for (int64_t k = unrolled; k < end; k += each) {
    dots = step(e.index(k), end - k, dots);
  }
  return dots;
}

/// Returns one later row of W per stream, about 2 KB ahead of the row that is read: with several
/// rows, the multiply-adds leave too few loads in flight. After the end of a stream comes the same
/// stream of the next item, which mostly the same thread takes; otherwise each item would wait for
/// its first rows.
Values SkinnyGenerator::laterRows(const SkinnyColumns &columns) {
  constexpr int64_t bytesAhead = 2048;
  int64_t rowBytes = llvm::divideCeil(inner * getWeightBits(), 8);
  int64_t rowsAhead = std::min<int64_t>(columns.apart, llvm::divideCeil(bytesAhead, rowBytes));
  Value step = e.add(e.sub(columns.first, begin), rowsAhead);
  Value isNext = e.atLeast(step, e.index(columns.apart));
  Value toNext = e.index(cut.itemColumns() - columns.apart);
  Value first = e.add(e.add(begin, step), e.select(isNext, toNext, e.index(0)));
  Values later;
  for (int64_t j = 0; j < columns.count; ++j) {
    later.push_back(e.add(first, j * columns.apart));
  }
  return later;
}

/// Prefetches one line of each of the rows.
void SkinnyGenerator::prefetchWeights(ArrayRef<Value> later, Value k) {
  for (Value row : later) {
    Value line = whole ? whole->getWeightRow(row, k) : row;
    Value at = op.getGrouped() ? e.index(0) : k;
    memref::PrefetchOp::create(e.b, weight, ValueRange{line, at}, /*isWrite=*/false,
                               /*localityHint=*/3, /*isDataCache=*/true);
  }
}

/// Adds the products of `valid` elements from `k` to `dots`, which are ordered by column and row.
Values SkinnyGenerator::stepDots(ArrayRef<Value> rows, ArrayRef<Value> outputs, Value k,
                                 int64_t valid, ValueRange dots) {
  Values weights, next(dots);
  for (Value output : outputs) {
    weights.push_back(e.load(weight, {output, k}, valid));
  }
  for (auto [i, row] : llvm::enumerate(rows)) {
    Value factor = e.load(input, {row, k}, valid);
    for (auto [j, column] : llvm::enumerate(weights)) {
      Value &dot = next[j * rows.size() + i];
      dot = e.fma(factor, column, dot);
    }
  }
  return next;
}

/// Processes a vector of columns from `column`, of one row.
void SkinnyGenerator::emitEpilogue(Value slot, Value column) {
  Value mask =
      width % e.lanes == 0 ? Value() : emitColumnMask(e.b, e.lanes, column, e.index(width));
  Value batch = listed(batches, slot), position = listed(positions, slot);
  Value sum = e.load(sums, {slot, e.sub(column, begin)});
  if (whole) {
    sum = e.mulf(sum, whole->getScale(slot));
  }
  Values arguments{sum};
  for (auto [n, extra] : llvm::enumerate(op.getArgumentExtras())) {
    auto access = cast<dispatch::AccessAttr>(op.getAccesses()[n]);
    if (access.getKind() == dispatch::AccessKind::Vector) {
      arguments.push_back(loadVector(e.b, e.lanes, extras[n], column, mask));
    } else if (access.getKind() == dispatch::AccessKind::Scalar) {
      arguments.push_back(e.broadcast(e.loadScalar(extras[n], {e.index(0)})));
    } else {
      Value row = ringRow(e.b, getExtent(extra), batch, position);
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
        e.b, yielded->front(), extras[arguments.size() - 1], [&] { return position; }, column,
        *op.getRotatedColumns(), e.lanes);
  }
  for (auto [n, result] : llvm::enumerate(op.getOutputs())) {
    Value row = ringRow(e.b, getExtent(result), batch, position);
    e.store((*yielded)[n], results[n], {row, column});
  }
}

FailureOr<Kernel> cpu::generateSkinnyContract(dispatch::ContractOp op, ModuleOp module,
                                              StringRef name, const Target &target) {
  return SkinnyGenerator(op, module, name, target).generate();
}
