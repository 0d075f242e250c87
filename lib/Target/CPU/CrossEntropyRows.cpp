// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses of rows and, in training, the rows' gradient. An item is a block of rows: their logits are
// formed against all of W, kept in the thread's scratch as [token][row], and turned into the
// gradient there.
#include "CrossEntropy.h"
#include "Tile.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class RowsGenerator : cross_entropy::Generator {
public:
  RowsGenerator(dispatch::CrossEntropyOp op, ModuleOp module, StringRef name, const Target &target)
      : Generator(op, op.getInput(), op.getWeight(), op.getTokens(), op.getDomain(), op.getOffset(),
                  op.getDomain().getLaunchRows(), module, name, target),
        op(op) {}

  Kernel generate();

private:
  void allocate();
  void emitItem();
  void emitLogits();
  void emitSums();
  void emitLosses();
  void emitGradient();
  /// Runs `body` for each row of the block that lies in the batch.
  void eachRow(function_ref<void(Value i, Value row)> body) {
    e.loop(e.index(0), count, 1, [&](Value i) { body(i, e.add(first, i)); });
  }
  void storeNumber(Value number, Value memory, Value row);

  dispatch::CrossEntropyOp op;
  Value bias, losses, lse, gradient;                  // tensors
  Value logits, maximum, total, logSums, scales, ids; // scratch
  Value first, count;
};

} // namespace

void RowsGenerator::allocate() {
  unsigned next = 3;
  bias = op.getBias() ? frame.buffer(next++) : Value();
  losses = frame.buffer(next++);
  lse = op.getLse() ? frame.buffer(next++) : Value();
  gradient = op.getInputGradient() ? frame.buffer(next++) : Value();
  logits = frame.scratch(numbers({shape.vocabulary, shape.block}));
  maximum = frame.scratch(numbers({shape.block}));
  total = frame.scratch(numbers({shape.block}));
  logSums = frame.scratch(numbers({shape.block}));
  scales = frame.scratch(numbers({shape.block}));
  ids = frame.scratch(MemRefType::get({shape.block}, e.b.getI32Type()));
}

Kernel RowsGenerator::generate() {
  allocate();
  first = e.mul(frame.item(), shape.block);
  count = e.min(e.index(shape.block), e.sub(e.index(shape.rows()), first));
  Value any = emitAnyValid(e.b, domain, validLength, validRows, first, count);
  e.when(
      any, [&] { emitItem(); },
      [&] {
        Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
        eachRow([&](Value, Value row) { storeNumber(zero, losses, row); });
      });
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = llvm::divideCeil(shape.rows(), shape.block);
  kernel.scratchBytes = frame.scratchBytes();
  kernel.kind = "matmul";
  double matmul = 2.0 * shape.rows() * shape.width * shape.vocabulary;
  kernel.flops = (gradient ? 2 : 1) * matmul;
  double rows = shape.rows(), weights = double(shape.vocabulary) * shape.width;
  kernel.bytes = 4 * (rows * ((gradient ? 2 : 1) * shape.width + (lse ? 3 : 2)) + weights);
  return kernel;
}

void RowsGenerator::storeNumber(Value number, Value memory, Value row) {
  Value sequence = e.floorDiv(row, shape.positions);
  e.store(number, memory, {sequence, e.sub(row, e.mul(sequence, shape.positions))});
}

// Lanes of rows that are not valid, or not in the batch, compute what nobody stores: lanes never
// meet.
void RowsGenerator::emitItem() {
  packHeld(input, /*isPadded=*/true,
           [&](Value i) { return e.min(e.add(first, i), e.index(shape.rows() - 1)); });
  emitLogits();
  eachRow([&](Value i, Value row) {
    Value id = targetOf(row);
    e.store(e.toInteger(id), ids, {i});
    e.store(e.loadScalar(logits, {id, i}), logSums, {i});
  });
  emitSums();
  emitLosses();
  if (gradient) {
    emitGradient();
  }
}

/// logits[v][i] = W x + b, and maximum[i] over v.
void RowsGenerator::emitLogits() {
  eachVector([&](Value offset) { e.store(e.splat(-infinity), maximum, {offset}); });
  emitScores(weight, shape.vocabulary,
             [&](Value token, Value column, attention::Accumulators &tile) {
               for (size_t j = 0; j < tile.front().size(); ++j) {
                 Value offset = e.add(column, j * e.lanes);
                 Value best = e.load(maximum, {offset});
                 for (auto [i, line] : llvm::enumerate(tile)) {
                   Value row = e.add(token, i), logit = line[j];
                   if (bias) {
                     logit = e.addf(logit, e.broadcast(e.loadScalar(bias, {row})));
                   }
                   e.store(logit, logits, {row, offset});
                   best = e.maxf(logit, best);
                 }
                 e.store(best, maximum, {offset});
               }
             });
}

/// logits = e^(logits - maximum) where the gradient wants them, and total[i] their sum over v: sums
/// of 64 tokens are added up, so that a large vocabulary costs no more rounding than a small one.
void RowsGenerator::emitSums() {
  constexpr int64_t run = 64;
  Emitter::Values offsets, shifts, zeros;
  eachVector([&](Value offset) {
    offsets.push_back(offset);
    shifts.push_back(e.load(maximum, {offset}));
    zeros.push_back(e.splat(0));
  });
  Value vocabulary = e.index(shape.vocabulary);
  Emitter::Values sums =
      e.loop(e.index(0), vocabulary, run, zeros, [&](Value token0, ValueRange before) {
        Value end = e.min(vocabulary, e.add(token0, run));
        Emitter::Values part = e.loop(token0, end, 1, zeros, [&](Value token, ValueRange carried) {
          Emitter::Values next;
          for (auto [j, offset] : llvm::enumerate(offsets)) {
            Value term = emitExp(e, e.subf(e.load(logits, {token, offset}), shifts[j]));
            next.push_back(e.addf(carried[j], term));
            if (gradient) {
              e.store(term, logits, {token, offset});
            }
          }
          return next;
        });
        for (auto [sum, addend] : llvm::zip_equal(part, before)) {
          sum = e.addf(sum, addend);
        }
        return part;
      });
  for (auto [offset, sum] : llvm::zip_equal(offsets, sums)) {
    e.store(sum, total, {offset});
  }
}

/// Stores losses and log-sum-exps. `logSums` holds the targets' logits before.
void RowsGenerator::emitLosses() {
  Value shareOfRow = e.broadcast(share());
  eachVector([&](Value offset) {
    Value sum = e.load(total, {offset}), top = e.load(maximum, {offset});
    Value logarithm = math::LogOp::create(e.b, sum);
    Value chosen = e.load(logSums, {offset});
    e.store(arith::DivFOp::create(e.b, shareOfRow, sum), scales, {offset});
    e.store(e.addf(top, logarithm), logSums, {offset});
    e.store(e.addf(e.subf(top, chosen), logarithm), maximum, {offset});
  });
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  eachRow([&](Value i, Value row) {
    Value valid = isValid(row);
    storeNumber(e.select(valid, e.loadScalar(maximum, {i}), zero), losses, row);
    if (lse) {
      e.when(valid, [&] { storeNumber(e.loadScalar(logSums, {i}), lse, row); });
    }
  });
}

/// The gradient of the logits is (e^(x - maximum) - total [v = target]) / total / (valid rows); the
/// division is left to the sums over v.
void RowsGenerator::emitGradient() {
  eachRow([&](Value i, Value) {
    Value id = loadIndex(ids, i);
    Value difference = e.subf(e.loadScalar(logits, {id, i}), e.loadScalar(total, {i}));
    e.store(difference, logits, {id, i});
  });
  attention::emitFill(e, sums, 0);
  Value vocabulary = e.index(shape.vocabulary);
  e.loop(e.index(0), vocabulary, shape.steps, [&](Value token) {
    Value steps = e.min(e.index(shape.steps), e.sub(vocabulary, token));
    emitProducts(weight, token, steps, logits, token);
  });
  unpackSums([&](Value i) { return e.load(scales, {i}); });
  eachRow([&](Value i, Value row) {
    e.when(isValid(row), [&] {
      eachColumn(
          [&](Value column) { e.store(e.load(staging, {i, column}), gradient, {row, column}); });
    });
  });
}

FailureOr<Kernel> cpu::generateCrossEntropy(dispatch::CrossEntropyOp op, ModuleOp module,
                                            StringRef name, const Target &target) {
  return RowsGenerator(op, module, name, target).generate();
}
