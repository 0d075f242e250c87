// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of an incremental step: few queries, many keys. An item is one (part of the keys, group
// of key/value heads, row of the batch) with all queries that are due of the heads that share them.
// It goes over blocks of keys in the order of their positions, with an online softmax. A block is
// read in streams, one a lane: runs of rows of the ring, of which each goes on where it was, head
// after head and row after row, for kilobytes. That is what a processor fetches ahead by itself.
//
// Where keys are in several parts, an item leaves its sums in the workspace, and the last of a
// group's items to arrive adds them up in the order of the parts. Sums depend on positions and
// shapes alone, not on where rings hold keys nor on threads.
#include "../Common/RowBody.h"
#include "../Common/Storage.h"
#include "Attention.h"
#include "Skinny.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// How the work of a batch row is cut into items, by shapes alone.
struct Cut {
  int64_t parts = 1; ///< of the keys
  int64_t partKeys;  ///< keys of a part that lie together, whole blocks
  int64_t shortKeys; ///< the same, while a text fills no more than half of the parts
  int64_t block;     ///< keys that are read at once, a multiple of the lanes
  int64_t groups;    ///< of key/value heads
  int64_t heads;     ///< key/value heads of a group

  Cut(int64_t extent, int64_t kvHeads) {
    // Some 8 items a row occupy threads where one text is written. Long blocks make long streams;
    // a short text has more parts instead. Heads of a group lie side by side: all of them, where
    // there are parts enough.
    constexpr int64_t items = 8, least = 32;
    int64_t blocks = llvm::divideCeil(extent, least);
    while (2 * parts <= std::min(items, blocks)) {
      parts *= 2;
    }
    partKeys = llvm::divideCeil(blocks, parts) * least;
    shortKeys = std::max(least, partKeys / 2);
    block = 4 * least;
    while (partKeys % block != 0) {
      block /= 2;
    }
    groups = std::max<int64_t>(1, std::min(kvHeads, items / parts));
    while (kvHeads % groups != 0) {
      --groups;
    }
    heads = kvHeads / groups;
  }
};

class DecodeGenerator {
public:
  DecodeGenerator(dispatch::AttentionOp op, ModuleOp module, StringRef name, const Target &target)
      : op(op), shape(makeShape(op, target)), cut(extentOf(op.getKey()), shape.kvHeads),
        slots(shape.queries * shape.group * cut.heads), frame(op, module, name, target),
        e(frame.builder(), target.lanes) {}

  Kernel generate();

private:
  static int64_t extentOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(1);
  }
  MemRefType matrix(int64_t columns) { return MemRefType::get({slots, columns}, e.b.getF32Type()); }
  int64_t partials() const { return shape.batch * cut.groups * cut.parts * slots; }
  int64_t partialWidth() const { return shape.headWidth + 2 * e.lanes; }
  void allocate();
  void locateItem();
  Value countKeys();
  void emitItem();
  /// One query that is due: where its sums are, its position, its head, and the first columns of
  /// its key/value head.
  struct Query {
    Value slot, position, head, keyColumn, valueColumn;
  };
  void eachQuery(llvm::function_ref<void(const Query &)> body);
  void loadQuery(const Query &query);
  void emitKeyBlock(Value q0, Value end);
  void addScores(Value q0, Value step);
  void prefetchValues(Value q0, Value step);
  Value emitScores(const Query &query, ArrayRef<Value> rows, Value q0, Value step);
  Value distanceRow(const Query &query, Value q0, Value key, Value rows);
  void addDistances(const Query &query, Value q0, Value step, Emitter::Values &dots);
  Value addBiases(const Query &query, Value q0, Value step, Value score);
  void addTerms(const Query &query);
  void addValues(Value q0, Value step);
  void storePartial(const Query &query);
  void mergePartials(const Query &query, Value live);
  Value partialRow(Value number, const Query &query);
  void emitArrival();
  void storeResult(const Query &query);
  Value isNone(Value maximum);
  bool isWhole(Value ring) const { return extentOf(ring) % cut.block == 0; }
  Value rowOf(Value ring, Value q0, Value i, bool clamped);
  /// Column of vector `j` of a head's columns, which begin at `first`, and how many of its lanes
  /// are the head's.
  Value columnOf(Value first, int64_t j) { return e.add(first, j * e.lanes); }
  int64_t validOf(int64_t j) const { return shape.head - j * e.lanes; }
  Value greatest(Value vector);

  dispatch::AttentionOp op;
  const Shape shape;
  const Cut cut;
  const int64_t slots; ///< queries of an item
  Frame frame;
  Emitter e;

  Value query, key, value, output, lse;     // tensors
  Value positionQuery, distances, biases;   // tensors; null where scores have no such term
  Value queries, accumulator, maximum, sum; // scratch, by query
  Value positionQueries;                    // likewise
  Value chances;  // scratch [query][key of a block], by step: scores, then terms of the sum
  Value parts;    ///< workspace: sums, maximum, sum; by item and query
  Value counters; ///< of arrived items, by batch row and group
  Value batch, part, group, length;
  Value distanceCount; ///< valid rows by distance
  Value isShort;       ///< whether the text's parts have `shortKeys` keys
  Value partKeys;      ///< of this text
  Value run;           ///< keys of a stream in the block at hand
  Frame::Run due;
};

} // namespace

void DecodeGenerator::allocate() {
  query = frame.buffer(0);
  key = frame.buffer(1);
  value = frame.buffer(2);
  output = frame.buffer(op->getNumOperands());
  lse = frame.buffer(op->getNumOperands() + 1);
  dispatch::DistanceTerms terms = op.getTerms();
  if (terms.rows) {
    positionQuery = frame.buffer(3);
    distances = frame.buffer(4);
    positionQueries = frame.scratch(matrix(shape.headWidth));
  }
  if (terms.bias) {
    biases = frame.buffer(2 + unsigned(terms.count()));
  }
  queries = frame.scratch(matrix(shape.headWidth));
  accumulator = frame.scratch(matrix(shape.headWidth));
  maximum = frame.scratch(matrix(e.lanes));
  sum = frame.scratch(matrix(e.lanes));
  chances = frame.scratch(matrix(cut.block));
  if (cut.parts > 1) {
    parts = frame.workspace(MemRefType::get({partials(), partialWidth()}, e.b.getF32Type()));
    counters = frame.counters(shape.batch * cut.groups);
  }
}

/// Parts come with their bits reversed: threads share the items out in runs, and so any number of
/// first parts, all that a short text has, is spread over them. Rows of the batch that have nothing
/// to do are spread likewise.
void DecodeGenerator::locateItem() {
  Value number = e.floorDiv(frame.item(), shape.batch);
  batch = e.sub(frame.item(), e.mul(number, shape.batch));
  Value rest = e.floorDiv(number, cut.groups);
  group = e.sub(number, e.mul(rest, cut.groups));
  part = e.index(0);
  for (int64_t weight = cut.parts / 2; weight > 0; weight /= 2) {
    Value half = e.floorDiv(rest, 2);
    part = e.add(part, e.mul(e.sub(rest, e.mul(half, 2)), weight));
    rest = half;
  }
}

/// Valid keys of the row of the batch.
Value DecodeGenerator::countKeys() {
  if (Value counts = op.getKeyCounts()) {
    auto operand = static_cast<unsigned>(llvm::find(op->getOperands(), counts).getIndex());
    Value count = memref::LoadOp::create(e.b, frame.buffer(operand), batch);
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), count);
  }
  int64_t factor = op.getKeys().getFactor();
  return e.floorDiv(e.add(due.length, factor - 1), factor);
}

Kernel DecodeGenerator::generate() {
  allocate();
  locateItem();
  due = frame.run(batch);
  length = countKeys();
  if (distances) {
    int64_t step = distanceStep(op);
    distanceCount = e.floorDiv(e.add(due.length, step - 1), step);
  }
  isShort = e.less(length, e.index(cut.parts * cut.shortKeys + 1));
  partKeys = e.select(isShort, e.index(cut.shortKeys), e.index(cut.partKeys));
  // Without any key the first part alone is done, and writes zeros.
  Value atLeastOne = e.select(e.less(length, e.index(1)), e.index(1), length);
  Value some = e.both(e.less(e.index(0), due.count), e.less(e.mul(part, partKeys), atLeastOne));
  e.when(some, [&] { emitItem(); });
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = shape.batch * cut.groups * cut.parts;
  kernel.scratchBytes = frame.scratchBytes();
  if (cut.parts > 1) {
    kernel.workspaceBytes = partials() * partialWidth() * int64_t(sizeof(float));
    kernel.counters = shape.batch * cut.groups;
  }
  kernel.kind = "attention";
  double keys = double(extentOf(op.getKey()) * shape.batch);
  kernel.flops = 4.0 * double(shape.heads * shape.head * shape.queries) * keys;
  kernel.bytes = double(2 * shape.kvHeads * shape.head * shape.elementBytes) * keys;
  return kernel;
}

void DecodeGenerator::emitItem() {
  eachQuery([&](const Query &query) { loadQuery(query); });
  // A ring that holds a window is shorter than the text: the part has keys once a turn.
  e.loop(e.mul(part, partKeys), length, cut.parts * cut.partKeys, [&](Value first) {
    Value end = e.min(e.add(first, partKeys), length);
    e.loop(first, end, cut.block, [&](Value q0) {
      BlockClass block = classifyBlock(e, op.getMask(), due.start, shape.queries, q0, cut.block,
                                       {e.add(due.start, shape.queries), length});
      e.when(block.some, [&] { emitKeyBlock(q0, end); });
    });
  });
  if (cut.parts == 1) {
    eachQuery([&](const Query &query) { storeResult(query); });
    return;
  }
  eachQuery([&](const Query &query) { storePartial(query); });
  emitArrival();
}

/// Queries of a key/value head, those of a position by head, lie together.
void DecodeGenerator::eachQuery(llvm::function_ref<void(const Query &)> body) {
  e.loop(e.index(0), e.index(cut.heads), 1, [&](Value k) {
    Value keyHead = e.add(e.mul(group, cut.heads), k);
    Value column = e.mul(keyHead, shape.head);
    e.loop(e.index(0), due.count, 1, [&](Value j) {
      e.loop(e.index(0), e.index(shape.group), 1, [&](Value g) {
        Value slot = e.add(e.mul(e.add(e.mul(k, shape.queries), j), shape.group), g);
        body({slot, e.add(due.start, j), e.add(e.mul(keyHead, shape.group), g),
              e.add(column, shape.keyColumn), e.add(column, shape.valueColumn)});
      });
    });
  });
}

void DecodeGenerator::loadQuery(const Query &of) {
  Value row = ringRow(e.b, extentOf(op.getQuery()), batch, of.position);
  Value first = e.add(e.mul(of.head, shape.head), shape.queryColumn);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(e.load(query, {row, columnOf(first, j)}, validOf(j)), queries,
            {of.slot, e.index(j * e.lanes)});
    e.store(e.splat(0), accumulator, {of.slot, e.index(j * e.lanes)});
  }
  if (positionQuery) {
    Value own = ringRow(e.b, extentOf(op.getTerms().query), batch, of.position);
    Value column = e.mul(of.head, shape.head);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      e.store(e.load(positionQuery, {own, columnOf(column, j)}, validOf(j)), positionQueries,
              {of.slot, e.index(j * e.lanes)});
    }
  }
  e.store(e.splat(-infinity), maximum, {of.slot, e.index(0)});
  e.store(e.splat(0), sum, {of.slot, e.index(0)});
}

/// The row of `rows` that a query and key q0 + `key` have.
Value DecodeGenerator::distanceRow(const Query &of, Value q0, Value key, Value rows) {
  return emitDistanceRow(e, emitDistance(e, op.getTerms().distance, of.position, e.add(q0, key)),
                         rows);
}

/// Adds the products of a query with its rows by distance to those with the keys, one a stream.
void DecodeGenerator::addDistances(const Query &of, Value q0, Value step, Emitter::Values &dots) {
  Value first = e.mul(of.head, shape.head);
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value distance = distanceRow(of, q0, e.add(step, e.mul(run, i)), distanceCount);
    Value row = ringRow(e.b, extentOf(op.getTerms().rows), batch, distance);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      Value factor = e.load(positionQueries, {of.slot, e.index(j * e.lanes)});
      dots[i] = e.fma(factor, e.load(distances, {row, columnOf(first, j)}, validOf(j)), dots[i]);
    }
  }
}

/// Adds the table's biases, one a stream.
Value DecodeGenerator::addBiases(const Query &of, Value q0, Value step, Value score) {
  int64_t rows = cast<RankedTensorType>(op.getTerms().bias.getType()).getDimSize(0);
  Emitter::Values numbers;
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value row = distanceRow(of, q0, e.add(step, e.mul(run, i)), e.index(rows));
    numbers.push_back(e.loadScalar(biases, {row, of.head}));
  }
  return e.addf(score, vector::FromElementsOp::create(e.b, e.floats, numbers));
}

/// Row of `ring` that holds key `i` of the block at q0. Blocks begin at multiples of their size:
/// one lies together in a ring of whole blocks. Where `clamped`, the last valid position stands for
/// those behind it; else their rows are read in a ring of whole blocks, where they exist.
Value DecodeGenerator::rowOf(Value ring, Value q0, Value i, bool clamped) {
  if (isWhole(ring)) {
    Value last = e.add(e.sub(length, q0), -1);
    return e.add(ringRow(e.b, extentOf(ring), batch, q0), clamped ? e.min(i, last) : i);
  }
  return ringRow(e.b, extentOf(ring), batch, e.min(e.add(q0, i), e.add(length, -1)));
}

/// Keys [q0, q0 + block), or fewer before `end`, a run of them a stream. All streams go forward by
/// a key at a time, for all queries.
void DecodeGenerator::emitKeyBlock(Value q0, Value end) {
  Value valid = e.min(e.sub(end, q0), e.index(cut.block));
  run = e.floorDiv(e.add(valid, e.lanes - 1), e.lanes);
  e.loop(e.index(0), run, 1, [&](Value step) { addScores(q0, step); });
  eachQuery([&](const Query &query) { addTerms(query); });
  e.loop(e.index(0), run, 1, [&](Value step) { addValues(q0, step); });
}

void DecodeGenerator::addScores(Value q0, Value step) {
  Emitter::Values rows;
  for (int64_t i = 0; i < e.lanes; ++i) {
    rows.push_back(rowOf(op.getKey(), q0, e.add(step, e.mul(run, i)), /*clamped=*/false));
  }
  Value first = e.mul(step, e.lanes);
  eachQuery([&](const Query &query) {
    e.store(emitScores(query, rows, q0, step), chances, {query.slot, first});
  });
  if (op.getKey() == op.getValue()) {
    prefetchValues(q0, step);
  }
}

/// Asks for the values of a step's keys. Beside their keys they lie in streams with gaps, which a
/// processor does not fetch ahead.
void DecodeGenerator::prefetchValues(Value q0, Value step) {
  constexpr int64_t lineBytes = 64; // of a cache line
  int64_t columns = cut.heads * shape.head;
  Value first = e.add(e.mul(group, columns), shape.valueColumn);
  e.loop(e.index(0), e.index(columns), lineBytes / shape.elementBytes, [&](Value column) {
    for (int64_t i = 0; i < e.lanes; ++i) {
      Value row = rowOf(op.getValue(), q0, e.add(step, e.mul(run, i)), /*clamped=*/false);
      memref::PrefetchOp::create(e.b, value, ValueRange{row, e.add(first, column)},
                                 /*isWrite=*/false, /*localityHint=*/3, /*isDataCache=*/true);
    }
  });
}

/// Scores of a query with the keys that `rows` of the ring hold, one a stream; -inf where the mask
/// forbids.
Value DecodeGenerator::emitScores(const Query &of, ArrayRef<Value> rows, Value q0, Value step) {
  Emitter::Values dots(e.lanes, e.splat(0));
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value factor = e.load(queries, {of.slot, e.index(j * e.lanes)});
    for (int64_t i = 0; i < e.lanes; ++i) {
      dots[i] =
          e.fma(factor, e.load(key, {rows[i], columnOf(of.keyColumn, j)}, validOf(j)), dots[i]);
    }
  }
  if (distances) {
    addDistances(of, q0, step, dots);
  }
  SmallVector<int32_t> numbers(e.lanes);
  std::iota(numbers.begin(), numbers.end(), 0);
  Value lanes =
      arith::ConstantOp::create(e.b, DenseElementsAttr::get(e.integers, ArrayRef(numbers)));
  Value p = e.toInteger(of.position);
  Value q =
      e.add(e.broadcast(e.toInteger(e.add(q0, step))), e.mul(e.broadcast(e.toInteger(run)), lanes));
  Value score =
      e.broadcast(emitRegion(e, op.getScore(), {e.sumEach(dots), p, q, e.toInteger(of.head)}));
  if (biases) {
    score = addBiases(of, q0, step, score);
  }
  Value holds = emitRelation(e, op.getMask(), e.broadcast(p), q, e.broadcast(e.toInteger(length)));
  return e.select(holds, score, e.splat(-infinity));
}

/// The greatest lane, in every lane.
Value DecodeGenerator::greatest(Value vector) {
  for (int64_t distance = e.lanes / 2; distance > 0; distance /= 2) {
    SmallVector<int64_t> swapped;
    for (int64_t i = 0; i < e.lanes; ++i) {
      swapped.push_back(i ^ distance);
    }
    vector = e.maxf(vector, e.shuffle(vector, vector, swapped));
  }
  return vector;
}

/// Lanes where a maximum is that of no key. Subtracting 0 instead of it makes terms e^-inf = 0, not
/// NaN.
Value DecodeGenerator::isNone(Value maximum) {
  return arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, maximum, e.splat(-infinity));
}

/// Takes the block's scores to the query's maximum and sum, and what it has summed of values to the
/// new maximum.
void DecodeGenerator::addTerms(const Query &of) {
  auto eachVector = [&](Value start, llvm::function_ref<Value(Value at, Value so)> body) {
    return e
        .loop(e.index(0), e.mul(run, e.lanes), e.lanes, start,
              [&](Value at, ValueRange so) { return Emitter::Values{body(at, so.front())}; })
        .front();
  };
  Value highest = eachVector(e.splat(-infinity), [&](Value at, Value so) {
    return e.maxf(so, e.load(chances, {of.slot, at}));
  });
  Value before = e.load(maximum, {of.slot, e.index(0)});
  Value now = e.maxf(before, greatest(highest));
  Value shift = e.select(isNone(now), e.splat(0), now);
  Value factor = emitExp(e, e.subf(before, shift));
  e.store(now, maximum, {of.slot, e.index(0)});
  Value scaled = e.mulf(e.load(sum, {of.slot, e.index(0)}), factor);
  Value total = eachVector(scaled, [&](Value at, Value so) {
    Value terms = emitExp(e, e.subf(e.load(chances, {of.slot, at}), shift));
    e.store(terms, chances, {of.slot, at});
    return e.addf(so, terms);
  });
  e.store(total, sum, {of.slot, e.index(0)});
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value column = e.index(j * e.lanes);
    e.store(e.mulf(e.load(accumulator, {of.slot, column}), factor), accumulator, {of.slot, column});
  }
}

/// Adds a key's value a stream to the queries' sums. The chance of a key that is not valid is 0,
/// but what lies there may be no number: the last that is valid stands for it.
void DecodeGenerator::addValues(Value q0, Value step) {
  Emitter::Values rows;
  for (int64_t i = 0; i < e.lanes; ++i) {
    rows.push_back(rowOf(op.getValue(), q0, e.add(step, e.mul(run, i)), /*clamped=*/true));
  }
  int64_t most = frame.target().registers / 2;
  eachQuery([&](const Query &of) {
    Value at = e.mul(step, e.lanes);
    for (int64_t first = 0; first < shape.headVectors; first += most) {
      int64_t count = std::min(most, shape.headVectors - first);
      Emitter::Values sums;
      for (int64_t j = 0; j < count; ++j) {
        sums.push_back(e.load(accumulator, {of.slot, e.index((first + j) * e.lanes)}));
      }
      for (int64_t i = 0; i < e.lanes; ++i) {
        Value chance = e.broadcast(e.loadScalar(chances, {of.slot, e.add(at, i)}));
        for (int64_t j = 0; j < count; ++j) {
          Value held =
              e.load(value, {rows[i], columnOf(of.valueColumn, first + j)}, validOf(first + j));
          sums[j] = e.fma(chance, held, sums[j]);
        }
      }
      for (int64_t j = 0; j < count; ++j) {
        e.store(sums[j], accumulator, {of.slot, e.index((first + j) * e.lanes)});
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Row of the workspace with what the item of part `number` found for a query.
Value DecodeGenerator::partialRow(Value number, const Query &of) {
  Value own = e.add(e.mul(e.add(e.mul(batch, cut.groups), group), cut.parts), number);
  return e.add(e.mul(own, slots), of.slot);
}

void DecodeGenerator::storePartial(const Query &of) {
  Value row = partialRow(part, of);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value column = e.index(j * e.lanes);
    e.store(e.load(accumulator, {of.slot, column}), parts, {row, column});
  }
  e.store(e.load(maximum, {of.slot, e.index(0)}), parts, {row, e.index(shape.headWidth)});
  e.store(e.load(sum, {of.slot, e.index(0)}), parts, {row, e.index(shape.headWidth + e.lanes)});
}

/// Counts the item; the last of those that have keys adds up what all of them found.
void DecodeGenerator::emitArrival() {
  auto partsOf = [&](int64_t keys) { return e.floorDiv(e.add(length, keys - 1), keys); };
  Value live = e.select(isShort, partsOf(cut.shortKeys), partsOf(cut.partKeys));
  live = e.min(live, e.index(cut.parts));
  Value counter = e.add(e.mul(batch, cut.groups), group);
  Value before = memref::AtomicRMWOp::create(e.b, arith::AtomicRMWKind::addi, e.integer(1),
                                             counters, ValueRange{counter});
  Value isLast = e.atLeast(e.add(before, 1), e.toInteger(live));
  e.when(isLast, [&] {
    e.store(e.integer(0), counters, {counter});
    eachQuery([&](const Query &query) {
      mergePartials(query, live);
      storeResult(query);
    });
  });
}

/// Sums of the first `live` parts, in their order, to the query's own.
void DecodeGenerator::mergePartials(const Query &of, Value live) {
  auto loadPart = [&](Value number, int64_t column) {
    return e.load(parts, {partialRow(number, of), e.index(column)});
  };
  auto most = [&](Value number, ValueRange so) {
    return Emitter::Values{e.maxf(so.front(), loadPart(number, shape.headWidth))};
  };
  Value now = e.loop(e.index(0), live, 1, e.splat(-infinity), most).front();
  Value shift = e.select(isNone(now), e.splat(0), now);
  Emitter::Values sums(shape.headVectors + 1, e.splat(0));
  sums = e.loop(e.index(0), live, 1, sums, [&](Value number, ValueRange so) {
    Value factor = emitExp(e, e.subf(loadPart(number, shape.headWidth), shift));
    Emitter::Values next;
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      next.push_back(e.fma(loadPart(number, j * e.lanes), factor, so[j]));
    }
    next.push_back(e.fma(loadPart(number, shape.headWidth + e.lanes), factor, so.back()));
    return next;
  });
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(sums[j], accumulator, {of.slot, e.index(j * e.lanes)});
  }
  e.store(now, maximum, {of.slot, e.index(0)});
  e.store(sums.back(), sum, {of.slot, e.index(0)});
}

void DecodeGenerator::storeResult(const Query &of) {
  Value total = e.sum(e.load(sum, {of.slot, e.index(0)}));
  Value some = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, total, e.splat(0));
  Value divisor = e.select(some, total, e.splat(1));
  Value share = arith::DivFOp::create(e.b, e.splat(1), divisor);
  Value row = ringRow(e.b, extentOf(op.getOutput()), batch, of.position);
  Value first = e.mul(of.head, shape.head);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value result = e.mulf(e.load(accumulator, {of.slot, e.index(j * e.lanes)}), share);
    e.store(result, output, {row, columnOf(first, j)}, validOf(j));
  }
  Value greatestScore = e.load(maximum, {of.slot, e.index(0)});
  Value logarithm = e.addf(greatestScore, math::LogOp::create(e.b, divisor));
  logarithm = e.select(some, logarithm, e.splat(-infinity));
  e.store(vector::ExtractOp::create(e.b, logarithm, int64_t(0)), lse,
          {ringRow(e.b, extentOf(op.getLse()), batch, of.position), of.head});
}

FailureOr<Kernel> cpu::generateDecodeAttention(dispatch::AttentionOp op, ModuleOp module,
                                               StringRef name, const Target &target) {
  return DecodeGenerator(op, module, name, target).generate();
}
