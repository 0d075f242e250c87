// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward. An item is one (row of the batch, query head, part of the queries). It packs
// the keys of the head once and then, for each block of queries, iterates over the blocks of keys
// that intersect the mask, with an online softmax.
#include "../../Common/Storage.h"
#include "Terms.h"
#include "sluice/Target/Common/VectorMath.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class ForwardGenerator {
public:
  ForwardGenerator(dispatch::AttentionOp op, ModuleOp module, StringRef name, const Target &target)
      : op(op), target(target), shape(makeShape(op, target)), frame(op, module, name, target),
        e(frame.builder(), target.lanes), terms(op, target, shape, frame, e),
        ranges(op.getRange(), frame, e, shape), parts(chooseParts()) {}

  Kernel generate();

private:
  int64_t chooseParts() const;
  MemRefType matrix(int64_t rows, int64_t columns) {
    return MemRefType::get({rows, columns}, e.b.getF32Type());
  }
  /// Rows of factors: f32, or pairs of bf16.
  MemRefType factors(int64_t rows, int64_t columns) {
    return MemRefType::get({rows, columns},
                           shape.pairs ? Type(e.b.getI32Type()) : e.b.getF32Type());
  }
  MemRefType perQuery() { return MemRefType::get({shape.queryBlock}, e.b.getF32Type()); }
  void allocate();
  void emitItem();
  void emitQueryBlock(Value block);
  void emitKeyBlock(Value q0);
  void emitScores(Value q0);
  void emitMaskedScores(Value q0);
  void emitSoftmax(Value q0, Value keys);
  void emitResults();
  /// Runs `body` for each vector of the block's queries.
  void eachVector(llvm::function_ref<void(int64_t vector, Value offset)> body) {
    for (int64_t j = 0; j < shape.queryVectors; ++j) {
      body(j, e.index(j * e.lanes));
    }
  }

  dispatch::AttentionOp op;
  const Target &target;
  const AttentionShape shape;
  Frame frame;
  Emitter e;
  HeadTerms terms;
  KeyRanges ranges;
  const int64_t parts;

  Value query, key, value, output, lse; // tensors
  Value keys, values, queries, scores, probabilities, keep, accumulator, rowsOfBlock, queryRows,
      maximum, sum, blockMaximum, rescale,
      sums; // scratch; `sums` are of AMX tiles
  Value queryLength, keyLength, batchRow, head, queryBase, keyBase, queryColumn, valueColumn, p0;
};

} // namespace

// A batch row and head is one item if there are enough of them. Otherwise blocks of queries are
// distributed cyclically over parts, so that all parts have similar work under a causal mask. Each
// further part repeats the packing of keys, which costs 2 of 4 N operations per key column.
int64_t ForwardGenerator::chooseParts() const {
  int64_t pairs = shape.batch * shape.heads;
  int64_t wanted = (16 + pairs - 1) / pairs;
  return pairs >= 8 ? 1 : std::min(wanted, (shape.queryBlocks + 1) / 2);
}

void ForwardGenerator::allocate() {
  unsigned next = 0;
  query = frame.buffer(next++);
  key = frame.buffer(next++);
  value = frame.buffer(next++);
  output = frame.buffer(op->getNumOperands());
  lse = frame.buffer(op->getNumOperands() + 1);
  int64_t columns = shape.pairs ? shape.pairColumns : shape.headWidth;
  keys = frame.scratch(factors(shape.keyBlocks * shape.keyBlock, columns));
  // Values are packed too: in place, the rows of one head are far apart.
  int64_t valueRows = shape.getDepth(shape.keyBlocks * shape.keyBlock);
  values =
      frame.scratch(shape.tiles ? factors(shape.keyBlocks * shape.headWidth, shape.keyBlock / 2)
                                : factors(valueRows, shape.headWidth));
  sums = shape.tiles ? frame.scratch(matrix(2 * tileSide, 2 * tileSide)) : Value();
  queries = frame.scratch(factors(shape.getDepth(shape.head), shape.queryBlock));
  scores = frame.scratch(matrix(shape.keyBlock, shape.queryBlock));
  probabilities =
      shape.pairs ? frame.scratch(factors(shape.keyBlock / 2, shape.queryBlock)) : scores;
  keep = shape.dropout > 0 ? frame.scratch(matrix(shape.keyBlock, shape.queryBlock)) : Value();
  accumulator = frame.scratch(matrix(shape.head, shape.queryBlock));
  rowsOfBlock = frame.scratch(matrix(shape.queryBlock, shape.headWidth));
  queryRows = shape.pairs ? frame.scratch(factors(shape.queryBlock, columns)) : rowsOfBlock;
  maximum = frame.scratch(perQuery());
  sum = frame.scratch(perQuery());
  blockMaximum = frame.scratch(perQuery());
  rescale = frame.scratch(perQuery());
  terms.allocate();
}

Kernel ForwardGenerator::generate() {
  allocate();
  Value pair = e.floorDiv(frame.item(), parts);
  batchRow = e.floorDiv(pair, shape.heads);
  std::tie(queryLength, keyLength) = validLengths(op, frame, batchRow);
  head = e.sub(pair, e.mul(batchRow, shape.heads));
  queryBase = e.mul(batchRow, shape.queries);
  keyBase = shape.keys == shape.queries ? queryBase : e.mul(batchRow, shape.keys);
  Value rows = op.getDomain().getFactor() == 0 ? e.index(shape.batch) : frame.rows();
  e.when(e.less(batchRow, rows), [&] { emitItem(); });
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = shape.batch * shape.heads * parts;
  kernel.scratchBytes = frame.scratchBytes();
  kernel.kind = "attention";
  countWork(shape, op.getMask(), /*matmuls=*/2 + (terms.hasRows() ? 1 : 0), /*tensors=*/4, kernel);
  return kernel;
}

void ForwardGenerator::emitItem() {
  Value keyHead = e.floorDiv(head, shape.group);
  Value keyColumn = e.add(e.mul(keyHead, shape.head), shape.keyColumn);
  queryColumn = e.add(e.mul(head, shape.head), shape.queryColumn);
  valueColumn = e.add(e.mul(keyHead, shape.head), shape.valueColumn);
  RowRange allKeys{keyBase, e.index(0), e.roundUp(keyLength, shape.keyBlock), keyLength};
  if (shape.pairs) {
    emitPackPairs(e, shape, key, allKeys, keyColumn, keys);
    (shape.tiles ? emitPackTransposedPairs : emitPackRowPairs)(e, shape, value, allKeys,
                                                               valueColumn, values);
  } else {
    emitPack(e, shape, key, allKeys, keyColumn, keys);
    emitPack(e, shape, value, allKeys, valueColumn, values);
  }
  terms.packHead(batchRow, queryLength, head);
  ranges.pack(batchRow, queryLength);
  Value part = e.sub(frame.item(), e.mul(e.floorDiv(frame.item(), parts), parts));
  Value blocks = e.floorDiv(e.add(queryLength, shape.queryBlock - 1), shape.queryBlock);
  e.loop(part, blocks, parts, [&](Value block) { emitQueryBlock(block); });
}

void ForwardGenerator::emitQueryBlock(Value block) {
  p0 = e.mul(block, shape.queryBlock);
  (shape.pairs ? emitPackPairs : emitPack)(e, shape, query,
                                           {queryBase, p0, e.index(shape.queryBlock), queryLength},
                                           queryColumn, queryRows);
  emitTransposeBlock(e, shape, queryRows, e.index(0), queries, e.index(0));
  terms.packQueries(p0);
  emitFill(e, accumulator, 0);
  eachVector([&](int64_t, Value offset) {
    e.store(e.splat(-infinity), maximum, {offset});
    e.store(e.splat(0), sum, {offset});
  });
  e.loop(e.index(0), keyLength, shape.keyBlock, [&](Value q0) { emitKeyBlock(q0); });
  emitResults();
}

void ForwardGenerator::emitKeyBlock(Value q0) {
  BlockClass block = classifyBlock(e, op.getMask(), p0, shape.queryBlock, q0, shape.keyBlock,
                                   {queryLength, keyLength});
  ranges.restrict(block, p0, q0);
  e.when(block.some, [&] {
    eachVector([&](int64_t, Value offset) { e.store(e.splat(-infinity), blockMaximum, {offset}); });
    terms.emitProducts(p0, q0);
    emitScores(q0);
    e.when(block.full, [] {}, [&] { emitMaskedScores(q0); });
    if (shape.dropout > 0) {
      emitKeep(e, frame, shape, e.add(e.mul(batchRow, shape.heads), head), p0, q0, keep);
    }
    Value valid = e.min(e.index(shape.keyBlock), e.sub(keyLength, q0));
    emitSoftmax(q0, valid);
    Matmul product;
    product.rows = shape.head;
    product.vectors = shape.queryVectors;
    product.depth = valid;
    product.a = {values, q0, {}, /*transposed=*/true};
    product.b = {probabilities, {}, {}};
    if (shape.pairs) {
      emitRoundBlock(e, shape, scores, valid, probabilities, {});
      product.depth = e.floorDiv(e.add(valid, 1), 2);
      product.a.row = e.floorDiv(q0, 2);
    }
    if (shape.tiles) {
      product.depth = e.roundUp(product.depth, tileSide);
      product.a = {values, e.mul(e.floorDiv(q0, shape.keyBlock), shape.headWidth), {}};
      product.sums = sums;
    }
    product = accumulateInto(e, product, accumulator, e.index(0));
    auto load = product.init;
    product.init = [&, load](Value row, Value column, Accumulators &tile) {
      load(row, column, tile);
      for (auto &line : tile) {
        for (auto [j, sumOf] : llvm::enumerate(line)) {
          sumOf = e.mulf(sumOf, e.load(rescale, {e.add(column, j * e.lanes)}));
        }
      }
    };
    emitMatmul(e, target, product);
  });
}

/// Computes scores = score region of K Q^T; blockMaximum over the keys.
void ForwardGenerator::emitScores(Value q0) {
  Matmul product = makeBlockMatmul(e, shape);
  product.a = {keys, q0, {}};
  product.b = {queries, {}, {}};
  product.sums = sums;
  product.finish = [&, q0](Value row, Value column, Accumulators &tile) {
    Value h = e.toInteger(head);
    for (size_t j = 0; j < tile.front().size(); ++j) {
      Value offset = e.add(column, j * e.lanes);
      Value p = emitQueries(e, p0, offset);
      Value best = e.load(blockMaximum, {offset});
      for (auto [i, line] : llvm::enumerate(tile)) {
        Value local = e.add(row, i);
        Value q = e.toInteger(e.add(q0, local));
        Value score = computeScore(terms, op.getScore(), {line[j], p, q, h}, p0, q0, local, offset);
        e.store(score, scores, {local, offset});
        best = e.maxf(score, best);
      }
      e.store(best, blockMaximum, {offset});
    }
  };
  emitMatmul(e, target, product);
}

/// Stores -inf to scores outside the mask, and computes blockMaximum anew. Most blocks are inside.
void ForwardGenerator::emitMaskedScores(Value q0) {
  Value n = e.toInteger(keyLength);
  Values best(shape.queryVectors, e.splat(-infinity));
  best = e.loop(e.index(0), e.index(shape.keyBlock), 1, best, [&](Value local, ValueRange carried) {
    Value q = e.toInteger(e.add(q0, local));
    Values next;
    eachVector([&](int64_t j, Value offset) {
      Value seen = emitMask(e, op.getMask(), emitQueries(e, p0, offset), q, n);
      seen = ranges.restrict(seen, e.add(p0, offset), q);
      Value score = e.select(seen, e.load(scores, {local, offset}), e.splat(-infinity));
      e.store(score, scores, {local, offset});
      next.push_back(e.maxf(score, carried[j]));
    });
    return next;
  });
  eachVector([&](int64_t j, Value offset) { e.store(best[j], blockMaximum, {offset}); });
}

/// Computes scores = e^(scores - maximum), the sum of the block's rows, and the factor that
/// rescales the previous sums.
void ForwardGenerator::emitSoftmax(Value q0, Value valid) {
  Values offsetsOf, shifts, sums;
  eachVector([&](int64_t, Value offset) {
    Value before = e.load(maximum, {offset});
    Value now = e.maxf(before, e.load(blockMaximum, {offset}));
    // A query without any key so far has maximum -inf; subtracting 0 instead makes its terms e^-inf
    // = 0, not NaN.
    Value none = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, now, e.splat(-infinity));
    Value shift = e.select(none, e.splat(0), now);
    e.store(now, maximum, {offset});
    Value factor = emitExp(e, e.subf(before, shift));
    e.store(factor, rescale, {offset});
    offsetsOf.push_back(offset);
    shifts.push_back(shift);
    sums.push_back(e.mulf(e.load(sum, {offset}), factor));
  });
  sums = e.loop(e.index(0), valid, 1, sums, [&](Value q, ValueRange carried) {
    Values next;
    for (auto [j, offset] : llvm::enumerate(offsetsOf)) {
      Value term = emitExp(e, e.subf(e.load(scores, {q, offset}), shifts[j]));
      next.push_back(e.addf(carried[j], term));
      e.store(keep ? e.mulf(term, e.load(keep, {q, offset})) : term, scores, {q, offset});
    }
    return next;
  });
  for (auto [j, offset] : llvm::enumerate(offsetsOf)) {
    e.store(sums[j], sum, {offset});
  }
}

/// Divides by the sums, transposes, and stores outputs and log-sum-exps of the valid queries.
void ForwardGenerator::emitResults() {
  eachVector([&](int64_t, Value offset) {
    Value total = e.load(sum, {offset});
    Value some = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGT, total, e.splat(0));
    Value divisor = e.select(some, total, e.splat(1));
    Value logarithm = e.addf(e.load(maximum, {offset}), math::LogOp::create(e.b, divisor));
    e.store(arith::DivFOp::create(e.b, e.splat(1), divisor), rescale, {offset});
    e.store(e.select(some, logarithm, e.splat(-infinity)), sum, {offset});
  });
  emitTransposeBack(e, shape, accumulator, e.index(0), rescale, rowsOfBlock);
  Value count = e.min(e.index(shape.queryBlock), e.sub(queryLength, p0));
  Value column = e.mul(head, shape.head);
  emitUnpack(e, shape, rowsOfBlock, e.index(0), p0, count, {}, output, queryBase, column);
  e.loop(e.index(0), count, 1, [&](Value i) {
    e.store(e.loadScalar(sum, {i}), lse, {e.add(queryBase, e.add(p0, i)), head});
  });
}

FailureOr<Kernel> cpu::generateAttention(dispatch::AttentionOp op, ModuleOp module, StringRef name,
                                         const Target &target) {
  if (failed(checkAttention(op)) || failed(checkRegion(op.getScore()))) {
    return failure();
  }
  if (op.getDomain().getScheduled()) {
    return generateDecodeAttention(op, module, name, target);
  }
  return ForwardGenerator(op, module, name, target).generate();
}
