// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of a decode step: few queries, many keys. An item is one (part of the keys, group of
// key/value heads, row of the batch) with all due queries of the heads that share them. It iterates
// over blocks of keys in the order of their positions with an online softmax: first all scores of a
// block, then its maximum and terms, then its values. Keys and values are read in tiles of as many
// keys as a vector has lanes, head by head. A head has only a piece of each of these consecutive
// rows, a pattern that hardware does not prefetch. So each head prefetches its pieces of the next
// tile, which keeps memory busy while a tile is computed.
//
// If keys are divided into several parts, an item stores its sums in the workspace, and the last
// item of a group to arrive adds them in the order of the parts. Sums depend on positions and
// shapes only, not on the slots of keys in rings or on threads.
#include "Decode.h"
#include "../../Common/RowBody.h"
#include "../../Common/Storage.h"
#include "DecodeParts.h"
#include "sluice/Target/Common/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

constexpr int64_t ahead = 16; ///< keys between a row that is read and the row that is prefetched

static void allocate(DecodeGenerator &d) {
  const AttentionShape &shape = d.shape;
  const DecodeCut &cut = d.cut;
  Emitter &e = d.e;
  d.query = d.frame.buffer(0);
  d.key = d.frame.buffer(1);
  d.value = d.frame.buffer(2);
  d.output = d.frame.buffer(d.op->getNumOperands());
  d.lse = d.frame.buffer(d.op->getNumOperands() + 1);
  dispatch::DistanceTerms terms = d.op.getTerms();
  if (terms.rows) {
    d.positionQuery = d.frame.buffer(3);
    d.distances = d.frame.buffer(4);
    d.positionQueries = d.frame.scratch(d.matrix(shape.headWidth));
  }
  if (terms.bias) {
    d.biases = d.frame.buffer(2 + unsigned(terms.count()));
  }
  d.queries = d.frame.scratch(d.matrix(shape.headWidth));
  d.accumulator = d.frame.scratch(d.matrix(shape.headWidth));
  d.maximum = d.frame.scratch(d.matrix(e.lanes));
  d.sum = d.frame.scratch(d.matrix(e.lanes));
  d.chances = d.frame.scratch(d.matrix(cut.block));
  if (cut.parts > 1) {
    d.parts =
        d.frame.workspace(MemRefType::get({d.partials(), d.partialWidth()}, e.b.getF32Type()));
    d.counters = getCounters(d.frame, shape.batch * cut.groups);
  }
}

/// Parts are numbered in bit-reversed order. Threads take runs of items, so the first parts, which
/// are all that a short text has, are spread over the threads. Every other row of the batch starts
/// with the other half of the parts, because the first part is the longest and the last one the
/// shortest, and no thread should get parts of the same number only. Idle rows of the batch are
/// spread in the same way.
static void locateItem(DecodeGenerator &d) {
  const AttentionShape &shape = d.shape;
  const DecodeCut &cut = d.cut;
  Emitter &e = d.e;
  Value number = e.floorDiv(d.frame.item(), shape.batch);
  d.batch = e.sub(d.frame.item(), e.mul(number, shape.batch));
  Value rest = e.floorDiv(number, cut.groups);
  d.group = e.sub(number, e.mul(rest, cut.groups));
  if (cut.parts > 1) {
    Value odd = e.sub(d.batch, e.mul(e.floorDiv(d.batch, 2), 2));
    rest = e.add(rest, e.mul(odd, cut.parts / 2));
    rest = e.sub(rest, e.mul(e.floorDiv(rest, cut.parts), cut.parts));
  }
  d.part = e.index(0);
  for (int64_t weight = cut.parts / 2; weight > 0; weight /= 2) {
    Value half = e.floorDiv(rest, 2);
    d.part = e.add(d.part, e.mul(e.sub(rest, e.mul(half, 2)), weight));
    rest = half;
  }
}

/// Returns the row of the batch whose keys this row reads.
static Value findKeyBatch(DecodeGenerator &d) {
  Value keyRows = d.op.getKeyRows();
  if (!keyRows) {
    return d.batch;
  }
  Emitter &e = d.e;
  auto operand = static_cast<unsigned>(llvm::find(d.op->getOperands(), keyRows).getIndex());
  Value row = memref::LoadOp::create(e.b, d.frame.buffer(operand), d.batch);
  return arith::IndexCastOp::create(e.b, e.b.getIndexType(), row);
}

/// Returns the number of valid keys of the row of the batch.
static Value countKeys(DecodeGenerator &d) {
  Emitter &e = d.e;
  if (Value counts = d.op.getKeyCounts()) {
    auto operand = static_cast<unsigned>(llvm::find(d.op->getOperands(), counts).getIndex());
    Value count = memref::LoadOp::create(e.b, d.frame.buffer(operand), d.keyBatch);
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), count);
  }
  int64_t factor = d.op.getKeys().getFactor();
  return e.floorDiv(e.add(d.due.length, factor - 1), factor);
}

static void loadQuery(DecodeGenerator &d, const DecodeQuery &of) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  Value row = ringRow(e.b, d.getExtent(d.op.getQuery()), d.batch, of.position);
  Value first = e.add(e.mul(of.head, shape.head), shape.queryColumn);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(e.load(d.query, {row, d.getFirstColumn(first, j)}, d.getValidRows(j)), d.queries,
            {of.slot, e.index(j * e.lanes)});
    e.store(e.splat(0), d.accumulator, {of.slot, e.index(j * e.lanes)});
  }
  if (d.positionQuery) {
    Value own = ringRow(e.b, d.getExtent(d.op.getTerms().query), d.batch, of.position);
    Value column = e.mul(of.head, shape.head);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      e.store(e.load(d.positionQuery, {own, d.getFirstColumn(column, j)}, d.getValidRows(j)),
              d.positionQueries, {of.slot, e.index(j * e.lanes)});
    }
  }
  e.store(e.splat(-infinity), d.maximum, {of.slot, e.index(0)});
  e.store(e.splat(0), d.sum, {of.slot, e.index(0)});
}

/// Returns the rows of `ring`, of keys or values, that hold the tile from `first`. If `clamped`,
/// later positions repeat the last valid one; otherwise the ring has whole tiles, so their rows
/// exist.
static Values loadRingRows(DecodeGenerator &d, Value ring, Value first, bool clamped) {
  Emitter &e = d.e;
  Values rows;
  Value last = e.add(d.length, -1);
  Value row = ringRow(e.b, d.getExtent(ring), d.keyBatch, first);
  for (int64_t i = 0; i < e.lanes; ++i) {
    if (!d.isWhole(ring)) {
      rows.push_back(ringRow(e.b, d.getExtent(ring), d.keyBatch, e.min(e.add(first, i), last)));
    } else if (clamped) {
      rows.push_back(e.add(row, e.min(e.sub(last, first), e.index(i))));
    } else {
      rows.push_back(e.add(row, i));
    }
  }
  return rows;
}

/// Prefetches a head's columns, from `column`, of the tile of rows that starts at position `first`.
static void prefetchTile(DecodeGenerator &d, Value memory, Value ring, Value first, Value column) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  constexpr int64_t lineBytes = 64; // size of a cache line
  if (!d.isWhole(ring)) {
    return;
  }
  Value row = ringRow(e.b, d.getExtent(ring), d.keyBatch, first);
  for (int64_t i = 0; i < e.lanes; ++i) {
    for (int64_t j = 0; j < shape.head; j += lineBytes / shape.elementBytes) {
      memref::PrefetchOp::create(e.b, memory, ValueRange{e.add(row, i), e.add(column, j)},
                                 /*isWrite=*/false, /*localityHint=*/3, /*isDataCache=*/true);
    }
  }
}

static void prefetchKeys(DecodeGenerator &d, Value first, Value head) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  prefetchTile(d, d.key, d.op.getKey(), first, e.add(e.mul(head, shape.head), shape.keyColumn));
}

static void prefetchValues(DecodeGenerator &d, Value first, Value head) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  prefetchTile(d, d.value, d.op.getValue(), first,
               e.add(e.mul(head, shape.head), shape.valueColumn));
}

/// Returns the row of `rows`, whose first one is for distance `first`, for a query and key q0 +
/// `key`.
static Value distanceRow(DecodeGenerator &d, const DecodeQuery &of, Value q0, Value key, Value rows,
                         int64_t first) {
  Emitter &e = d.e;
  Value distance = emitDistance(e, d.op.getTerms().distance, of.position, e.add(q0, key));
  return emitDistanceRow(e, first == 0 ? distance : e.add(distance, -first), rows);
}

/// Adds the products of a query with its rows by distance to `dots`, one per key.
static void addDistances(DecodeGenerator &d, const DecodeQuery &of, Value q0, Value at,
                         Values &dots) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  dispatch::DistanceTerms terms = d.op.getTerms();
  bool isTable = terms.hasRowTable();
  int64_t rows = cast<RankedTensorType>(terms.rows.getType()).getDimSize(0);
  Value first = isTable ? e.index(0) : e.mul(of.head, shape.head);
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value count = isTable ? e.index(rows) : d.distanceCount;
    Value row =
        distanceRow(d, of, q0, e.add(at, i), count, isTable ? terms.firstDistance(rows) : 0);
    row = isTable ? row : ringRow(e.b, d.getExtent(terms.rows), d.batch, row);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      Value factor = e.load(d.positionQueries, {of.slot, e.index(j * e.lanes)});
      dots[i] =
          e.fma(factor, e.load(d.distances, {row, d.getFirstColumn(first, j)}, d.getValidRows(j)),
                dots[i]);
    }
  }
}

/// Returns the biases of the table, one per key.
static Value computeBiases(DecodeGenerator &d, const DecodeQuery &of, Value q0, Value at) {
  Emitter &e = d.e;
  dispatch::DistanceTerms terms = d.op.getTerms();
  int64_t rows = cast<RankedTensorType>(terms.bias.getType()).getDimSize(0);
  Values numbers;
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value row = distanceRow(d, of, q0, e.add(at, i), e.index(rows), terms.firstDistance(rows));
    numbers.push_back(e.loadScalar(d.biases, {row, of.head}));
  }
  return vector::FromElementsOp::create(e.b, e.floats, numbers);
}

/// Computes the scores of a query with the keys in `rows` of the ring; -inf outside the mask.
static Value emitScores(DecodeGenerator &d, const DecodeQuery &of, ArrayRef<Value> rows, Value q0,
                        Value at) {
  Emitter &e = d.e;
  Values dots(e.lanes, e.splat(0));
  for (int64_t j = 0; j < d.shape.headVectors; ++j) {
    Value factor = e.load(d.queries, {of.slot, e.index(j * e.lanes)});
    for (int64_t i = 0; i < e.lanes; ++i) {
      dots[i] = e.fma(
          factor, e.load(d.key, {rows[i], d.getFirstColumn(of.keyColumn, j)}, d.getValidRows(j)),
          dots[i]);
    }
  }
  // If the region adds the two products of a key, a single sum computes both.
  bool isSum = d.distances && sumOfProducts(d.op.getScore());
  Values products;
  if (d.distances) {
    products.assign(isSum ? 0 : e.lanes, isSum ? Value() : e.splat(0));
    addDistances(d, of, q0, at, isSum ? dots : products);
  }
  SmallVector<int32_t> numbers(e.lanes);
  std::iota(numbers.begin(), numbers.end(), 0);
  Value lanes =
      arith::ConstantOp::create(e.b, DenseElementsAttr::get(e.integers, ArrayRef(numbers)));
  Value p = e.toInteger(of.position);
  Value q = e.add(e.broadcast(e.toInteger(e.add(q0, at))), lanes);
  Value bias = d.biases ? computeBiases(d, of, q0, at) : Value();
  Value raw = e.sumEach(dots), sum = isSum ? raw : Value();
  Value product = products.empty() ? sum : e.sumEach(products);
  Value place[] = {raw, p, q, e.toInteger(of.head)};
  Value score =
      e.broadcast(emitAll(e, d.op.getScore(), withTerms(place, {product, bias}), sum).front());
  Value holds =
      emitRelation(e, d.op.getMask(), e.broadcast(p), q, e.broadcast(e.toInteger(d.length)));
  return e.select(holds, score, e.splat(-infinity));
}

/// Computes the scores of a tile. Prefetches the block's values after its last keys.
static void addScores(DecodeGenerator &d, Value q0, Value at) {
  Emitter &e = d.e;
  Values rows = loadRingRows(d, d.op.getKey(), e.add(q0, at), /*clamped=*/false);
  Value next = e.add(at, ahead);
  Value hasNext = e.less(next, d.keys);
  eachQuery(
      d,
      [&](const DecodeQuery &query) {
        e.store(emitScores(d, query, rows, q0, at), d.chances, {query.slot, at});
      },
      [&](Value head) {
        e.when(
            hasNext, [&] { prefetchKeys(d, e.add(q0, next), head); },
            [&] { prefetchValues(d, e.add(q0, e.sub(next, d.keys)), head); });
      });
}

/// Broadcasts the maximum lane to every lane.
static Value greatest(DecodeGenerator &d, Value vector) {
  Emitter &e = d.e;
  for (int64_t distance = e.lanes / 2; distance > 0; distance /= 2) {
    SmallVector<int64_t> swapped;
    for (int64_t i = 0; i < e.lanes; ++i) {
      swapped.push_back(i ^ distance);
    }
    vector = e.maxf(vector, e.shuffle(vector, vector, swapped));
  }
  return vector;
}

/// Adds the block's scores to the query's maximum and sum, and rescales its sums of values to the
/// new maximum.
static void addTerms(DecodeGenerator &d, const DecodeQuery &of) {
  Emitter &e = d.e;
  auto eachVector = [&](Value start, llvm::function_ref<Value(Value at, Value so)> body) {
    return e
        .loop(e.index(0), d.keys, e.lanes, start,
              [&](Value at, ValueRange so) { return Values{body(at, so.front())}; })
        .front();
  };
  Value highest = eachVector(e.splat(-infinity), [&](Value at, Value so) {
    return e.maxf(so, e.load(d.chances, {of.slot, at}));
  });
  Value before = e.load(d.maximum, {of.slot, e.index(0)});
  Value now = e.maxf(before, greatest(d, highest));
  Value shift = e.select(isNone(d, now), e.splat(0), now);
  Value factor = emitExp(e, e.subf(before, shift));
  e.store(now, d.maximum, {of.slot, e.index(0)});
  Value scaled = e.mulf(e.load(d.sum, {of.slot, e.index(0)}), factor);
  Value total = eachVector(scaled, [&](Value at, Value so) {
    Value terms = emitExp(e, e.subf(e.load(d.chances, {of.slot, at}), shift));
    e.store(terms, d.chances, {of.slot, at});
    return e.addf(so, terms);
  });
  e.store(total, d.sum, {of.slot, e.index(0)});
  for (int64_t j = 0; j < d.shape.headVectors; ++j) {
    Value column = e.index(j * e.lanes);
    e.store(e.mulf(e.load(d.accumulator, {of.slot, column}), factor), d.accumulator,
            {of.slot, column});
  }
}

static void addTile(DecodeGenerator &d, const DecodeQuery &of, ArrayRef<Value> rows, Value at) {
  const AttentionShape &shape = d.shape;
  Emitter &e = d.e;
  int64_t most = d.frame.target().registers / 2;
  for (int64_t first = 0; first < shape.headVectors; first += most) {
    int64_t count = std::min(most, shape.headVectors - first);
    Values sums;
    for (int64_t j = 0; j < count; ++j) {
      sums.push_back(e.load(d.accumulator, {of.slot, e.index((first + j) * e.lanes)}));
    }
    for (int64_t i = 0; i < e.lanes; ++i) {
      Value chance = e.broadcast(e.loadScalar(d.chances, {of.slot, e.add(at, i)}));
      for (int64_t j = 0; j < count; ++j) {
        Value held = e.load(d.value, {rows[i], d.getFirstColumn(of.valueColumn, first + j)},
                            d.getValidRows(first + j));
        sums[j] = e.fma(chance, held, sums[j]);
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      e.store(sums[j], d.accumulator, {of.slot, e.index((first + j) * e.lanes)});
    }
  }
}

/// Adds a tile of values to the queries' sums; prefetches the keys of the next block after the last
/// values of this one. The weight of an invalid key is 0, but its memory may hold NaN, so the last
/// valid key is read instead.
static void addValues(DecodeGenerator &d, Value q0, Value at, Value end) {
  Emitter &e = d.e;
  Value first = e.add(q0, at), next = e.add(at, ahead);
  Value hasNext = e.less(next, d.keys), goesOn = e.less(e.add(q0, next), end);
  auto prefetch = [&](Value head) {
    e.when(
        hasNext, [&] { prefetchValues(d, e.add(q0, next), head); },
        [&] { e.when(goesOn, [&] { prefetchKeys(d, e.add(q0, next), head); }); });
  };
  auto add = [&](bool clamped) {
    Values rows = loadRingRows(d, d.op.getValue(), first, clamped);
    eachQuery(d, [&](const DecodeQuery &query) { addTile(d, query, rows, at); }, prefetch);
  };
  if (!d.isWhole(d.op.getValue())) {
    return add(true);
  }
  Value behind = e.less(d.length, e.add(first, e.lanes));
  e.when(behind, [&] { add(true); }, [&] { add(false); });
}

/// Processes keys [q0, q0 + block), or fewer before `end`.
static void emitKeyBlock(DecodeGenerator &d, Value q0, Value end) {
  Emitter &e = d.e;
  d.keys = e.roundUp(e.min(e.sub(end, q0), e.index(d.cut.block)), e.lanes);
  e.loop(e.index(0), d.keys, e.lanes, [&](Value at) { addScores(d, q0, at); });
  // Terms need no memory bandwidth; meanwhile prefetch the values after those already prefetched.
  Value more = e.less(e.index(ahead), d.keys);
  eachQuery(
      d, [&](const DecodeQuery &query) { addTerms(d, query); },
      [&](Value head) { e.when(more, [&] { prefetchValues(d, e.add(q0, ahead), head); }); });
  e.loop(e.index(0), d.keys, e.lanes, [&](Value at) { addValues(d, q0, at, end); });
}

static void emitItem(DecodeGenerator &d) {
  const AttentionShape &shape = d.shape;
  const DecodeCut &cut = d.cut;
  Emitter &e = d.e;
  Value start = e.mul(d.part, d.partKeys);
  eachQuery(
      d, [&](const DecodeQuery &query) { loadQuery(d, query); },
      [&](Value head) {
        for (int64_t i = 0; i < ahead; i += e.lanes) {
          prefetchKeys(d, e.add(start, i), head);
        }
      });
  // The ring of a window is shorter than the sequence: the part has keys in every pass over the
  // ring.
  e.loop(start, d.length, cut.parts * cut.partKeys, [&](Value first) {
    Value end = e.min(e.add(first, d.partKeys), d.length);
    e.loop(first, end, cut.block, [&](Value q0) {
      BlockClass block = classifyBlock(e, d.op.getMask(), d.due.start, shape.queries, q0, cut.block,
                                       {e.add(d.due.start, shape.queries), d.length});
      e.when(block.some, [&] { emitKeyBlock(d, q0, end); });
    });
  });
  if (cut.parts == 1) {
    eachQuery(d, [&](const DecodeQuery &query) { storeResult(d, query); });
    return;
  }
  eachQuery(d, [&](const DecodeQuery &query) { storePartial(d, query); });
  emitArrival(d);
}

static Kernel generate(DecodeGenerator &d) {
  const AttentionShape &shape = d.shape;
  const DecodeCut &cut = d.cut;
  Emitter &e = d.e;
  allocate(d);
  locateItem(d);
  d.due = d.frame.run(d.batch);
  d.keyBatch = findKeyBatch(d);
  d.length = countKeys(d);
  if (d.distances) {
    int64_t step = distanceStep(d.op);
    d.distanceCount = e.floorDiv(e.add(d.due.length, step - 1), step);
  }
  d.isShort = e.less(d.length, e.index(cut.parts * cut.shortKeys + 1));
  d.partKeys = e.select(d.isShort, e.index(cut.shortKeys), e.index(cut.partKeys));
  // Without any key, only the first part runs, and writes zeros.
  Value atLeastOne = e.select(e.less(d.length, e.index(1)), e.index(1), d.length);
  Value some =
      e.both(e.less(e.index(0), d.due.count), e.less(e.mul(d.part, d.partKeys), atLeastOne));
  e.when(some, [&] { emitItem(d); });
  d.frame.finish();

  Kernel kernel;
  kernel.function = d.frame.function();
  kernel.items = shape.batch * cut.groups * cut.parts;
  kernel.scratchBytes = d.frame.scratchBytes();
  if (cut.parts > 1) {
    kernel.workspaceBytes = d.partials() * d.partialWidth() * int64_t(sizeof(float));
    kernel.counters = shape.batch * cut.groups;
  }
  kernel.kind = "attention";
  double keys = double(d.getExtent(d.op.getKey()) * shape.batch);
  kernel.flops = 4.0 * double(shape.heads * shape.head * shape.queries) * keys;
  kernel.bytes = double(2 * shape.kvHeads * shape.head * shape.elementBytes) * keys;
  return kernel;
}

/// The queries of a key/value head are adjacent, by position and then by head. `eachHead` runs
/// before the queries of a key/value head.
void attention::eachQuery(DecodeGenerator &d, llvm::function_ref<void(const DecodeQuery &)> body,
                          llvm::function_ref<void(Value head)> eachHead) {
  const AttentionShape &shape = d.shape;
  const DecodeCut &cut = d.cut;
  Emitter &e = d.e;
  e.loop(e.index(0), e.index(cut.heads), 1, [&](Value k) {
    Value keyHead = e.add(e.mul(d.group, cut.heads), k);
    Value column = e.mul(keyHead, shape.head);
    if (eachHead) {
      eachHead(keyHead);
    }
    e.loop(e.index(0), d.due.count, 1, [&](Value j) {
      e.loop(e.index(0), e.index(shape.group), 1, [&](Value g) {
        Value slot = e.add(e.mul(e.add(e.mul(k, shape.queries), j), shape.group), g);
        body({slot, e.add(d.due.start, j), e.add(e.mul(keyHead, shape.group), g),
              e.add(column, shape.keyColumn), e.add(column, shape.valueColumn)});
      });
    });
  });
}

/// Returns the lanes whose maximum has seen no key. Subtracting 0 instead of it makes terms e^-inf
/// = 0, not NaN.
Value attention::isNone(DecodeGenerator &d, Value maximum) {
  Emitter &e = d.e;
  return arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, maximum, e.splat(-infinity));
}

FailureOr<Kernel> cpu::generateDecodeAttention(dispatch::AttentionOp op, ModuleOp module,
                                               StringRef name, const Target &target) {
  DecodeGenerator generator(op, module, name, target);
  return generate(generator);
}
