// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences. A phase computes one row of each text, as every row needs all columns of the
// previous one. An item is a block of columns, for all texts: it computes the products of its rows
// of the weight with the previous rows as dot products along the weight's rows, in tiles of texts
// by rows of the weight, and then the cell. A weight that is multiplied by input is transposed
// first, in a phase of its own.
#include "Recurrence.h"
#include "../../Common/RowAccess.h"
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
        e(frame.builder(), target.lanes), columns(static_cast<int64_t>(op.getColumns())),
        groups(op.countProductGroups()), inner(op.countInnerColumns()),
        block(target.lanes * (op.getWeighted() ? 1 : 4)), blocks(llvm::divideCeil(columns, block)),
        tileOutputs((target.registers - tileRows) / (tileRows + 1)),
        transposes(op.getByInput() ? 1 : 0) {}

  FailureOr<Kernel> generate();

private:
  /// Texts of a tile: with `tileOutputs` rows of the weight, their sums, the weights and a number
  /// of a text fill the registers.
  static constexpr int64_t tileRows = 4;

  /// Lists of the rows of a phase, in order of the texts.
  struct RowList {
    Value batch, position, length; ///< length: valid rows of the text
    Value previous;                ///< previous position; the row's own if it has none
    Value linked;                  ///< 1 if the row reads its previous row
    Value marked;                  ///< 1 if the row resets
    Value left;                    ///< row in memory that the weight multiplies
  };

  static int64_t getExtent(Value rows) {
    return cast<RankedTensorType>(rows.getType()).getDimSize(1);
  }
  Value getRow(Value tensor, Value batch, Value position) {
    return sequenceRow(e.b, domain, getExtent(tensor), batch, position);
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
  Value emitMark(Value batch, Value position);
  Value listRows(Value place);
  void transposeWeight(Value first);
  void emitProducts(Value due, Value first);
  void emitTile(Value slot, Value output, int64_t outputs, Value first);
  Value weightRow(Value output, Value first);
  void emitCell(Value slot, Value column, Value offset);

  dispatch::RecurrenceOp op;
  dispatch::DomainAttr domain;
  Frame frame;
  Emitter e;
  const int64_t columns; ///< of a group
  const int64_t groups;  ///< of the product
  const int64_t inner;   ///< columns of a row that the weight multiplies
  const int64_t block;   ///< columns of an item
  const int64_t blocks;
  const int64_t tileOutputs;
  const int64_t transposes; ///< phases that transpose the weight

  Value weight, bits;
  SmallVector<Value> inputs, results;
  RowList list;
  Value sums; ///< [slots][groups * block]
  bool failed_ = false;
};

} // namespace

FailureOr<Kernel> RecurrenceGenerator::generate() {
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
  int64_t slots = llvm::alignTo(domain.getBatch() + 1, tileRows);
  for (Value *each : {&list.batch, &list.position, &list.length, &list.previous, &list.linked,
                      &list.marked, &list.left}) {
    *each = frame.scratch(MemRefType::get({slots}, e.b.getI64Type()));
  }
  if (groups > 0) {
    sums = frame.scratch(MemRefType::get({slots, groups * block}, e.b.getF32Type()));
  }
  Value phase = arith::DivUIOp::create(e.b, frame.item(), e.index(blocks));
  Value first = e.mul(arith::RemUIOp::create(e.b, frame.item(), e.index(blocks)), block);
  auto computeRows = [&] {
    Value due = listRows(e.sub(phase, e.index(transposes)));
    if (groups > 0) {
      emitProducts(due, first);
    }
    e.loop(e.index(0), due, 1, [&](Value slot) {
      e.loop(e.index(0), e.index(block), e.lanes,
             [&](Value offset) { emitCell(slot, e.add(first, offset), offset); });
    });
  };
  if (transposes > 0) {
    weight = frame.workspace(MemRefType::get({groups * columns, inner}, e.b.getF32Type()));
    e.when(e.less(phase, e.index(transposes)), [&] { transposeWeight(first); }, computeRows);
  } else {
    computeRows();
  }
  frame.finish();
  if (failed_) {
    return failure();
  }
  Kernel kernel{frame.function(), 0, frame.scratchBytes(), groups > 0 ? "matmul" : "row"};
  kernel.phases = domain.getPositions() + transposes;
  kernel.items = kernel.phases * blocks;
  kernel.workspaceBytes = transposes * groups * columns * inner * 4;
  auto rows = static_cast<double>(domain.getLaunchRows());
  kernel.flops = 2.0 * rows * double(inner) * double(groups * columns);
  kernel.bytes = 4.0 * double(groups * columns) * double(inner);
  for (Value tensor : llvm::concat<Value>(llvm::to_vector_of<Value>(op.getInputs()),
                                          llvm::to_vector_of<Value>(op.getOutputs()))) {
    kernel.bytes += 4.0 * rows * double(op.countGroups(tensor) * columns);
  }
  return kernel;
}

/// Returns i1: true if row `position` has a number or a place that cuts off.
Value RecurrenceGenerator::emitMark(Value batch, Value position) {
  Value marked = arith::ConstantIntOp::create(e.b, e.b.getI1Type(), 0);
  if (op.getResets()) {
    auto type = cast<RankedTensorType>(op.getBits().getType());
    Value at = domain.getScheduled()
                   ? arith::RemUIOp::create(e.b, position, e.index(getExtent(op.getBits())))
                   : position;
    SmallVector<Value> place = {batch, at};
    if (type.getRank() == 3) {
      place = {e.add(e.mul(batch, getExtent(op.getBits())), at), e.index(0)};
    }
    Value number = memref::LoadOp::create(e.b, bits, place);
    if (type.getElementType().isF32()) {
      Value half = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0.5));
      marked = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, number, half);
    } else {
      marked = e.less(e.integer(0), number);
    }
  }
  if (auto every = static_cast<int64_t>(op.getResetEvery()); every > 0) {
    int64_t ahead = llvm::mod(-static_cast<int64_t>(op.getResetAt()), every);
    Value rest = arith::RemUIOp::create(e.b, e.add(position, ahead), e.index(every));
    Value isPlace = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, rest, e.index(0));
    marked = arith::OrIOp::create(e.b, marked, isPlace);
  }
  return marked;
}

/// Lists the rows that a phase computes, and returns their number. The last row is repeated up to
/// whole tiles.
Value RecurrenceGenerator::listRows(Value place) {
  Lengths lengths;
  Value texts = e.index(domain.getBatch());
  if (!domain.getScheduled()) {
    lengths = frame.lengths(domain.getFactor(), domain.getPositions());
    texts = domain.getFactor() > 0 ? e.min(frame.rows(), texts) : texts;
  }
  Value due =
      e.loop(e.index(0), texts, 1, Values{e.index(0)}, [&](Value batch, ValueRange before) {
         Value position = place, length, isValid, slot = before.front();
         if (domain.getScheduled()) {
           Frame::RowSchedule run = frame.run(batch);
           position = e.add(run.start, place);
           isValid = e.less(place, run.count);
           length = e.add(run.start, run.count);
         } else {
           length = lengths.of(batch);
           position = op.getReversed() ? e.sub(e.index(domain.getPositions() - 1), place) : place;
           isValid = e.less(position, length);
         }
         Value previous = e.add(position, op.getReversed() ? 1 : -1);
         Value exists = op.getReversed() ? e.less(previous, length) : e.less(e.index(0), position);
         previous = e.select(exists, previous, position);
         Value cut = emitMark(batch, op.getAdjoint() ? previous : position);
         Value isOff = arith::ConstantIntOp::create(e.b, e.b.getI1Type(), 1);
         Value linked = e.both(exists, arith::XOrIOp::create(e.b, cut, isOff));
         using ListItem = std::pair<Value, Value>;
         Value marked = op.getAdjoint() ? emitMark(batch, position) : cut;
         for (auto [numbers, value] :
              {ListItem(list.batch, batch), ListItem(list.position, position),
               ListItem(list.length, length), ListItem(list.previous, previous),
               ListItem(list.linked, linked), ListItem(list.marked, marked)}) {
           e.store(toNumber(value), numbers, {slot});
         }
         if (groups > 0) {
           e.store(toNumber(getRow(op.getOutputs().front(), batch, previous)), list.left, {slot});
         }
         return Values{e.add(slot, e.select(isValid, e.index(1), e.index(0)))};
       }).front();
  if (groups > 0) {
    e.loop(due, e.roundUp(due, tileRows), 1, [&](Value slot) {
      e.store(e.loadScalar(list.left, {e.max(e.add(due, -1), e.index(0))}), list.left, {slot});
    });
  }
  return due;
}

/// Copies columns [first, first + block) of each group to rows of the workspace.
void RecurrenceGenerator::transposeWeight(Value first) {
  Value source = frame.buffer(0);
  e.loop(e.index(0), e.index(groups), 1, [&](Value group) {
    Value output = e.add(e.mul(group, columns), first);
    Value mask =
        columns % e.lanes == 0 ? Value() : emitColumnMask(e.b, e.lanes, first, e.index(columns));
    auto emitSquare = [&](Value k, int64_t valid) {
      Values square;
      for (int64_t i = 0; i < e.lanes; ++i) {
        Value row = e.add(k, std::min(i, valid - 1));
        square.push_back(loadVector(e.b, e.lanes, source, {row, output}, mask));
      }
      e.transpose(square);
      for (int64_t i = 0; i < e.lanes; ++i) {
        auto store = [&] { e.store(square[i], weight, {e.add(output, i), k}, valid); };
        if (mask) {
          e.when(e.less(e.add(first, i), e.index(columns)), store);
        } else {
          store();
        }
      }
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

/// Computes the products of all rows, one tile of the weight's rows after the other.
void RecurrenceGenerator::emitProducts(Value due, Value first) {
  int64_t outputs = groups * block, whole = outputs / tileOutputs * tileOutputs;
  auto eachTile = [&](Value output, int64_t count) {
    e.loop(e.index(0), due, tileRows, [&](Value slot) { emitTile(slot, output, count, first); });
  };
  e.loop(e.index(0), e.index(whole), tileOutputs,
         [&](Value output) { eachTile(output, tileOutputs); });
  if (whole < outputs) {
    eachTile(e.index(whole), outputs - whole);
  }
}

void RecurrenceGenerator::emitTile(Value slot, Value output, int64_t outputs, Value first) {
  Values lefts, rights;
  for (int64_t i = 0; i < tileRows; ++i) {
    lefts.push_back(getNumber(list.left, e.add(slot, i)));
  }
  for (int64_t j = 0; j < outputs; ++j) {
    rights.push_back(weightRow(e.add(output, j), first));
  }
  auto step = [&](Value k, int64_t valid, ValueRange dots) {
    Values weights, next(dots);
    for (Value right : rights) {
      weights.push_back(e.load(weight, {right, k}, valid));
    }
    for (int64_t i = 0; i < tileRows; ++i) {
      Value left = e.load(results.front(), {lefts[i], k}, valid);
      for (int64_t j = 0; j < outputs; ++j) {
        Value &dot = next[j * tileRows + i];
        dot = e.fma(left, weights[j], dot);
      }
    }
    return next;
  };
  int64_t whole = inner / e.lanes * e.lanes;
  Values dots(outputs * tileRows, e.splat(0));
  dots = e.loop(e.index(0), e.index(whole), e.lanes, dots,
                [&](Value k, ValueRange carried) { return step(k, e.lanes, carried); });
  if (whole < inner) {
    dots = step(e.index(whole), inner - whole, dots);
  }
  for (int64_t j = 0; j < outputs; ++j) {
    Value each = e.sumEach(Values(ArrayRef(dots).slice(j * tileRows, tileRows)));
    for (int64_t i = 0; i < tileRows; ++i) {
      e.store(vector::ExtractOp::create(e.b, each, i), sums, {e.add(slot, i), e.add(output, j)});
    }
  }
}

/// Runs the body for a vector of columns from `column` of one row.
void RecurrenceGenerator::emitCell(Value slot, Value column, Value offset) {
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
    Value row = getRow(tensor, batch, at);
    for (int64_t group = 0; group < op.countGroups(tensor); ++group) {
      add([&] {
        Value place = e.add(column, group * columns);
        Value loaded = loadVector(e.b, e.lanes, memory, {row, place}, mask);
        return exists ? e.select(exists, loaded, zero) : loaded;
      });
    }
  };
  for (int64_t group = 0; group < groups; ++group) {
    add([&] { return e.select(linked, e.load(sums, {slot, e.add(offset, group * block)}), zero); });
  }
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    int64_t by = op.getOffset(i);
    if (by == 0) {
      addRow(input, inputs[i], position, Value());
      continue;
    }
    Value at = e.add(position, by);
    Value exists = e.both(e.atLeast(at, e.index(0)), e.less(at, getNumber(list.length, slot)));
    exists = e.both(exists, e.less(getNumber(list.marked, slot), e.index(1)));
    addRow(input, inputs[i], e.select(exists, at, position), exists);
  }
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    if (i < op.getCarried()) {
      addRow(result, results[i], getNumber(list.previous, slot), linked);
    }
  }
  FailureOr<SmallVector<Value>> yielded = emitScalarBlock(e.b, body, arguments);
  if (failed(yielded)) {
    failed_ = true;
    return;
  }
  size_t next = 0;
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    Value row = getRow(result, batch, position);
    for (int64_t group = 0; group < op.countGroups(result); ++group) {
      storeVector(e.b, (*yielded)[next++], results[i], {row, e.add(column, group * columns)}, mask);
    }
  }
}

FailureOr<Kernel> cpu::generateRecurrence(dispatch::RecurrenceOp op, ModuleOp module,
                                          StringRef name, const Target &target) {
  return RecurrenceGenerator(op, module, name, target).generate();
}
