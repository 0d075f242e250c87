// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses of rows and, in training, the gradient of the rows. An item is a block of rows: it
// computes their logits with all of W as [token][row] in the thread's scratch, and turns them into
// the gradient in place.
#include "../Contract/Tile.h"
#include "CrossEntropy.h"
#include "sluice/Target/Common/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class RowsGenerator : cross_entropy::LossGenerator {
public:
  RowsGenerator(dispatch::CrossEntropyOp op, ModuleOp module, StringRef name, const Target &target)
      : LossGenerator(op, op.getInput(), op.getWeight(), op.getTokens(), cross_entropy::Scoring(op),
                      op.getDomain().getLaunchRows(), module, name, target),
        op(op) {}

  Kernel generate();

private:
  void allocate();
  void emitItem();
  void emitLogits();
  void storeLogits(Value token, Value column, attention::Accumulators &tile);
  void sumLogits();
  void setTargetsAside();
  void spreadTargets();
  void emitTerms();
  void addProducts(Value token0, Value end);
  void setShares();
  void emitLosses();
  void storeGradient();
  /// Runs `body` for each row of the block that is in the batch.
  void eachRow(function_ref<void(Value i, Value row)> body) {
    e.loop(e.index(0), count, 1, [&](Value i) { body(i, e.add(first, i)); });
  }
  void storeNumber(Value number, Value memory, Value row);

  dispatch::CrossEntropyOp op;
  Value bias, losses, lse, gradient;                // tensors
  Value logits, maximum, chosen, rest, scales, ids; // scratch
  Value evenly; // scratch, for label smoothing: sum of a row's logits minus the maximum each
  Value first, count;
};

} // namespace

void RowsGenerator::allocate() {
  unsigned next = 3;
  bias = op.getBias() ? frame.buffer(next++) : Value();
  rowGradient = op.getRowGradient() ? frame.buffer(next++) : Value();
  losses = frame.buffer(next++);
  lse = op.getLse() ? frame.buffer(next++) : Value();
  gradient = op.getInputGradient() ? frame.buffer(next++) : Value();
  logits = frame.scratch(numbers({shape.vocabulary, shape.block}));
  maximum = frame.scratch(numbers({shape.block}));
  chosen = frame.scratch(numbers({shape.block}));
  rest = frame.scratch(numbers({shape.block}));
  scales = frame.scratch(numbers({shape.block}));
  ids = frame.scratch(MemRefType::get({shape.block}, e.b.getI32Type()));
  evenly = scoring.smoothing > 0 ? frame.scratch(numbers({shape.block})) : Value();
}

Kernel RowsGenerator::generate() {
  allocate();
  first = e.mul(frame.item(), shape.block);
  count = e.min(e.index(shape.block), e.sub(e.index(shape.rows()), first));
  Value any = emitAnyValid(e.b, scoring.domain, lengths, validRows, first, count);
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
  kernel.bytes = shape.factorBytes * (rows * (gradient ? 2 : 1) * shape.width + weights) +
                 4 * rows * ((lse ? 3 : 2) + (rowGradient ? 1 : 0));
  return kernel;
}

void RowsGenerator::storeNumber(Value number, Value memory, Value row) {
  Value sequence = e.floorDiv(row, shape.positions);
  e.store(number, memory, {sequence, e.sub(row, e.mul(sequence, shape.positions))});
}

// Lanes of rows that are invalid or outside the batch compute unused values; lanes never mix.
void RowsGenerator::emitItem() {
  packHeld(input, [&](Value i) { return e.min(e.add(first, i), e.index(shape.rows() - 1)); });
  emitLogits();
  if (evenly) {
    sumLogits();
  }
  setTargetsAside();
  if (gradient) {
    attention::emitFill(e, sums, 0);
  }
  emitTerms();
  if (evenly && gradient) {
    spreadTargets();
  }
  emitLosses();
  if (gradient) {
    storeGradient();
  }
}

/// Computes evenly[i] = sum over v of logits[v][i] - maximum[i].
void RowsGenerator::sumLogits() {
  eachVector([&](Value offset) {
    Value top = e.load(maximum, {offset});
    Values start{e.splat(0)};
    Values sum = e.loop(e.index(0), e.index(shape.vocabulary), 1, start,
                        [&](Value token, ValueRange carried) {
                          Value x = e.subf(e.load(logits, {token, offset}), top);
                          return Values{e.addf(carried[0], x)};
                        });
    e.store(sum[0], evenly, {offset});
  });
}

/// Copies the targets' logits to `chosen` and excludes them from the sums over tokens.
void RowsGenerator::setTargetsAside() {
  Value none = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(-infinity));
  eachRow([&](Value i, Value row) {
    Value id = getTargetToken(row);
    e.store(e.toInteger(id), ids, {i});
    e.store(e.loadScalar(logits, {id, i}), chosen, {i});
    e.store(none, logits, {id, i});
  });
}

/// Computes logits[v][i] = W x + b, and maximum[i] over v.
void RowsGenerator::emitLogits() {
  eachVector([&](Value offset) { e.store(e.splat(-infinity), maximum, {offset}); });
  if (!streamed) {
    emitScores(weight, shape.vocabulary,
               [&](Value token, Value column, attention::Accumulators &tile) {
                 storeLogits(token, column, tile);
               });
    return;
  }
  Value vocabulary = e.index(shape.vocabulary);
  e.loop(e.index(0), vocabulary, shape.steps, [&](Value token0) {
    Value tokensHere = e.min(e.index(shape.steps), e.sub(vocabulary, token0));
    emitScores(stream(weight, /*isPadded=*/false, token0, tokensHere), tokensHere,
               [&](Value row, Value column, attention::Accumulators &tile) {
                 storeLogits(e.add(token0, row), column, tile);
               });
  });
}

void RowsGenerator::storeLogits(Value token, Value column, attention::Accumulators &tile) {
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
}

/// For a block of tokens at a time, computes logits = e^(logits - maximum), their sum rest[i] and,
/// in training, the sums of their products with W. Adding block sums keeps rounding errors of large
/// and small vocabularies similar.
void RowsGenerator::emitTerms() {
  Values offsets, shifts, zeros;
  eachVector([&](Value offset) {
    offsets.push_back(offset);
    shifts.push_back(e.load(maximum, {offset}));
    zeros.push_back(e.splat(0));
  });
  Value vocabulary = e.index(shape.vocabulary);
  Values total =
      e.loop(e.index(0), vocabulary, shape.steps, zeros, [&](Value token0, ValueRange before) {
        Value end = e.min(vocabulary, e.add(token0, shape.steps));
        Values part = e.loop(token0, end, 1, zeros, [&](Value token, ValueRange carried) {
          Values next;
          for (auto [j, offset] : llvm::enumerate(offsets)) {
            Value term = emitExp(e, e.subf(e.load(logits, {token, offset}), shifts[j]));
            next.push_back(e.addf(carried[j], term));
            if (gradient) {
              e.store(term, logits, {token, offset});
            }
          }
          return next;
        });
        if (gradient && !evenly) {
          addProducts(token0, end);
        }
        for (auto [sum, addend] : llvm::zip_equal(part, before)) {
          sum = e.addf(sum, addend);
        }
        return part;
      });
  for (auto [offset, sum] : llvm::zip_equal(offsets, total)) {
    e.store(sum, rest, {offset});
  }
}

/// Computes sums += logits times rows [token0, end) of W.
void RowsGenerator::addProducts(Value token0, Value end) {
  Value tokensHere = e.sub(end, token0);
  RowStream rows = stream(weight, /*isPadded=*/false, token0, tokensHere);
  emitProducts(rows, tokensHere, logits, token0);
}

/// With label smoothing, once the sum s of all terms is known: subtracts the share of the target
/// from the term of every token, logits = e^(logits - maximum) - smoothing / V s, and sums the
/// products.
void RowsGenerator::spreadTargets() {
  Values offsets, shares;
  eachVector([&](Value offset) {
    Value below = e.subf(e.load(chosen, {offset}), e.load(maximum, {offset}));
    Value sum = e.addf(e.load(rest, {offset}), emitExp(e, below));
    offsets.push_back(offset);
    shares.push_back(e.mulf(sum, e.splat(scoring.smoothing / float(shape.vocabulary))));
  });
  Value vocabulary = e.index(shape.vocabulary);
  e.loop(e.index(0), vocabulary, shape.steps, [&](Value token0) {
    Value end = e.min(vocabulary, e.add(token0, shape.steps));
    e.loop(token0, end, 1, [&](Value token) {
      for (auto [offset, share] : llvm::zip_equal(offsets, shares)) {
        e.store(e.subf(e.load(logits, {token, offset}), share), logits, {token, offset});
      }
    });
    addProducts(token0, end);
  });
}

/// Sets scales to the incoming gradients of rows if these differ; lanes of other rows are
/// undefined.
void RowsGenerator::setShares() {
  eachRow([&](Value i, Value row) { e.store(incoming(row), scales, {i}); });
}

/// Stores losses and log-sum-exps; sets scales = (incoming gradient) / (sum of all terms).
void RowsGenerator::emitLosses() {
  bool differs = gradient && scoring.differsByRow();
  if (differs) {
    setShares();
  }
  Value shareOfAll = differs ? Value() : e.broadcast(share());
  eachVector([&](Value offset) {
    Value shareOfRow = differs ? e.load(scales, {offset}) : shareOfAll;
    Value top = e.load(maximum, {offset}), below = e.subf(e.load(chosen, {offset}), top);
    Value sum = e.addf(e.load(rest, {offset}), emitExp(e, below));
    Value logarithm = math::LogOp::create(e.b, sum);
    e.store(arith::DivFOp::create(e.b, shareOfRow, sum), scales, {offset});
    Value loss = e.subf(logarithm, below);
    if (evenly) {
      Value own = e.mulf(below, e.splat(1 - scoring.smoothing));
      Value all =
          e.mulf(e.load(evenly, {offset}), e.splat(scoring.smoothing / float(shape.vocabulary)));
      loss = e.subf(logarithm, e.addf(own, all));
      // The factor of the target's row of W, which `storeGradient` adds, is e^x[t] - (1 -
      // smoothing) s.
      e.store(e.subf(e.load(rest, {offset}), e.mulf(sum, e.splat(scoring.smoothing))), rest,
              {offset});
    }
    e.store(loss, chosen, {offset});
    e.store(e.addf(top, logarithm), maximum, {offset});
  });
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  eachRow([&](Value i, Value row) {
    Value valid = isValid(row);
    storeNumber(e.select(isScored(row), e.loadScalar(chosen, {i}), zero), losses, row);
    if (lse) {
      e.when(valid, [&] { storeNumber(e.loadScalar(maximum, {i}), lse, row); });
    }
  });
}

/// With s the sum of all terms, the target's share of the gradient is (e^x[t] - s) / s = - rest /
/// s; subtracts its row of W.
void RowsGenerator::storeGradient() {
  unpackSums();
  eachRow([&](Value i, Value row) {
    e.when(isValid(row), [&] {
      Value id = loadIndex(ids, i);
      Value minus = e.broadcast(arith::NegFOp::create(e.b, e.loadScalar(rest, {i})));
      Value scale = e.broadcast(e.loadScalar(scales, {i}));
      eachColumn([&](Value column) {
        Value own = loadBelow(weight, ValueRange{id, column}, column, e.index(shape.width));
        Value sum = e.fma(minus, own, e.load(staging, {i, column}));
        e.store(e.mulf(sum, scale), gradient, {row, column});
      });
    });
  });
}

FailureOr<Kernel> cpu::generateCrossEntropy(dispatch::CrossEntropyOp op, ModuleOp module,
                                            StringRef name, const Target &target) {
  return RowsGenerator(op, module, name, target).generate();
}
