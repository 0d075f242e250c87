// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common parts of the launches of attention backward.
#include "Backward.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

BackwardStage::BackwardStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                             ModuleOp module, StringRef name)
    : op(op), shape(shape), f(op, op.getDomain(), shape, module, name), e(f.e), b(f.b),
      roundedPositions(shape.queryTiles(fixedRows) * fixedRows) {}

Source BackwardStage::source(unsigned operand, Value headIndex, int64_t column) {
  bool aligned = shape.head % chunkElements == 0 && column % chunkElements == 0;
  bool isOfKeys = operand == Key || operand == ValueRows;
  return {isOfKeys ? f.keys : f.queries, f.frame.buffer(operand),
          e.add(e.mul(headIndex, shape.head), column), e.index(shape.head), aligned};
}

Source BackwardStage::getOperandGradient(unsigned operand, Value headIndex, int64_t column) {
  Source target = source(operand, headIndex, column);
  unsigned number = dispatch::getGradientIndex(operand, op.getSourceGradients().size());
  target.memory = f.frame.buffer(op->getNumOperands() + number);
  unsigned rotary = shape.firstTerm + unsigned(op.getTerms().count());
  target.rotary = operand != ValueRows && op.getRotary() ? f.frame.buffer(rotary) : Value();
  target.together = columnsTogether(shape, column);
  return target;
}

Source BackwardStage::gradientOfTerm(unsigned term, Value headIndex) {
  Source target = sourceOfTerm(f, term, headIndex);
  auto sources = unsigned(op.getSourceGradients().size());
  target.memory = f.frame.buffer(op->getNumOperands() + sources + term);
  target.together = columnsTogether(shape, 0);
  if (term == 1 && shape.rowTable) { // parts of all distances, head by head
    target.rows = f.distances;
    Value part = e.add(e.mul(f.batchRow, shape.heads), headIndex);
    target.rows.base = e.mul(part, shape.distances);
  }
  return target;
}

static int64_t statisticRows(const AttentionShape &shape) {
  return ((shape.biasRows > 0) + shape.hasFarther() + 2) * shape.batch * shape.heads;
}

Value BackwardStage::statistics() {
  auto type = MemRefType::get({statisticRows(shape), roundedPositions}, b.getF32Type());
  Value arena = f.frame.function.getArgument(0);
  return memref::ViewOp::create(b, type, arena, f.frame.workspace(), ValueRange{});
}

Value BackwardStage::statisticsRow(int64_t which, Value head) {
  Value row = e.add(e.mul(f.batchRow, shape.heads), head);
  return e.add(row, which * shape.batch * shape.heads);
}

Value BackwardStage::computeSlot(Value position) {
  int64_t step = f.queries.step;
  if (step == 1) {
    return position;
  }
  auto [number, ofClass] = f.split(position, step);
  return e.add(e.mul(ofClass, roundedPositions / step), number);
}

KernelStage BackwardStage::finish(int64_t blocks, int64_t sharedBytes) {
  return f.frame.finish(f.frame.kernel(blocks, "attention", 0, sharedBytes))->stages.front();
}

// Twice an extreme log-sum-exp is larger than log2(e) times any other one.
Value BackwardStage::loadStatistic(Value logSum) {
  return e.select(isLarger(f, logSum, largestExponent), e.mulf(logSum, f.f32(2)),
                  e.mulf(logSum, f.f32(log2e)));
}

Value BackwardStage::isExtreme(Value statistic) {
  Value finite = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, statistic, f.f32(infinity));
  return e.both(isLarger(f, statistic, 1.75f * largestExponent), finite);
}

/// Extreme log-sum-exps are subtracted before scaling. They are so large that rounding loses the
/// contributions of smaller terms and may make the difference positive. An exponent of P never is,
/// so the difference is clamped to 0.
Values BackwardStage::probabilities(const Products &products, int64_t columns, Value head,
                                    Value full, Value extreme, bool bounded, Positions positions,
                                    ElementFunction logSum, ElementFunction bias) {
  size_t i = 0;
  Values scores = mapScores(products.raw, columns, [&](Value score, const ElementPlace &at) {
    auto [p, q] = positions(at);
    Value own = shape.biasRows > 0 ? bias(at) : Value();
    return emitScore(f, op.getScore(), withTerms({score, p, q, head}, {products.at(i++), own}));
  });
  auto exponent = [&](Value score, const ElementPlace &at) -> Value {
    Value negative = arith::NegFOp::create(b, logSum(at));
    return e.fma(score, f.f32(f.exponentFactor()), negative);
  };
  auto difference = [&](Value score, const ElementPlace &at) -> Value {
    Value half = e.mulf(logSum(at), f.f32(0.5));
    Value exact = e.mulf(e.subf(emitExactScore(f, score), half), f.f32(log2e));
    exact = arith::MinNumFOp::create(b, exact, f.f32(0));
    return e.select(isExtreme(logSum(at)), exact, exponent(score, at));
  };
  Values result = emitEither(
      f, extreme, scores.size(), [&] { return mapScores(scores, columns, difference); },
      [&] { return mapScores(scores, columns, exponent); });
  result =
      mapScores(result, columns, [&](Value x, const ElementPlace &) { return emitExp2(f, x); });
  return maskScores(f, result, columns, full, 0, [&](const ElementPlace &at) {
    auto [p, q] = positions(at);
    return emitMaskAt(f, p, q, bounded);
  });
}

Values BackwardStage::scale(float factor) {
  return factor == 1 ? Values() : Values(2, f.f32(factor));
}

/// Applies the derivative region to g = P (keep dP - delta). Where P is 0, the score is undefined
/// and its derivative may be infinite, so the result is set to 0.
BackwardStage::Gradients
BackwardStage::scoreGradients(const Products &products, const Values &probability,
                              const Values &change, int64_t columns, Value head,
                              Positions positions, ElementFunction delta, ElementFunction bias) {
  bool hasBiases = shape.biasRows > 0;
  bool isPlain = shape.gradientFactor && (!hasBiases || shape.addsBiases) &&
                 (!shape.hasRows || shape.addsRows);
  bool readsBiases =
      hasBiases && !op.getScoreGradient().getArgument(op.getTerms().biasArgument()).use_empty();
  Gradients result;
  size_t i = 0;
  result.scores =
      mapScores(products.raw, columns, [&](Value score, const ElementPlace &at) -> Value {
        auto [p, q] = positions(at);
        Value moved = change[i], some = probability[i], none = f.f32(0),
              byDistance = products.at(i);
        if (shape.dropout > 0) {
          Value kept = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, some, none);
          moved = e.select(kept, e.mulf(moved, f.f32(1 / (1 - shape.dropout))), none);
          some = math::AbsFOp::create(b, some);
        }
        ++i;
        Value g = e.mulf(some, e.subf(moved, delta(at)));
        if (isPlain) {
          result.biases.push_back(g);
          return g;
        }
        // The region does not read g where it replaces an absent term.
        Value product = byDistance || !shape.hasRows ? byDistance : g;
        Value own = readsBiases ? bias(at) : hasBiases ? g : Value();
        Values derived =
            emitAll(e, op.getScoreGradient(), withTerms({score, p, q, head}, {product, own, g}));
        Value absent = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, some, none);
        auto present = [&](Value x) { return e.select(absent, none, x); };
        if (shape.hasRows && !shape.addsRows) {
          result.byDistance.push_back(present(derived[1]));
        }
        if (hasBiases) {
          result.biases.push_back(present(derived.back()));
        }
        return shape.gradientFactor ? g : present(derived[0]);
      });
  if (result.byDistance.empty()) {
    result.byDistance = result.scores;
  }
  return result;
}

void StreamedQueries::loadStatistics(Value offset, Value head, Value p0) {
  // The first threads copy log-sum-exps, the next ones deltas.
  int64_t chunks = queries * 4 / chunkBytes;
  e.when(e.less(f.thread, e.index(2 * chunks)), [&] {
    auto [which, chunk] = f.split(f.thread, chunks);
    Value row = e.add(statisticsRow(0, head), e.mul(which, shape.batch * shape.heads));
    Value from = f.core.global(statistics(), {row, e.add(computeSlot(p0), e.mul(chunk, 4))});
    f.core.copy(f.core.shared(e.add(offset, e.mul(f.thread, chunkBytes)), numbersByte), from);
  });
}

/// Reads pairs.
Values StreamedQueries::readStatistics(int64_t which, Value offset) {
  Value at = e.add(offset, e.mul(f.quad, 8));
  Values numbers;
  for (int64_t i = 0; i < queries; i += fragmentColumns) {
    Value two = f.core.load(VectorType::get({2}, b.getF32Type()),
                            f.core.shared(at, numbersByte + (which * queries + i) * 4), 8);
    for (int64_t j : {0, 1}) {
      numbers.push_back(vector::ExtractOp::create(b, two, ArrayRef<int64_t>{j}));
    }
  }
  return numbers;
}

/// Returns i1, uniform in the warp: one of the tile's log-sum-exps is extreme. Each lane tests two
/// of 64.
Value StreamedQueries::anyExtreme(Value offset) {
  Value lane = f.frame.lane, extreme;
  if (queries < threadsPerWarp) {
    lane = f.split(lane, queries).second;
  }
  Value at = e.add(offset, e.mul(lane, 4));
  for (int64_t i = 0; i < queries; i += threadsPerWarp) {
    Value is = isExtreme(f.core.load(b.getF32Type(), f.core.shared(at, numbersByte + i * 4), 4));
    extreme = extreme ? Value(arith::OrIOp::create(b, extreme, is)) : is;
  }
  return NVVM::VoteSyncOp::create(b, b.getI1Type(), e.integer(-1), extreme,
                                  NVVM::VoteSyncKind::any);
}

// If the chunks of a line are not a power of two, a thread keeps a separate address for each chunk
// that it copies.
int64_t attention::chooseRows(const AttentionShape &shape, int64_t sums) {
  bool narrow = shape.width <= 64, two = sums == 2;
  int64_t rows = narrow || (shape.width <= 128 && !two) ? 64 : 32;
  rows = shape.heavy && (two || !narrow) ? rows / 2 : rows;
  bool even = llvm::isPowerOf2_64(uint64_t(shape.width));
  return shape.heavy && !narrow && !even ? fragmentRows : rows;
}

FailureOr<Kernel> cuda::generateAttentionBackward(dispatch::AttentionBackwardOp op, ModuleOp module,
                                                  StringRef name) {
  FailureOr<AttentionShape> shape = makeShape(op);
  if (failed(shape)) {
    return failure();
  }
  Kernel kernel;
  kernel.stages.push_back(makeQueryStage(op, *shape, module, (name + "_queries").str()));
  kernel.stages.push_back(makeKeyStage(op, *shape, module, (name + "_keys").str()));
  if (shape->hasTerms()) {
    kernel.stages.push_back(makeDistanceStage(op, *shape, module, (name + "_distances").str()));
  }
  kernel.kind = "attention";
  double pairs = countPairs(shape->queries, shape->keys, op.getMask());
  kernel.flops =
      (shape->hasRows ? 16 : 10) * double(shape->head * shape->batch * shape->heads) * pairs;
  kernel.workspaceBytes = statisticRows(*shape) * shape->queryTiles(fixedRows) * fixedRows * 4;
  auto bytes = [&](Value tensor, int64_t heads) { return headBytes(*shape, tensor, heads); };
  double queries = bytes(op.getQuery(), shape->heads) + bytes(op.getOutputGradient(), shape->heads);
  double keys = bytes(op.getKey(), shape->kvHeads) + bytes(op.getValue(), shape->kvHeads);
  double rotary = rotaryBytes(*shape, op.getRotary());
  double terms = termBytes(*shape, op.getTerms());
  kernel.rereadBytes = (queries + keys + terms) * (shape->hasTerms() ? 2 : 1) + rotary;
  kernel.bytes = queries + keys + 2 * terms + rotary + bytes(op.getOutput(), shape->heads) +
                 double(shape->batch * shape->queries * shape->heads * 4);
  for (unsigned operand : {Query, Key, ValueRows}) {
    unsigned number = dispatch::getGradientIndex(operand, op.getSourceGradients().size());
    Value gradient = op.getGradients()[number];
    kernel.bytes += bytes(gradient, operand == Query ? shape->heads : shape->kvHeads);
  }
  return kernel;
}
