// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of the head's weights and bias. An item is a block of tokens: it iterates over the
// valid rows in order, recomputes the block's logits and their gradient from the log-sum-exps of
// rows, and adds the products to sums in scratch. The result depends on shapes only.
#include "CrossEntropy.h"
#include "sluice/Target/Common/VectorMath.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

class WeightsGenerator : cross_entropy::LossGenerator {
public:
  WeightsGenerator(dispatch::CrossEntropyWeightGradientOp op, ModuleOp module, StringRef name,
                   const Target &target)
      : LossGenerator(op, op.getInput(), op.getWeight(), op.getTokens(), cross_entropy::Scoring(op),
                      getVocabularySize(op), module, name, target),
        op(op) {}

  Kernel generate();

private:
  static int64_t getVocabularySize(dispatch::CrossEntropyWeightGradientOp op) {
    return cast<RankedTensorType>(op.getWeight().getType()).getDimSize(0);
  }
  void allocate();
  void emitStart();
  void emitAllRows();
  void emitRun(Value run, Value length);
  void emitRows(Value row0, Value count);
  void emitGradient(const RowStream &rows, Value count);
  Value finalScale();
  void addBias(Value count);
  void storeWeight();
  void storeBias();

  dispatch::CrossEntropyWeightGradientOp op;
  Value lse, bias, initWeight, initBias, weightGradient, biasGradient; // tensors
  Value gradient, biasBlock, biasSums, logSums, ids;                   // scratch
  Value incomings;     // scratch: incoming gradients of rows, if these differ
  Value token0, limit; // first token of the block, and its end
};

} // namespace

void WeightsGenerator::allocate() {
  unsigned next = 3;
  lse = frame.buffer(next++);
  bias = op.getBias() ? frame.buffer(next++) : Value();
  rowGradient = op.getRowGradient() ? frame.buffer(next++) : Value();
  initWeight = op.getInitWeight() ? frame.buffer(next++) : Value();
  initBias = op.getInitBias() ? frame.buffer(next++) : Value();
  weightGradient = frame.buffer(next++);
  biasGradient = op.getBiasGradient() ? frame.buffer(next++) : Value();
  gradient = frame.scratch(numbers({shape.steps, shape.block}));
  biasBlock = frame.scratch(numbers({shape.block}));
  biasSums = frame.scratch(numbers({shape.block}));
  logSums = frame.scratch(numbers({shape.steps}));
  ids = frame.scratch(MemRefType::get({shape.steps}, e.b.getI32Type()));
  incomings = scoring.differsByRow() ? frame.scratch(numbers({shape.steps})) : Value();
}

Kernel WeightsGenerator::generate() {
  allocate();
  token0 = e.mul(frame.item(), shape.block);
  limit = e.index(shape.vocabulary);
  emitStart();
  emitAllRows();
  storeWeight();
  if (biasGradient) {
    storeBias();
  }
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = llvm::divideCeil(shape.vocabulary, shape.block);
  kernel.scratchBytes = frame.scratchBytes();
  kernel.kind = "matmul";
  double rows = shape.rows(), weights = double(shape.vocabulary) * shape.width;
  kernel.flops = 4 * rows * weights;
  kernel.bytes = shape.factorBytes * (rows * shape.width + weights) +
                 4 * (rows * (rowGradient ? 3 : 2) + (initWeight ? 2 : 1) * weights);
  return kernel;
}

void WeightsGenerator::emitAllRows() {
  if (!validLength) {
    e.loop(e.index(0), validRows, 1, [&](Value run) { emitRun(run, lengths.of(run)); });
    return;
  }
  // Full sequences form a single run of rows; shorter ones are one run each.
  Value whole =
      arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, validLength, e.index(shape.positions));
  Value runs = e.select(whole, e.index(1), validRows);
  Value length = e.select(whole, e.mul(validRows, shape.positions), validLength);
  e.loop(e.index(0), runs, 1, [&](Value run) { emitRun(run, length); });
}

void WeightsGenerator::emitRun(Value run, Value length) {
  e.loop(e.index(0), length, shape.steps, [&](Value from) {
    emitRows(e.add(e.mul(run, shape.positions), from),
             e.min(e.index(shape.steps), e.sub(length, from)));
  });
}

/// Packs the block's weights and bias, and clears the sums. Lanes past the last token repeat it;
/// their results are not stored.
void WeightsGenerator::emitStart() {
  packHeld(weight, [&](Value i) { return e.min(e.add(token0, i), e.index(shape.vocabulary - 1)); });
  attention::emitFill(e, sums, 0);
  eachVector([&](Value offset) {
    e.store(e.splat(0), biasSums, {offset});
    if (bias) {
      Value token = e.add(token0, offset);
      e.store(loadBelow(bias, ValueRange{token}, token, limit), biasBlock, {offset});
    }
  });
}

void WeightsGenerator::emitRows(Value row0, Value count) {
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value row = e.add(row0, i), sequence = e.floorDiv(row, shape.positions);
    Value position = e.sub(row, e.mul(sequence, shape.positions));
    e.store(e.loadScalar(lse, {sequence, position}), logSums, {i});
    e.store(e.toInteger(getTargetToken(row)), ids, {i});
    if (incomings) {
      e.store(incoming(row), incomings, {i});
    }
  });
  RowStream rows = stream(input, /*isPadded=*/true, row0, count);
  emitGradient(rows, count);
  if (biasGradient) {
    addBias(count);
  }
  emitProducts(rows, count, gradient, e.index(0));
}

/// Computes gradient[i][v] = e^(x - lse) - y[v], times the row's incoming gradient if these differ.
void WeightsGenerator::emitGradient(const RowStream &rows, Value count) {
  Value even =
      scoring.smoothing > 0 ? e.splat(scoring.smoothing / float(shape.vocabulary)) : Value();
  emitScores(rows, count, [&](Value row, Value column, attention::Accumulators &tile) {
    for (auto [i, line] : llvm::enumerate(tile)) {
      Value at = e.add(row, i), shift = e.broadcast(e.loadScalar(logSums, {at}));
      Value scale = incomings ? e.broadcast(e.loadScalar(incomings, {at})) : Value();
      for (auto [j, logit] : llvm::enumerate(line)) {
        Value lane = e.add(column, j * e.lanes);
        Value x = bias ? e.addf(logit, e.load(biasBlock, {lane})) : logit;
        Value g = emitExp(e, e.subf(x, shift));
        g = even ? e.subf(g, even) : g;
        e.store(scale ? e.mulf(g, scale) : g, gradient, {at, lane});
      }
    }
  });
  Value one = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(1 - scoring.smoothing));
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value whole = incomings ? e.mulf(one, e.loadScalar(incomings, {i})) : one;
    Value lane = e.sub(loadIndex(ids, i), token0);
    Value own = e.both(e.atLeast(lane, e.index(0)), e.less(lane, e.index(shape.block)));
    e.when(own,
           [&] { e.store(e.subf(e.loadScalar(gradient, {i, lane}), whole), gradient, {i, lane}); });
  });
}

void WeightsGenerator::addBias(Value count) {
  Values offsets, zeros;
  eachVector([&](Value offset) {
    offsets.push_back(offset);
    zeros.push_back(e.splat(0));
  });
  Values part = e.loop(e.index(0), count, 1, zeros, [&](Value i, ValueRange carried) {
    Values next;
    for (auto [offset, sum] : llvm::zip_equal(offsets, carried)) {
      next.push_back(e.addf(sum, e.load(gradient, {i, offset})));
    }
    return next;
  });
  for (auto [offset, sum] : llvm::zip_equal(offsets, part)) {
    e.store(e.addf(e.load(biasSums, {offset}), sum), biasSums, {offset});
  }
}

/// Returns the factor of the final sums: the incoming gradient if it is the same for all rows.
Value WeightsGenerator::finalScale() { return incomings ? e.splat(1) : e.broadcast(share()); }

void WeightsGenerator::storeWeight() {
  Value shareOfRow = finalScale(), width = e.index(shape.width);
  unpackSums(shareOfRow);
  Value count = e.min(e.index(shape.block), e.sub(limit, token0));
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value token = e.add(token0, i);
    eachColumn([&](Value column) {
      Value value = e.load(staging, {i, column});
      if (initWeight) {
        value = e.addf(loadBelow(initWeight, ValueRange{token, column}, column, width), value);
      }
      storeBelow(value, weightGradient, ValueRange{token, column}, column, width);
    });
  });
}

void WeightsGenerator::storeBias() {
  Value shareOfRow = finalScale();
  eachVector([&](Value offset) {
    Value token = e.add(token0, offset);
    Value value = e.mulf(e.load(biasSums, {offset}), shareOfRow);
    if (initBias) {
      value = e.addf(loadBelow(initBias, ValueRange{token}, token, limit), value);
    }
    storeBelow(value, biasGradient, ValueRange{token}, token, limit);
  });
}

FailureOr<Kernel> cpu::generateCrossEntropyWeightGradient(dispatch::CrossEntropyWeightGradientOp op,
                                                          ModuleOp module, StringRef name,
                                                          const Target &target) {
  return WeightsGenerator(op, module, name, target).generate();
}
