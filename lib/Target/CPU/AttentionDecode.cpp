// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of an incremental step: few queries, many keys. An item is one (row of the batch,
// key/value head) with all queries that are due of the heads that share it. It goes over blocks of
// as many keys as a vector has lanes, in the order of their positions, with an online softmax: keys
// and values are read once, and sums depend on positions alone, not on where rings hold them nor on
// threads.
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
    return MemRefType::get({shape.positions * shape.group, columns}, e.b.getF32Type());
  }
  void allocate();
  void emitItem();
  void eachQuery(llvm::function_ref<void(Value slot, Value position, Value head)> body);
  void loadQuery(Value slot, Value position, Value head);
  void emitKeyBlock(Value q0);
  Value emitScores(Value slot, Value position, Value head, Value q0);
  void accumulate(Value slot, Value scores);
  void storeResult(Value slot, Value position, Value head);
  /// Column of vector `j` of a head's columns, which begin at `first`, and how many of its lanes
  /// are the head's.
  Value columnOf(Value first, int64_t j) { return e.add(first, j * e.lanes); }
  int64_t validOf(int64_t j) const { return shape.head - j * e.lanes; }
  Value greatest(Value vector);

  dispatch::AttentionOp op;
  const Shape shape;
  Frame frame;
  Emitter e;

  Value query, key, value, output, lse;              // tensors
  Value queries, accumulator, maximum, sum, chances; // scratch, by query but for the last
  Value batch, keyHead, keyColumn, valueColumn, length;
  Frame::Run run;
  SmallVector<Value> keyRows, valueRows; // of the block's keys
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
  chances = frame.scratch(MemRefType::get({e.lanes}, e.b.getF32Type()));
}

Kernel DecodeGenerator::generate() {
  allocate();
  batch = e.floorDiv(frame.item(), shape.kvHeads);
  keyHead = e.sub(frame.item(), e.mul(batch, shape.kvHeads));
  run = frame.run(batch);
  e.when(e.less(e.index(0), run.count), [&] { emitItem(); });
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = shape.batch * shape.kvHeads;
  kernel.scratchBytes = frame.scratchBytes();
  kernel.kind = "attention";
  double keys = double(extentOf(op.getKey()) * shape.batch);
  kernel.flops = 4.0 * double(shape.heads * shape.head * shape.positions) * keys;
  kernel.bytes = double(2 * shape.kvHeads * shape.head * shape.elementBytes) * keys;
  return kernel;
}

void DecodeGenerator::emitItem() {
  keyColumn = e.add(e.mul(keyHead, shape.head), shape.keyColumn);
  valueColumn = e.add(e.mul(keyHead, shape.head), shape.valueColumn);
  int64_t factor = op.getDomain().getFactor();
  length = e.floorDiv(e.add(run.length, factor - 1), factor);
  eachQuery([&](Value slot, Value position, Value head) { loadQuery(slot, position, head); });
  e.loop(e.index(0), length, e.lanes, [&](Value q0) { emitKeyBlock(q0); });
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

/// Keys [q0, q0 + lanes). From the valid length on, the last valid key stands for those that are
/// missing: the mask leaves it out, and what it holds is a number.
void DecodeGenerator::emitKeyBlock(Value q0) {
  keyRows.clear();
  valueRows.clear();
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value q = e.min(e.add(q0, i), e.add(length, -1));
    keyRows.push_back(ringRow(e.b, extentOf(op.getKey()), batch, q));
    valueRows.push_back(extentOf(op.getValue()) == extentOf(op.getKey())
                            ? keyRows.back()
                            : ringRow(e.b, extentOf(op.getValue()), batch, q));
  }
  eachQuery([&](Value slot, Value position, Value head) {
    BlockClass block = classifyBlock(e, op.getMask(), position, 1, q0, e.lanes, length);
    e.when(block.some, [&] { accumulate(slot, emitScores(slot, position, head, q0)); });
  });
}

/// Scores of a query with the block's keys, -inf where the mask forbids.
Value DecodeGenerator::emitScores(Value slot, Value position, Value head, Value q0) {
  Emitter::Values dots(e.lanes, e.splat(0));
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    Value factor = e.load(queries, {slot, e.index(j * e.lanes)});
    for (int64_t i = 0; i < e.lanes; ++i) {
      dots[i] =
          e.fma(factor, e.load(key, {keyRows[i], columnOf(keyColumn, j)}, validOf(j)), dots[i]);
    }
  }
  Value p = e.toInteger(position), q = emitQueries(e, q0, e.index(0));
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

void DecodeGenerator::accumulate(Value slot, Value scores) {
  Value before = e.broadcast(e.loadScalar(maximum, {slot, e.index(0)}));
  Value now = e.maxf(before, greatest(scores));
  // A query that has met no key yet keeps -inf; subtracting 0 instead makes its terms e^-inf = 0,
  // not NaN.
  Value none = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, now, e.splat(-infinity));
  Value shift = e.select(none, e.splat(0), now);
  Value factor = emitExp(e, e.subf(before, shift));
  Value terms = emitExp(e, e.subf(scores, shift));
  e.store(vector::ExtractOp::create(e.b, now, int64_t(0)), maximum, {slot, e.index(0)});
  e.store(e.addf(e.mulf(e.load(sum, {slot, e.index(0)}), factor), terms), sum, {slot, e.index(0)});
  e.store(terms, chances, {e.index(0)});
  Emitter::Values totals;
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    totals.push_back(e.mulf(e.load(accumulator, {slot, e.index(j * e.lanes)}), factor));
  }
  for (int64_t i = 0; i < e.lanes; ++i) {
    Value chance = e.broadcast(e.loadScalar(chances, {e.index(i)}));
    for (int64_t j = 0; j < shape.headVectors; ++j) {
      Value row = e.load(value, {valueRows[i], columnOf(valueColumn, j)}, validOf(j));
      totals[j] = e.fma(chance, row, totals[j]);
    }
  }
  for (int64_t j = 0; j < shape.headVectors; ++j) {
    e.store(totals[j], accumulator, {slot, e.index(j * e.lanes)});
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
