// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of an incremental step: few queries, many keys. An item is one (key/value head, row of
// the batch) with all queries that are due of the heads that share it. It goes over blocks of keys
// in the order of their positions, with an online softmax: keys and values are read once, and sums
// depend on positions alone, not on where rings hold them nor on threads. A block is several
// vectors of keys, so that the chain from a block's greatest score to the next block is short
// beside the block's loads.
#include "Attention.h"
#include "Skinny.h"
#include "Storage.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int64_t blockKeys = 32; ///< a multiple of the lanes
constexpr int64_t lineBytes = 64; ///< of a cache line

class DecodeGenerator {
public:
  DecodeGenerator(dispatch::AttentionOp op, ModuleOp module, StringRef name, const Target &target)
      : op(op), shape(makeShape(op, target)), frame(op, module, name, target),
        e(frame.builder(), target.lanes) {}

  Kernel generate();

private:
  static int64_t extentOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(1);
  }
  MemRefType matrix(int64_t columns) {
    return MemRefType::get({shape.queries * shape.group, columns}, e.b.getF32Type());
  }
  void allocate();
  void emitItem();
  void eachQuery(llvm::function_ref<void(Value slot, Value position, Value head)> body);
  void loadQuery(Value slot, Value position, Value head);
  void emitKeyBlock(Value q0);
  Value emitScores(Value slot, Value position, Value head, Value q0, Value first);
  void accumulate(Value slot, Value q0, Value highest);
  void addValues(Value slot, Value q0, Value factor);
  void storeResult(Value slot, Value position, Value head);
  static bool isWhole(Value ring) { return extentOf(ring) % blockKeys == 0; }
  Value rowOf(Value ring, Value q0, Value i);
  void prefetch(Value ring, Value memory, Value row, Value column);
  /// Column of vector `j` of a head's columns, which begin at `first`, and how many of its lanes
  /// are the head's.
  Value columnOf(Value first, int64_t j) { return e.add(first, j * e.lanes); }
  int64_t validOf(int64_t j) const { return shape.head - j * e.lanes; }
  Value greatest(Value vector);

  dispatch::AttentionOp op;
  const Shape shape;
  Frame frame;
  Emitter e;

  Value query, key, value, output, lse;     // tensors
  Value queries, accumulator, maximum, sum; // scratch, by query
  Value chances;                            // scratch [blockKeys]: scores, then terms of the sum
  Value batch, keyHead, keyColumn, valueColumn, length;
  Frame::Run run;
};

} // namespace

void DecodeGenerator::allocate() {
  query = frame.buffer(0);
  key = frame.buffer(1);
  value = frame.buffer(2);
  output = frame.buffer(op->getNumOperands());
  lse = frame.buffer(op->getNumOperands() + 1);
  queries = frame.scratch(matrix(shape.headWidth));
  accumulator = frame.scratch(matrix(shape.headWidth));
  maximum = frame.scratch(matrix(1));
  sum = frame.scratch(matrix(e.lanes));
  chances = frame.scratch(MemRefType::get({blockKeys}, e.b.getF32Type()));
}

Kernel DecodeGenerator::generate() {
  allocate();
  // Rows of the batch that have nothing to do are spread evenly over the items.
  keyHead = e.floorDiv(frame.item(), shape.batch);
  batch = e.sub(frame.item(), e.mul(keyHead, shape.batch));
  run = frame.run(batch);
  e.when(e.less(e.index(0), run.count), [&] { emitItem(); });
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = shape.batch * shape.kvHeads;
  kernel.scratchBytes = frame.scratchBytes();
  kernel.kind = "attention";
  double keys = double(extentOf(op.getKey()) * shape.batch);
  kernel.flops = 4.0 * double(shape.heads * shape.head * shape.queries) * keys;
  kernel.bytes = double(2 * shape.kvHeads * shape.head * shape.elementBytes) * keys;
  return kernel;
}

void DecodeGenerator::emitItem() {
  keyColumn = e.add(e.mul(keyHead, shape.head), shape.keyColumn);
  valueColumn = e.add(e.mul(keyHead, shape.head), shape.valueColumn);
  int64_t factor = op.getKeys().getFactor();
  length = e.floorDiv(e.add(run.length, factor - 1), factor);
  eachQuery([&](Value slot, Value position, Value head) { loadQuery(slot, position, head); });
  e.loop(e.index(0), length, blockKeys, [&](Value q0) { emitKeyBlock(q0); });
  eachQuery([&](Value slot, Value position, Value head) { storeResult(slot, position, head); });
}

/// `slot` counts the item's queries: those of a position, by head, lie together.
void DecodeGenerator::eachQuery(
    llvm::function_ref<void(Value slot, Value position, Value head)> body) {
  e.loop(e.index(0), run.count, 1, [&](Value j) {
    e.loop(e.index(0), e.index(shape.group), 1, [&](Value g) {
      body(e.add(e.mul(j, shape.group), g), e.add(run.start, j),
           e.add(e.mul(keyHead, shape.group), g));
    });
  });
}

void DecodeGenerator::loadQuery(Value slot, Value position, Value head) {
  Value row = ringRow(e.b, extentOf(op.getQuery()), batch, position);
  Value first = e.add(e.mul(head, shape.head), shape.queryColumn);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(e.load(query, {row, columnOf(first, j)}, validOf(j)), queries,
            {slot, e.index(j * e.lanes)});
    e.store(e.splat(0), accumulator, {slot, e.index(j * e.lanes)});
  }
  Value none = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(-infinity));
  e.store(none, maximum, {slot, e.index(0)});
  e.store(e.splat(0), sum, {slot, e.index(0)});
}

/// Row of `ring` that holds key `i` of the block at q0. Blocks begin at multiples of their size:
/// one lies together in a ring of whole blocks, and its rows behind the valid length exist. In
/// another ring the last valid position stands for those.
Value DecodeGenerator::rowOf(Value ring, Value q0, Value i) {
  if (isWhole(ring)) {
    return e.add(ringRow(e.b, extentOf(ring), batch, q0), i);
  }
  return ringRow(e.b, extentOf(ring), batch, e.min(e.add(q0, i), e.add(length, -1)));
}

/// Asks for a head's columns of the row that the next block reads: rows lie too far apart for a
/// processor to find out by itself.
void DecodeGenerator::prefetch(Value ring, Value memory, Value row, Value column) {
  if (!isWhole(ring)) {
    return;
  }
  for (int64_t i = 0; i < shape.head; i += lineBytes / shape.elementBytes) {
    memref::PrefetchOp::create(e.b, memory, ValueRange{e.add(row, blockKeys), e.add(column, i)},
                               /*isWrite=*/false, /*localityHint=*/3, /*isDataCache=*/true);
  }
}

/// Keys [q0, q0 + blockKeys).
void DecodeGenerator::emitKeyBlock(Value q0) {
  eachQuery([&](Value slot, Value position, Value head) {
    BlockClass block =
        classifyBlock(e, op.getMask(), position, 1, q0, blockKeys, {e.add(position, 1), length});
    e.when(block.some, [&] {
      Value none = e.splat(-infinity);
      auto scored = [&](Value i, ValueRange before) {
        Value scores = emitScores(slot, position, head, q0, i);
        e.store(scores, chances, {i});
        return Emitter::Values{e.maxf(before.front(), scores)};
      };
      Value highest = e.loop(e.index(0), e.index(blockKeys), e.lanes, none, scored).front();
      accumulate(slot, q0, greatest(highest));
    });
  });
}

/// Scores of a query with keys [first, first + lanes) of the block at q0, -inf where the mask
/// forbids.
Value DecodeGenerator::emitScores(Value slot, Value position, Value head, Value q0, Value first) {
  Emitter::Values dots(e.lanes, e.splat(0)), rows;
  for (int64_t i = 0; i < e.lanes; ++i) {
    rows.push_back(rowOf(op.getKey(), q0, e.add(first, i)));
    prefetch(op.getKey(), key, rows.back(), keyColumn);
  }
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value factor = e.load(queries, {slot, e.index(j * e.lanes)});
    for (int64_t i = 0; i < e.lanes; ++i) {
      dots[i] = e.fma(factor, e.load(key, {rows[i], columnOf(keyColumn, j)}, validOf(j)), dots[i]);
    }
  }
  Value p = e.toInteger(position), q = emitQueries(e, q0, first);
  Value score =
      e.broadcast(emitRegion(e, op.getScore(), {e.sumEach(dots), p, q, e.toInteger(head)}));
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

/// Takes the block's scores, whose greatest is `highest` in every lane, to the query's sums.
void DecodeGenerator::accumulate(Value slot, Value q0, Value highest) {
  Value before = e.broadcast(e.loadScalar(maximum, {slot, e.index(0)}));
  Value now = e.maxf(before, highest);
  // A query that has met no key yet keeps -inf; subtracting 0 instead makes its terms e^-inf = 0,
  // not NaN.
  Value none = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, now, e.splat(-infinity));
  Value shift = e.select(none, e.splat(0), now);
  Value factor = emitExp(e, e.subf(before, shift));
  e.store(vector::ExtractOp::create(e.b, now, int64_t(0)), maximum, {slot, e.index(0)});
  Value scaled = e.mulf(e.load(sum, {slot, e.index(0)}), factor);
  Value total =
      e.loop(e.index(0), e.index(blockKeys), e.lanes, scaled, [&](Value i, ValueRange sums) {
         Value terms = emitExp(e, e.subf(e.load(chances, {i}), shift));
         e.store(terms, chances, {i});
         return Emitter::Values{e.addf(sums.front(), terms)};
       }).front();
  e.store(total, sum, {slot, e.index(0)});
  addValues(slot, q0, factor);
}

/// accumulator = factor accumulator + chances V, in column chunks that registers hold twice: keys
/// of even and of odd position are summed apart, for twice as many multiplications at a time.
void DecodeGenerator::addValues(Value slot, Value q0, Value factor) {
  int64_t most = frame.target().registers / 4;
  Value valid = e.min(e.index(blockKeys), e.sub(length, q0)); // the chances of others are 0
  for (int64_t first = 0; first < shape.headVectors; first += most) {
    int64_t count = std::min(most, shape.headVectors - first);
    Emitter::Values sums(2 * count, e.splat(0));
    for (int64_t j = 0; j < count; ++j) {
      sums[j] = e.mulf(e.load(accumulator, {slot, e.index((first + j) * e.lanes)}), factor);
    }
    sums = e.loop(e.index(0), valid, 2, sums, [&](Value i, ValueRange carried) {
      Emitter::Values next(carried);
      for (int64_t odd : {0, 1}) {
        Value at = e.add(i, odd);
        Value row = rowOf(op.getValue(), q0, odd ? e.min(at, e.add(valid, -1)) : at);
        if (first == 0) {
          prefetch(op.getValue(), value, row, valueColumn);
        }
        Value chance = e.broadcast(e.loadScalar(chances, {at}));
        for (int64_t j = 0; j < count; ++j) {
          Value held = e.load(value, {row, columnOf(valueColumn, first + j)}, validOf(first + j));
          next[odd * count + j] = e.fma(chance, held, next[odd * count + j]);
        }
      }
      return next;
    });
    for (int64_t j = 0; j < count; ++j) {
      e.store(e.addf(sums[j], sums[count + j]), accumulator,
              {slot, e.index((first + j) * e.lanes)});
    }
  }
}

void DecodeGenerator::storeResult(Value slot, Value position, Value head) {
  Value total = e.sum(e.load(sum, {slot, e.index(0)}));
  Value some = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, total, e.splat(0));
  Value divisor = e.select(some, total, e.splat(1));
  Value share = arith::DivFOp::create(e.b, e.splat(1), divisor);
  Value row = ringRow(e.b, extentOf(op.getOutput()), batch, position);
  Value first = e.mul(head, shape.head);
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value result = e.mulf(e.load(accumulator, {slot, e.index(j * e.lanes)}), share);
    e.store(result, output, {row, columnOf(first, j)}, validOf(j));
  }
  Value greatestScore = e.broadcast(e.loadScalar(maximum, {slot, e.index(0)}));
  Value logarithm = e.addf(greatestScore, math::LogOp::create(e.b, divisor));
  logarithm = e.select(some, logarithm, e.splat(-infinity));
  e.store(vector::ExtractOp::create(e.b, logarithm, int64_t(0)), lse,
          {ringRow(e.b, extentOf(op.getLse()), batch, position), head});
}

FailureOr<Kernel> cpu::generateDecodeAttention(dispatch::AttentionOp op, ModuleOp module,
                                               StringRef name, const Target &target) {
  return DecodeGenerator(op, module, name, target).generate();
}
