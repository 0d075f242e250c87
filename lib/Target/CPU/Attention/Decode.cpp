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
#include "sluice/Target/Common/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

constexpr int64_t ahead = 16; ///< keys between a row that is read and the row that is prefetched

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

/// Parts are numbered in bit-reversed order. Threads take runs of items, so the first parts, which
/// are all that a short text has, are spread over the threads. Every other row of the batch starts
/// with the other half of the parts, because the first part is the longest and the last one the
/// shortest, and no thread should get parts of the same number only. Idle rows of the batch are
/// spread in the same way.
void DecodeGenerator::locateItem() {
  Value number = e.floorDiv(frame.item(), shape.batch);
  batch = e.sub(frame.item(), e.mul(number, shape.batch));
  Value rest = e.floorDiv(number, cut.groups);
  group = e.sub(number, e.mul(rest, cut.groups));
  if (cut.parts > 1) {
    Value odd = e.sub(batch, e.mul(e.floorDiv(batch, 2), 2));
    rest = e.add(rest, e.mul(odd, cut.parts / 2));
    rest = e.sub(rest, e.mul(e.floorDiv(rest, cut.parts), cut.parts));
  }
  part = e.index(0);
  for (int64_t weight = cut.parts / 2; weight > 0; weight /= 2) {
    Value half = e.floorDiv(rest, 2);
    part = e.add(part, e.mul(e.sub(rest, e.mul(half, 2)), weight));
    rest = half;
  }
}

/// Returns the number of valid keys of the row of the batch.
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
  // Without any key, only the first part runs, and writes zeros.
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
  double keys = double(getExtent(op.getKey()) * shape.batch);
  kernel.flops = 4.0 * double(shape.heads * shape.head * shape.queries) * keys;
  kernel.bytes = double(2 * shape.kvHeads * shape.head * shape.elementBytes) * keys;
  return kernel;
}

void DecodeGenerator::emitItem() {
  Value start = e.mul(part, partKeys);
  eachQuery([&](const Query &query) { loadQuery(query); },
            [&](Value head) {
              for (int64_t i = 0; i < ahead; i += e.lanes) {
                prefetchKeys(e.add(start, i), head);
              }
            });
  // The ring of a window is shorter than the text: the part has keys in every turn of the ring.
  e.loop(start, length, cut.parts * cut.partKeys, [&](Value first) {
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

/// The queries of a key/value head are adjacent, by position and then by head. `eachHead` runs
/// before the queries of a key/value head.
void DecodeGenerator::eachQuery(llvm::function_ref<void(const Query &)> body,
                                llvm::function_ref<void(Value head)> eachHead) {
  e.loop(e.index(0), e.index(cut.heads), 1, [&](Value k) {
    Value keyHead = e.add(e.mul(group, cut.heads), k);
    Value column = e.mul(keyHead, shape.head);
    if (eachHead) {
      eachHead(keyHead);
    }
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
  Value row = ringRow(e.b, getExtent(op.getQuery()), batch, of.position);
  Value first = e.add(e.mul(of.head, shape.head), shape.queryColumn);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(e.load(query, {row, getFirstColumn(first, j)}, getValidRows(j)), queries,
            {of.slot, e.index(j * e.lanes)});
    e.store(e.splat(0), accumulator, {of.slot, e.index(j * e.lanes)});
  }
  if (positionQuery) {
    Value own = ringRow(e.b, getExtent(op.getTerms().query), batch, of.position);
    Value column = e.mul(of.head, shape.head);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      e.store(e.load(positionQuery, {own, getFirstColumn(column, j)}, getValidRows(j)),
              positionQueries, {of.slot, e.index(j * e.lanes)});
    }
  }
  e.store(e.splat(-infinity), maximum, {of.slot, e.index(0)});
  e.store(e.splat(0), sum, {of.slot, e.index(0)});
}

/// Returns the row of `rows` for a query and key q0 + `key`.
Value DecodeGenerator::distanceRow(const Query &of, Value q0, Value key, Value rows) {
  return emitDistanceRow(e, emitDistance(e, op.getTerms().distance, of.position, e.add(q0, key)),
                         rows);
}

/// Adds the products of a query with its rows by distance to `dots`, one per key.
void DecodeGenerator::addDistances(const Query &of, Value q0, Value at, Emitter::Values &dots) {
  Value first = e.mul(of.head, shape.head);
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value distance = distanceRow(of, q0, e.add(at, i), distanceCount);
    Value row = ringRow(e.b, getExtent(op.getTerms().rows), batch, distance);
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      Value factor = e.load(positionQueries, {of.slot, e.index(j * e.lanes)});
      dots[i] = e.fma(factor, e.load(distances, {row, getFirstColumn(first, j)}, getValidRows(j)),
                      dots[i]);
    }
  }
}

/// Returns the biases of the table, one per key.
Value DecodeGenerator::computeBiases(const Query &of, Value q0, Value at) {
  int64_t rows = cast<RankedTensorType>(op.getTerms().bias.getType()).getDimSize(0);
  Emitter::Values numbers;
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value row = distanceRow(of, q0, e.add(at, i), e.index(rows));
    numbers.push_back(e.loadScalar(biases, {row, of.head}));
  }
  return vector::FromElementsOp::create(e.b, e.floats, numbers);
}

/// Returns the rows of `ring` that hold the tile of keys from `first`. If `clamped`, later
/// positions repeat the last valid one; otherwise the ring has whole tiles, so their rows exist.
Emitter::Values DecodeGenerator::loadRingRows(Value ring, Value first, bool clamped) {
  Emitter::Values rows;
  Value last = e.add(length, -1);
  Value row = ringRow(e.b, getExtent(ring), batch, first);
  for (int64_t i = 0; i < e.lanes; ++i) {
    if (!isWhole(ring)) {
      rows.push_back(ringRow(e.b, getExtent(ring), batch, e.min(e.add(first, i), last)));
    } else if (clamped) {
      rows.push_back(e.add(row, e.min(e.sub(last, first), e.index(i))));
    } else {
      rows.push_back(e.add(row, i));
    }
  }
  return rows;
}

/// Processes keys [q0, q0 + block), or fewer before `end`.
void DecodeGenerator::emitKeyBlock(Value q0, Value end) {
  keys = e.roundUp(e.min(e.sub(end, q0), e.index(cut.block)), e.lanes);
  e.loop(e.index(0), keys, e.lanes, [&](Value at) { addScores(q0, at); });
  // Terms need no memory bandwidth; meanwhile prefetch the values after those already prefetched.
  Value more = e.less(e.index(ahead), keys);
  eachQuery([&](const Query &query) { addTerms(query); },
            [&](Value head) { e.when(more, [&] { prefetchValues(e.add(q0, ahead), head); }); });
  e.loop(e.index(0), keys, e.lanes, [&](Value at) { addValues(q0, at, end); });
}

/// Computes the scores of a tile. Prefetches the block's values after its last keys.
void DecodeGenerator::addScores(Value q0, Value at) {
  Emitter::Values rows = loadRingRows(op.getKey(), e.add(q0, at), /*clamped=*/false);
  Value next = e.add(at, ahead);
  Value hasNext = e.less(next, keys);
  eachQuery(
      [&](const Query &query) {
        e.store(emitScores(query, rows, q0, at), chances, {query.slot, at});
      },
      [&](Value head) {
        e.when(
            hasNext, [&] { prefetchKeys(e.add(q0, next), head); },
            [&] { prefetchValues(e.add(q0, e.sub(next, keys)), head); });
      });
}

void DecodeGenerator::prefetchKeys(Value first, Value head) {
  prefetchTile(key, op.getKey(), first, e.add(e.mul(head, shape.head), shape.keyColumn));
}

void DecodeGenerator::prefetchValues(Value first, Value head) {
  prefetchTile(value, op.getValue(), first, e.add(e.mul(head, shape.head), shape.valueColumn));
}

/// Prefetches a head's columns, from `column`, of the tile of rows that starts at position `first`.
void DecodeGenerator::prefetchTile(Value memory, Value ring, Value first, Value column) {
  constexpr int64_t lineBytes = 64; // size of a cache line
  if (!isWhole(ring)) {
    return;
  }
  Value row = ringRow(e.b, getExtent(ring), batch, first);
  for (int64_t i = 0; i < e.lanes; ++i) {
    for (int64_t j = 0; j < shape.head; j += lineBytes / shape.elementBytes) {
      memref::PrefetchOp::create(e.b, memory, ValueRange{e.add(row, i), e.add(column, j)},
                                 /*isWrite=*/false, /*localityHint=*/3, /*isDataCache=*/true);
    }
  }
}

/// Computes the scores of a query with the keys in `rows` of the ring; -inf outside the mask.
Value DecodeGenerator::emitScores(const Query &of, ArrayRef<Value> rows, Value q0, Value at) {
  Emitter::Values dots(e.lanes, e.splat(0));
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value factor = e.load(queries, {of.slot, e.index(j * e.lanes)});
    for (int64_t i = 0; i < e.lanes; ++i) {
      dots[i] =
          e.fma(factor, e.load(key, {rows[i], getFirstColumn(of.keyColumn, j)}, getValidRows(j)),
                dots[i]);
    }
  }
  // If the region adds the two products of a key, a single sum computes both.
  bool isSum = distances && sumOfProducts(op.getScore());
  Emitter::Values products;
  if (distances) {
    products.assign(isSum ? 0 : e.lanes, isSum ? Value() : e.splat(0));
    addDistances(of, q0, at, isSum ? dots : products);
  }
  SmallVector<int32_t> numbers(e.lanes);
  std::iota(numbers.begin(), numbers.end(), 0);
  Value lanes =
      arith::ConstantOp::create(e.b, DenseElementsAttr::get(e.integers, ArrayRef(numbers)));
  Value p = e.toInteger(of.position);
  Value q = e.add(e.broadcast(e.toInteger(e.add(q0, at))), lanes);
  Value bias = biases ? computeBiases(of, q0, at) : Value();
  Value raw = e.sumEach(dots), sum = isSum ? raw : Value();
  Value product = products.empty() ? sum : e.sumEach(products);
  Value place[] = {raw, p, q, e.toInteger(of.head)};
  Value score =
      e.broadcast(emitAll(e, op.getScore(), withTerms(place, {product, bias}), sum).front());
  Value holds = emitRelation(e, op.getMask(), e.broadcast(p), q, e.broadcast(e.toInteger(length)));
  return e.select(holds, score, e.splat(-infinity));
}

/// Broadcasts the maximum lane to every lane.
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

/// Returns the lanes whose maximum has seen no key. Subtracting 0 instead of it makes terms e^-inf
/// = 0, not NaN.
Value DecodeGenerator::isNone(Value maximum) {
  return arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, maximum, e.splat(-infinity));
}

/// Adds the block's scores to the query's maximum and sum, and rescales its sums of values to the
/// new maximum.
void DecodeGenerator::addTerms(const Query &of) {
  auto eachVector = [&](Value start, llvm::function_ref<Value(Value at, Value so)> body) {
    return e
        .loop(e.index(0), keys, e.lanes, start,
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

/// Adds a tile of values to the queries' sums; prefetches the keys of the next block after the last
/// values of this one. The weight of an invalid key is 0, but its memory may hold NaN, so the last
/// valid key is read instead.
void DecodeGenerator::addValues(Value q0, Value at, Value end) {
  Value first = e.add(q0, at), next = e.add(at, ahead);
  Value hasNext = e.less(next, keys), goesOn = e.less(e.add(q0, next), end);
  auto prefetch = [&](Value head) {
    e.when(
        hasNext, [&] { prefetchValues(e.add(q0, next), head); },
        [&] { e.when(goesOn, [&] { prefetchKeys(e.add(q0, next), head); }); });
  };
  auto add = [&](bool clamped) {
    Emitter::Values rows = loadRingRows(op.getValue(), first, clamped);
    eachQuery([&](const Query &query) { addTile(query, rows, at); }, prefetch);
  };
  if (!isWhole(op.getValue())) {
    return add(true);
  }
  Value behind = e.less(length, e.add(first, e.lanes));
  e.when(behind, [&] { add(true); }, [&] { add(false); });
}

void DecodeGenerator::addTile(const Query &of, ArrayRef<Value> rows, Value at) {
  int64_t most = frame.target().registers / 2;
  for (int64_t first = 0; first < shape.headVectors; first += most) {
    int64_t count = std::min(most, shape.headVectors - first);
    Emitter::Values sums;
    for (int64_t j = 0; j < count; ++j) {
      sums.push_back(e.load(accumulator, {of.slot, e.index((first + j) * e.lanes)}));
    }
    for (int64_t i = 0; i < e.lanes; ++i) {
      Value chance = e.broadcast(e.loadScalar(chances, {of.slot, e.add(at, i)}));
      for (int64_t j = 0; j < count; ++j) {
        Value held = e.load(value, {rows[i], getFirstColumn(of.valueColumn, first + j)},
                            getValidRows(first + j));
        sums[j] = e.fma(chance, held, sums[j]);
      }
    }
    for (int64_t j = 0; j < count; ++j) {
      e.store(sums[j], accumulator, {of.slot, e.index((first + j) * e.lanes)});
    }
  }
}

FailureOr<Kernel> cpu::generateDecodeAttention(dispatch::AttentionOp op, ModuleOp module,
                                               StringRef name, const Target &target) {
  return DecodeGenerator(op, module, name, target).generate();
}
