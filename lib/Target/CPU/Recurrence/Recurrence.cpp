// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences. A row that is cut off from its previous row begins a chunk, and a phase computes one
// *place* of all chunks: row 0 of each, then row 1. Without cuts a chunk is a text. An item is a
// block of columns, for all rows of the phase: it computes the products of its rows of the weight
// with the previous rows as dot products along the weight's rows, in tiles of rows by rows of the
// weight, and then the cell. A phase before the first place sorts the rows by place, and
// transposes a weight that is multiplied by input.
//
// A slice of the previous rows is copied side by side, a part of their columns at a time, because
// rows that are a power of two apart share a few lines of the L1 cache. A part is such that a
// tile's rows fit the L1 cache. Copies, sums and the item's rows of the weight fit the L2 cache, so
// memory streams the weight once per place.
#include "Recurrence.h"
#include "../../Common/RecurrenceRows.h"
#include "../../Common/Storage.h"
#include "../Contract/Tile.h"
#include "sluice/Target/CPU/Frame.h"
#include "sluice/Target/Common/Emitter.h"
#include "sluice/Target/Common/Epilogue.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

class RecurrenceGenerator {
public:
  RecurrenceGenerator(dispatch::RecurrenceOp op, ModuleOp module, StringRef name,
                      const Target &target)
      : op(op), domain(op.getDomain()), frame(op, module, name, target),
        e(frame.builder(), target.lanes), rows(op, e, [&](unsigned i) { return frame.buffer(i); }),
        columns(static_cast<int64_t>(op.getColumns())), groups(op.countProductGroups()),
        inner(op.countInnerColumns()), block(target.lanes * countVectors(target.lanes)),
        blocks(llvm::divideCeil(columns, block)),
        tileRows((target.registers - tileOutputs) / (tileOutputs + 1)),
        sliceRows(llvm::alignTo(128, tileRows)),
        partColumns(llvm::alignTo(
            llvm::divideCeil(inner, std::max<int64_t>(1, llvm::divideCeil(inner, mostPartColumns))),
            target.lanes)),
        sorts(!domain.getScheduled() && (op.getResets() || op.getResetEvery() > 0)),
        preparations(op.getByInput() || sorts ? 1 : 0) {}

  FailureOr<Kernel> generate();

private:
  /// Rows of the weight of a tile, of which an item has a multiple.
  static constexpr int64_t tileOutputs = 4;
  static constexpr int64_t mostPartColumns = 768;

  /// Lists of the rows of a slice, or of a phase.
  struct RowList {
    Value batch, position, length; ///< length: valid rows of the text
    Value previous;                ///< previous position; the row's own if it has none
    Value linked;                  ///< 1 if the row reads its previous row
    Value marked;                  ///< 1 if the row resets
    Value left;                    ///< row in memory that the weight multiplies
  };

  /// Returns the vectors of columns of an item. All columns share the copies of the previous rows,
  /// so few groups want several vectors, but at least 16 items a phase remain for the threads.
  int64_t countVectors(int64_t lanes) const {
    constexpr int64_t most = 4, items = 16;
    return groups == 0 ? most
                       : std::clamp<int64_t>(columns / (items * lanes), 1,
                                             std::max<int64_t>(1, most / groups));
  }
  Value toNumber(Value value) {
    Type i64 = e.b.getI64Type();
    return value.getType().isIndex() ? Value(arith::IndexCastOp::create(e.b, i64, value))
                                     : Value(arith::ExtUIOp::create(e.b, i64, value));
  }
  Value getNumber(Value list, Value slot) {
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), e.loadScalar(list, {slot}));
  }
  Value isSet(Value list, Value slot) { return e.less(e.index(0), getNumber(list, slot)); }
  void sortRows();
  void listRow(Value slot, Value batch, Value position, Value length);
  Value listTexts(Value place);
  void computePhase(Value place, Value first);
  void computeSlice(Value from, Value to, Value first);
  void transposeWeight(Value first);
  void emitProducts(Value from, Value to, Value first);
  void multiplyPart(Value from, Value to, Value first, Value k, int64_t count);
  void emitTile(Value slot, Value output, Value first, Value k, int64_t count);
  Value weightRow(Value output, Value first);
  void emitCell(Value slot, Value sumSlot, Value column, Value offset);

  dispatch::RecurrenceOp op;
  dispatch::DomainAttr domain;
  Frame frame;
  Emitter e;
  RecurrenceRows rows;
  const int64_t columns; ///< of a group
  const int64_t groups;  ///< of the product
  const int64_t inner;   ///< columns of a row that the weight multiplies
  const int64_t block;   ///< columns of an item
  const int64_t blocks;
  const int64_t tileRows;     ///< the sums, the weights and a number of a row fill the registers
  const int64_t sliceRows;    ///< previous rows that are copied at once, tiles
  const int64_t partColumns;  ///< columns that are copied at once, vectors
  const bool sorts;           ///< rows are sorted by place
  const int64_t preparations; ///< phases before the first place

  Value weight; ///< by output
  RowList list;
  Lengths lengths;
  Value starts;     ///< workspace: the first entry of `order` of each place
  Value order;      ///< workspace: batch * positions + position of the rows, by place
  Value placeOfRow; ///< workspace
  Value copies;     ///< [sliceRows][partColumns + lanes]: parts of previous rows
  Value sums;       ///< [sliceRows][groups * block]
  bool failed_ = false;
};

} // namespace

FailureOr<Kernel> RecurrenceGenerator::generate() {
  weight = rows.weight;
  int64_t slots = sorts ? sliceRows : llvm::alignTo(domain.getBatch() + 1, tileRows);
  for (Value *each : {&list.batch, &list.position, &list.length, &list.previous, &list.linked,
                      &list.marked, &list.left}) {
    *each = frame.scratch(MemRefType::get({slots}, e.b.getI64Type()));
  }
  if (groups > 0) {
    int64_t copied = std::min(sliceRows, slots);
    sums = frame.scratch(MemRefType::get({copied, groups * block}, e.b.getF32Type()));
    copies = frame.scratch(MemRefType::get({copied, partColumns + e.lanes}, e.b.getF32Type()));
  }
  int64_t positions = domain.getPositions(), places = rows.countPlaces();
  int64_t workspaceBytes = 0;
  auto reserve = [&](ArrayRef<int64_t> shape, Type element) {
    auto type = MemRefType::get(shape, element);
    Value memory = frame.workspace(type, workspaceBytes);
    int64_t bytes = type.getNumElements() * element.getIntOrFloatBitWidth() / 8;
    workspaceBytes += static_cast<int64_t>(llvm::alignTo(bytes, 64));
    return memory;
  };
  Value phase = arith::DivUIOp::create(e.b, frame.item(), e.index(blocks));
  Value first = e.mul(arith::RemUIOp::create(e.b, frame.item(), e.index(blocks)), block);
  if (!domain.getScheduled()) {
    lengths = frame.lengths(domain.getFactor(), positions);
  }
  if (sorts) {
    starts = reserve({places + 1}, e.b.getI64Type());
    order = reserve({domain.getBatch() * positions}, e.b.getI64Type());
    placeOfRow = reserve({domain.getBatch() * positions}, e.b.getI64Type());
  }
  if (op.getByInput()) {
    weight = reserve({groups * columns, inner}, e.b.getF32Type());
  }
  auto prepare = [&] {
    if (sorts) {
      e.when(e.less(first, e.index(1)), [&] { sortRows(); });
    }
    if (op.getByInput()) {
      e.loop(first, e.min(e.add(first, block), e.index(columns)), e.lanes,
             [&](Value column) { transposeWeight(column); });
    }
  };
  auto compute = [&] {
    if (groups > 0) {
      computePhase(e.sub(phase, e.index(preparations)), first);
    } else { // no column needs another one
      e.loop(e.index(0), e.index(places), 1, [&](Value place) { computePhase(place, first); });
    }
  };
  if (preparations > 0) {
    e.when(e.less(phase, e.index(preparations)), prepare, compute);
  } else {
    compute();
  }
  frame.finish();
  if (failed_) {
    return failure();
  }
  Kernel kernel{frame.function(), 0, frame.scratchBytes(), groups > 0 ? "matmul" : "row"};
  kernel.phases = (groups > 0 ? places : 1) + preparations;
  kernel.items = kernel.phases * blocks;
  kernel.workspaceBytes = workspaceBytes;
  auto launchRows = static_cast<double>(domain.getLaunchRows());
  kernel.flops = 2.0 * launchRows * double(inner) * double(groups * columns);
  kernel.bytes = 4.0 * double(groups * columns) * double(inner);
  for (Value tensor : llvm::concat<Value>(llvm::to_vector_of<Value>(op.getInputs()),
                                          llvm::to_vector_of<Value>(op.getOutputs()))) {
    kernel.bytes += 4.0 * launchRows * double(op.countGroups(tensor) * columns);
  }
  return kernel;
}

/// Sorts the rows of all texts by place, and the rows of a place by text.
void RecurrenceGenerator::sortRows() {
  int64_t positions = domain.getPositions(),
          most = cast<MemRefType>(starts.getType()).getDimSize(0) - 1;
  Value zero = e.index(0), one = e.index(1);
  e.loop(zero, e.index(most + 1), 1,
         [&](Value place) { e.store(toNumber(zero), starts, {place}); });
  Value texts = e.index(domain.getBatch());
  texts = domain.getFactor() > 0 ? e.min(frame.rows(), texts) : texts;
  auto eachRow = [&](llvm::function_ref<void(Value, Value, Value, Value)> visit) {
    e.loop(zero, texts, 1, [&](Value batch) {
      Value length = lengths.of(batch);
      e.loop(zero, length, 1, [&](Value number) {
        Value position = op.getReversed() ? e.sub(e.add(length, -1), number) : number;
        visit(batch, position, length, e.add(e.mul(batch, positions), position));
      });
    });
  };
  eachRow([&](Value batch, Value position, Value length, Value row) { // counts the rows of a place
    RecurrenceRows::Link link = rows.link(batch, position, length);
    Value before = getNumber(placeOfRow, e.add(e.mul(batch, positions), link.previous));
    Value place = e.min(e.select(link.linked, e.add(before, 1), zero), e.index(most - 1));
    e.store(toNumber(place), placeOfRow, {row});
    Value next = e.add(place, 1);
    e.store(toNumber(e.add(getNumber(starts, next), 1)), starts, {next});
  });
  e.loop(one, e.index(most), 1, [&](Value place) {
    Value sum = e.add(getNumber(starts, place), getNumber(starts, e.add(place, 1)));
    e.store(toNumber(sum), starts, {e.add(place, 1)});
  });
  eachRow([&](Value, Value, Value, Value row) { // leaves each start at the end of its place
    Value place = getNumber(placeOfRow, row), at = getNumber(starts, place);
    e.store(toNumber(row), order, {at});
    e.store(toNumber(e.add(at, 1)), starts, {place});
  });
}

void RecurrenceGenerator::listRow(Value slot, Value batch, Value position, Value length) {
  RecurrenceRows::Link link = rows.link(batch, position, length);
  Value marked = op.getAdjoint() ? rows.emitMark(batch, position) : link.cut;
  using ListItem = std::pair<Value, Value>;
  for (auto [numbers, value] :
       {ListItem(list.batch, batch), ListItem(list.position, position),
        ListItem(list.length, length), ListItem(list.previous, link.previous),
        ListItem(list.linked, link.linked), ListItem(list.marked, marked)}) {
    e.store(toNumber(value), numbers, {slot});
  }
  if (groups > 0) {
    e.store(toNumber(rows.getRow(op.getOutputs().front(), batch, link.previous)), list.left,
            {slot});
  }
}

/// Lists one row of each text, and returns their number.
Value RecurrenceGenerator::listTexts(Value place) {
  Value texts = e.index(domain.getBatch());
  if (!domain.getScheduled() && domain.getFactor() > 0) {
    texts = e.min(frame.rows(), texts);
  }
  return e
      .loop(e.index(0), texts, 1, Values{e.index(0)},
            [&](Value batch, ValueRange before) {
              Value position = place, length, isValid, slot = before.front();
              if (domain.getScheduled()) {
                Frame::RowSchedule run = frame.run(batch);
                position = e.add(run.start, place);
                isValid = e.less(place, run.count);
                length = e.add(run.start, run.count);
              } else {
                length = lengths.of(batch);
                position =
                    op.getReversed() ? e.sub(e.index(domain.getPositions() - 1), place) : place;
                isValid = e.less(position, length);
              }
              listRow(slot, batch, position, length);
              return Values{e.add(slot, e.select(isValid, e.index(1), e.index(0)))};
            })
      .front();
}

/// Computes an item of the rows of one place, in slices. The starts are moved by one place.
void RecurrenceGenerator::computePhase(Value place, Value first) {
  if (!sorts) {
    Value due = listTexts(place);
    e.loop(e.index(0), due, sliceRows,
           [&](Value from) { computeSlice(from, e.min(e.add(from, sliceRows), due), first); });
    return;
  }
  Value begin = e.select(e.less(e.index(0), place),
                         getNumber(starts, e.max(e.add(place, -1), e.index(0))), e.index(0));
  Value end = getNumber(starts, place);
  e.loop(begin, end, sliceRows, [&](Value from) {
    Value count = e.min(e.sub(end, from), e.index(sliceRows));
    e.loop(e.index(0), count, 1, [&](Value slot) {
      Value row = getNumber(order, e.add(from, slot)), positions = e.index(domain.getPositions());
      Value batch = arith::DivUIOp::create(e.b, row, positions);
      listRow(slot, batch, arith::RemUIOp::create(e.b, row, positions), lengths.of(batch));
    });
    computeSlice(e.index(0), count, first);
  });
}

/// Computes the rows at slots [from, to) of the lists, of which there are at most `sliceRows`.
void RecurrenceGenerator::computeSlice(Value from, Value to, Value first) {
  if (groups > 0) {
    emitProducts(from, to, first);
  }
  e.loop(from, to, 1, [&](Value slot) {
    e.loop(e.index(0), e.index(block), e.lanes,
           [&](Value offset) { emitCell(slot, e.sub(slot, from), e.add(first, offset), offset); });
  });
}

/// Copies a vector of columns of each group, from `first`, to rows of the workspace.
void RecurrenceGenerator::transposeWeight(Value first) {
  Value source = frame.buffer(0);
  e.loop(e.index(0), e.index(groups), 1, [&](Value group) {
    auto emitSquare = [&](Value k, int64_t valid) {
      e.loop(e.index(0), e.index(e.lanes), 4, [&](Value from) {
        Value column = e.add(first, from), output = e.add(e.mul(group, columns), column);
        auto place = [&](int64_t i) { return Values{e.add(k, std::min(i, valid - 1)), output}; };
        bool areWhole = columns % e.lanes == 0;
        Value mask = areWhole ? Value() : emitColumnMask(e.b, 4, column, e.index(columns));
        for (auto [i, row] : llvm::enumerate(loadTransposed(e.b, e.lanes, source, place, mask))) {
          auto at = int64_t(i);
          auto store = [&] { e.store(row, weight, {e.add(output, at), k}, valid); };
          areWhole ? store() : e.when(e.less(e.add(column, at), e.index(columns)), store);
        }
      });
    };
    int64_t whole = inner / e.lanes * e.lanes;
    e.loop(e.index(0), e.index(whole), e.lanes, [&](Value k) { emitSquare(k, e.lanes); });
    if (whole < inner) {
      emitSquare(e.index(whole), inner - whole);
    }
  });
}

/// Returns the row of the weight for an output of the item; the last column's past the end.
Value RecurrenceGenerator::weightRow(Value output, Value first) {
  Value group = arith::DivUIOp::create(e.b, output, e.index(block));
  Value column = e.add(first, arith::RemUIOp::create(e.b, output, e.index(block)));
  return e.add(e.mul(group, columns), e.min(column, e.index(columns - 1)));
}

/// Computes the products of the rows at slots [from, to), a part of the inner columns after the
/// other.
void RecurrenceGenerator::emitProducts(Value from, Value to, Value first) {
  int64_t last = (inner - 1) / partColumns * partColumns;
  if (last > 0) {
    e.loop(e.index(0), e.sub(to, from), 1, [&](Value slot) {
      e.loop(e.index(0), e.index(groups * block), e.lanes,
             [&](Value output) { e.store(e.splat(0), sums, {slot, output}); });
    });
    e.loop(e.index(0), e.index(last), partColumns,
           [&](Value k) { multiplyPart(from, to, first, k, partColumns); });
  }
  multiplyPart(from, to, first, e.index(last), inner - last);
}

/// Multiplies inner columns [k, k + count), one tile of the weight's rows after the other.
void RecurrenceGenerator::multiplyPart(Value from, Value to, Value first, Value k, int64_t count) {
  int64_t whole = count / e.lanes * e.lanes;
  e.loop(from, to, 1, [&](Value slot) {
    Value left = getNumber(list.left, slot), copy = e.sub(slot, from);
    auto move = [&](Value column, int64_t valid) {
      e.store(e.load(rows.results.front(), {left, e.add(k, column)}, valid), copies,
              {copy, column});
    };
    e.loop(e.index(0), e.index(whole), e.lanes, [&](Value column) { move(column, e.lanes); });
    if (whole < count) {
      move(e.index(whole), count - whole);
    }
  });
  e.loop(e.index(0), e.index(groups * block), tileOutputs, [&](Value output) {
    e.loop(e.index(0), e.sub(to, from), tileRows,
           [&](Value slot) { emitTile(slot, output, first, k, count); });
  });
}

/// Adds a tile of products to the sums. Rows of copies after the last one have numbers of earlier
/// rows, and their sums are not read.
void RecurrenceGenerator::emitTile(Value slot, Value output, Value first, Value k, int64_t count) {
  Values rights;
  for (int64_t j = 0; j < tileOutputs; ++j) {
    rights.push_back(weightRow(e.add(output, j), first));
  }
  auto step = [&](Value column, int64_t valid, ValueRange dots) {
    Values weights, next(dots);
    for (Value right : rights) {
      weights.push_back(e.load(weight, {right, e.add(k, column)}, valid));
    }
    for (int64_t i = 0; i < tileRows; ++i) {
      Value left = e.load(copies, {e.add(slot, i), column}, valid);
      for (int64_t j = 0; j < tileOutputs; ++j) {
        Value &dot = next[i * tileOutputs + j];
        dot = e.fma(left, weights[j], dot);
      }
    }
    return next;
  };
  int64_t whole = count / e.lanes * e.lanes;
  Values dots(tileRows * tileOutputs, e.splat(0));
  dots = e.loop(e.index(0), e.index(whole), e.lanes, dots,
                [&](Value column, ValueRange carried) { return step(column, e.lanes, carried); });
  if (whole < count) {
    dots = step(e.index(whole), count - whole, dots);
  }
  for (int64_t i = 0; i < tileRows; ++i) {
    Value each = e.sumEach(Values(ArrayRef(dots).slice(i * tileOutputs, tileOutputs)));
    Value row = e.add(slot, i);
    if (inner > partColumns) {
      each = e.addf(each, e.load(sums, {row, output}, tileOutputs));
    }
    e.store(each, sums, {row, output}, tileOutputs);
  }
}

/// Runs the body for a vector of columns from `column` of one row.
void RecurrenceGenerator::emitCell(Value slot, Value sumSlot, Value column, Value offset) {
  Value mask =
      columns % block == 0 ? Value() : emitColumnMask(e.b, e.lanes, column, e.index(columns));
  Block &body = op.getBody().front();
  Value batch = getNumber(list.batch, slot), position = getNumber(list.position, slot);
  Value linked = isSet(list.linked, slot), zero = e.splat(0);
  Values arguments;
  auto add = [&](llvm::function_ref<Value()> load) { // loads only numbers that the body reads
    bool isUsed = !body.getArgument(arguments.size()).use_empty();
    arguments.push_back(isUsed ? load() : zero);
  };
  auto addRow = [&](Value tensor, Value memory, Value at, Value exists) {
    Value row = rows.getRow(tensor, batch, at);
    for (int64_t group = 0; group < op.countGroups(tensor); ++group) {
      add([&] {
        Value place = e.add(column, group * columns);
        Value loaded = loadVector(e.b, e.lanes, memory, {row, place}, mask);
        return exists ? e.select(exists, loaded, zero) : loaded;
      });
    }
  };
  for (int64_t group = 0; group < groups; ++group) {
    add([&] {
      return e.select(linked, e.load(sums, {sumSlot, e.add(offset, group * block)}), zero);
    });
  }
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    int64_t by = op.getOffset(i);
    if (by == 0) {
      addRow(input, rows.inputs[i], position, Value());
      continue;
    }
    Value at = e.add(position, by);
    Value exists = e.both(e.atLeast(at, e.index(0)), e.less(at, getNumber(list.length, slot)));
    exists = e.both(exists, e.less(getNumber(list.marked, slot), e.index(1)));
    addRow(input, rows.inputs[i], e.select(exists, at, position), exists);
  }
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    if (i < op.getCarried()) {
      addRow(result, rows.results[i], getNumber(list.previous, slot), linked);
    }
  }
  FailureOr<SmallVector<Value>> yielded = emitScalarBlock(e.b, body, arguments);
  if (failed(yielded)) {
    failed_ = true;
    return;
  }
  size_t next = 0;
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    Value row = rows.getRow(result, batch, position);
    for (int64_t group = 0; group < op.countGroups(result); ++group) {
      storeVector(e.b, (*yielded)[next++], rows.results[i], {row, e.add(column, group * columns)},
                  mask);
    }
  }
}

FailureOr<Kernel> cpu::generateRecurrence(dispatch::RecurrenceOp op, ModuleOp module,
                                          StringRef name, const Target &target) {
  return RecurrenceGenerator(op, module, name, target).generate();
}
