// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward. An item is one (row of the batch, key/value head): it computes dK and dV of
// that head and dQ of all query heads of the group, so nothing is summed across items. P is
// recomputed from the log-sum-exps of the rows; five matmuls per pair of blocks give S^T, dP^T, dV,
// dK and dQ^T. All sums run in the order of the blocks.
//
// With few (row, key/value head) pairs there may be fewer items than cores, and some cores are
// idle.
#include "Terms.h"
#include "sluice/Target/Common/VectorMath.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class BackwardGenerator {
public:
  BackwardGenerator(dispatch::AttentionBackwardOp op, ModuleOp module, StringRef name,
                    const Target &target)
      : op(op), target(target), shape(makeShape(op, target)), frame(op, module, name, target),
        e(frame.builder(), target.lanes), terms(op, target, shape, frame, e),
        ranges(op.getRange(), frame, e, shape), keepsScores(reads(0)),
        readsProducts(terms.hasRows() && reads(dispatch::DistanceTerms::firstArgument)),
        readsBiases(op.getTerms().bias && reads(op.getTerms().biasArgument())) {}

  Kernel generate();

private:
  MemRefType matrix(int64_t rows, int64_t columns) {
    return MemRefType::get({rows, columns}, e.b.getF32Type());
  }
  /// Rows of factors: f32, or pairs of bf16.
  MemRefType factors(int64_t rows, int64_t columns) {
    return MemRefType::get({rows, columns},
                           shape.pairs ? Type(e.b.getI32Type()) : e.b.getF32Type());
  }
  void packRows(Value source, const RowRange &range, Value column, Value packed, Value pairs);
  void openTensors();
  void allocate();
  void emitItem();
  void emitHead(Value headOfGroup);
  void emitRowStatistics(Value outputColumn);
  void emitPair(Value q0, Value block);
  void emitScoreProducts(Value q0);
  void emitProbabilities(Value q0, bool masked);
  void emitScoreGradients(Value q0);
  void emitDerivatives(Value score, Value g, ArrayRef<Value> place, Value probability, Value q0,
                       Value key, Value offset);
  void emitProducts(Value q0);
  void emitZeros(Value fromQuery, Value fromKey, bool isWhole);

  /// Returns true if the derivative reads this argument.
  bool reads(unsigned argument) { return !op.getScoreGradient().getArgument(argument).use_empty(); }
  /// Returns the gradient of operand 0, 1 or 2.
  Value getOperandGradient(unsigned operand) {
    return gradients[dispatch::getGradientIndex(operand, gradients.size())];
  }
  Value getFirstColumn(Value headIndex, int64_t first) {
    return e.add(e.mul(headIndex, shape.head), first);
  }

  dispatch::AttentionBackwardOp op;
  const Target &target;
  const AttentionShape shape;
  Frame frame;
  Emitter e;
  HeadTerms terms;
  KeyRanges ranges;
  const bool keepsScores;   ///< the derivative reads raw scores
  const bool readsProducts; ///< the derivative reads products by distance
  const bool readsBiases;   ///< the derivative reads biases

  Value query, key, value, output, lse, outputGradient, rotary; // tensors
  SmallVector<Value> gradients;                                 // one, two or three
  unsigned firstTerm = 0; ///< index in the frame of the gradient of the first term
  Value keys, values, keyGradients,
      valueGradients; // scratch per key/value head, rows of positions
  Value keyPairs;     // pairs of rows of keys, transposed for tiles; `keys` without pairs
  Value sums;         // of AMX tiles
  Value queryRows, outputRows, queryBlocks, outputBlocks, queryGradients; // scratch per query head
  Value queryPairs, outputPairs; // pairs of rows; `queryRows` and `outputRows` without pairs
  Value roundedProbabilities, roundedGradients, gradientPairs; // a block in bf16: pairs of columns,
                                                               // and of rows
  Value logSums, deltas;                                       // one number per query
  Value probabilities, products, keep, scoreGradients, rows;   // one block
  Value productGradients; // for products by distance; the gradients of the scores if the region
                          // adds both
  Value queryLength, keyLength, batchRow, keyHead, queryBase, keyBase, head, p0, blockRow,
      factorRow;
};

} // namespace

void BackwardGenerator::openTensors() {
  unsigned next = 0;
  query = frame.buffer(next++);
  key = frame.buffer(next++);
  value = frame.buffer(next++);
  output = frame.buffer(next++);
  lse = frame.buffer(next++);
  outputGradient = frame.buffer(next++);
  rotary = op.getRotary() ? frame.buffer(next + unsigned(op.getTerms().count())) : Value();
  next = op->getNumOperands();
  for (size_t i = 0; i < op.getSourceGradients().size(); ++i) {
    gradients.push_back(frame.buffer(next++));
  }
  firstTerm = next;
}

// Scratch: 9 D numbers per position and a few blocks: rows and transposed blocks of Q and dO, dQ,
// K, V, dK, dV.
void BackwardGenerator::allocate() {
  int64_t allKeys = shape.keyBlocks * shape.keyBlock,
          allQueries = shape.queryBlocks * shape.queryBlock;
  int64_t columns = shape.pairs ? shape.pairColumns : shape.headWidth;
  auto rowPairs = [&](Value factorRows, int64_t count) {
    return shape.pairs ? frame.scratch(factors(count / 2, shape.headWidth)) : factorRows;
  };
  keys = frame.scratch(factors(allKeys, columns));
  keyPairs = shape.tiles
                 ? frame.scratch(factors(shape.keyBlocks * shape.headWidth, shape.keyBlock / 2))
                 : rowPairs(keys, allKeys);
  sums = shape.tiles ? frame.scratch(matrix(2 * tileSide, 2 * tileSide)) : Value();
  values = frame.scratch(factors(allKeys, columns));
  keyGradients = frame.scratch(matrix(allKeys, shape.headWidth));
  valueGradients = frame.scratch(matrix(allKeys, shape.headWidth));
  queryRows = frame.scratch(factors(allQueries, columns));
  queryPairs = rowPairs(queryRows, allQueries);
  outputRows = frame.scratch(factors(allQueries, columns));
  outputPairs = rowPairs(outputRows, allQueries);
  int64_t blockRows = shape.queryBlocks * shape.getDepth(shape.head);
  queryBlocks = frame.scratch(factors(blockRows, shape.queryBlock));
  outputBlocks = frame.scratch(factors(blockRows, shape.queryBlock));
  queryGradients = frame.scratch(matrix(shape.queryBlocks * shape.head, shape.queryBlock));
  logSums = frame.scratch(MemRefType::get({allQueries}, e.b.getF32Type()));
  deltas = frame.scratch(MemRefType::get({allQueries}, e.b.getF32Type()));
  MemRefType block = matrix(shape.keyBlock, shape.queryBlock);
  probabilities = frame.scratch(block);
  scoreGradients = frame.scratch(block);
  roundedProbabilities = probabilities;
  roundedGradients = gradientPairs = scoreGradients;
  if (shape.pairs) {
    roundedProbabilities = frame.scratch(factors(shape.keyBlock, shape.queryBlock / 2));
    roundedGradients = frame.scratch(factors(shape.keyBlock, shape.queryBlock / 2));
    gradientPairs = frame.scratch(factors(shape.keyBlock / 2, shape.queryBlock));
  }
  OperandRange derived = op.getScoreGradient().front().getTerminator()->getOperands();
  bool isOwn = terms.hasRows() && derived[1] != derived[0];
  productGradients = isOwn ? frame.scratch(block) : scoreGradients;
  products = keepsScores ? frame.scratch(block) : probabilities;
  keep = shape.dropout > 0 ? frame.scratch(block) : Value();
  rows = frame.scratch(matrix(shape.queryBlock, shape.headWidth));
  terms.allocate(firstTerm);
}

Kernel BackwardGenerator::generate() {
  openTensors();
  allocate();
  batchRow = e.floorDiv(frame.item(), shape.kvHeads);
  std::tie(queryLength, keyLength) = validLengths(op, frame, batchRow);
  keyHead = e.sub(frame.item(), e.mul(batchRow, shape.kvHeads));
  queryBase = e.mul(batchRow, shape.queries);
  keyBase = shape.keys == shape.queries ? queryBase : e.mul(batchRow, shape.keys);
  Value rowsOf = op.getDomain().getFactor() == 0 ? e.index(shape.batch) : frame.rows();
  e.when(
      e.less(batchRow, rowsOf),
      [&] {
        emitItem();
        emitZeros(queryLength, keyLength, /*isWhole=*/false);
      },
      [&] { emitZeros(e.index(0), e.index(0), /*isWhole=*/true); });
  frame.finish();

  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = shape.batch * shape.kvHeads;
  kernel.scratchBytes = frame.scratchBytes();
  kernel.kind = "attention";
  countWork(shape, op.getMask(), /*matmuls=*/5 + (terms.hasRows() ? 3 : 0), /*tensors=*/8, kernel);
  return kernel;
}

/// Stores zeros to all columns that the item owns, in rows from `fromQuery` and `fromKey` on; with
/// `isWhole` in all rows. On an axis with lengths of its own a batch row has no memory after its
/// valid rows; keys of another, given axis have.
void BackwardGenerator::emitZeros(Value fromQuery, Value fromKey, bool isWhole) {
  Value queries = op.getDomain().getAxis() ? queryLength : e.index(shape.queries);
  bool keysEndEarly = op.getDomain().getAxis() && op.getKeys().getFactor() != 0;
  Value keysEnd = keysEndEarly ? keyLength : e.index(shape.keys);
  e.loop(e.index(0), e.index(shape.group), 1, [&](Value member) {
    Value queryHead = e.add(e.mul(keyHead, shape.group), member);
    emitZeroRows(e, shape, getOperandGradient(0), queryBase, fromQuery, queries,
                 getFirstColumn(queryHead, shape.queryColumn));
    terms.storeZeros(batchRow, queryHead, fromQuery, queries, isWhole);
  });
  emitZeroRows(e, shape, getOperandGradient(1), keyBase, fromKey, keysEnd,
               getFirstColumn(keyHead, shape.keyColumn));
  emitZeroRows(e, shape, getOperandGradient(2), keyBase, fromKey, keysEnd,
               getFirstColumn(keyHead, shape.valueColumn));
}

void BackwardGenerator::emitItem() {
  Value keyColumn = getFirstColumn(keyHead, shape.keyColumn),
        valueColumn = getFirstColumn(keyHead, shape.valueColumn);
  RowRange allKeys{keyBase, e.index(0), e.roundUp(keyLength, shape.keyBlock), keyLength};
  packRows(key, allKeys, keyColumn, keys, shape.tiles ? Value() : keyPairs);
  if (shape.tiles) {
    emitPackTransposedPairs(e, shape, key, allKeys, keyColumn, keyPairs);
  }
  packRows(value, allKeys, valueColumn, values, {});
  emitFill(e, keyGradients, 0);
  emitFill(e, valueGradients, 0);
  e.loop(e.index(0), e.index(shape.group), 1, [&](Value member) { emitHead(member); });
  Value zero = e.index(0);
  emitUnpack(e, shape, keyGradients, zero, zero, keyLength, rotary, getOperandGradient(1), keyBase,
             keyColumn);
  emitUnpack(e, shape, valueGradients, zero, zero, keyLength, {}, getOperandGradient(2), keyBase,
             valueColumn);
}

/// Packs rows of a factor; where pairs are multiplied, by columns and, unless null, by rows.
void BackwardGenerator::packRows(Value source, const RowRange &range, Value column, Value packed,
                                 Value pairs) {
  if (!shape.pairs) {
    emitPack(e, shape, source, range, column, packed);
    return;
  }
  emitPackPairs(e, shape, source, range, column, packed);
  if (pairs) {
    emitPackRowPairs(e, shape, source, range, column, pairs);
  }
}

void BackwardGenerator::emitHead(Value member) {
  head = e.add(e.mul(keyHead, shape.group), member);
  Value queryColumn = getFirstColumn(head, shape.queryColumn),
        outputColumn = getFirstColumn(head, 0);
  RowRange all{queryBase, e.index(0), e.roundUp(queryLength, shape.queryBlock), queryLength};
  packRows(query, all, queryColumn, queryRows, queryPairs);
  packRows(outputGradient, all, outputColumn, outputRows, outputPairs);
  emitFill(e, queryGradients, 0);
  terms.packHead(batchRow, queryLength, head);
  ranges.pack(batchRow, queryLength);
  terms.clearGradients();
  emitRowStatistics(outputColumn);
  Value blocks = e.floorDiv(e.add(queryLength, shape.queryBlock - 1), shape.queryBlock);
  e.loop(e.index(0), blocks, 1, [&](Value block) {
    Value first = e.mul(block, shape.queryBlock);
    Value row = e.mul(block, shape.getDepth(shape.head));
    emitTransposeBlock(e, shape, queryRows, first, queryBlocks, row);
    emitTransposeBlock(e, shape, outputRows, first, outputBlocks, row);
    terms.packQueries(first);
  });
  e.loop(e.index(0), keyLength, shape.keyBlock, [&](Value q0) {
    e.loop(e.index(0), blocks, 1, [&](Value block) { emitPair(q0, block); });
  });
  e.loop(e.index(0), blocks, 1, [&](Value block) {
    p0 = e.mul(block, shape.queryBlock);
    blockRow = e.mul(block, shape.head);
    emitTransposeBack(e, shape, queryGradients, blockRow, {}, rows);
    Value count = e.min(e.index(shape.queryBlock), e.sub(queryLength, p0));
    emitUnpack(e, shape, rows, e.index(0), p0, count, rotary, getOperandGradient(0), queryBase,
               queryColumn);
    terms.storeQueries(p0);
  });
  terms.storeHead(batchRow);
}

/// Computes deltas = sum over c of dO O. Log-sum-exps become +inf if the row has no key (-inf) or
/// is invalid, so that its probabilities are e^-inf = 0 without a mask.
void BackwardGenerator::emitRowStatistics(Value outputColumn) {
  Value plusInfinity = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(infinity));
  Value minusInfinity = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(-infinity));
  Value last = e.add(queryLength, -1);
  e.loop(e.index(0), e.roundUp(queryLength, shape.queryBlock), 1, [&](Value p) {
    Value row = e.add(queryBase, e.min(p, last));
    emitPrefetchRow(e, shape, output, row, outputColumn);
    Value total = e.splat(0);
    for (int64_t lane0 = 0; lane0 < shape.head; lane0 += e.lanes) {
      Value out = e.load(output, {row, e.add(outputColumn, lane0)}, shape.head - lane0);
      Value gradient =
          e.load(outputGradient, {row, e.add(outputColumn, lane0)}, shape.head - lane0);
      total = e.fma(out, gradient, total);
    }
    e.store(vector::ExtractOp::create(e.b, e.sum(total), ArrayRef<int64_t>{0}), deltas, {p});
    Value logSum = e.loadScalar(lse, {row, head});
    Value empty = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, logSum, minusInfinity);
    Value usable = e.select(empty, plusInfinity, logSum);
    e.store(e.select(e.less(p, queryLength), usable, plusInfinity), logSums, {p});
  });
}

void BackwardGenerator::emitPair(Value q0, Value block) {
  p0 = e.mul(block, shape.queryBlock);
  blockRow = e.mul(block, shape.head);
  factorRow = e.mul(block, shape.getDepth(shape.head));
  BlockClass kind = classifyBlock(e, op.getMask(), p0, shape.queryBlock, q0, shape.keyBlock,
                                  {queryLength, keyLength});
  ranges.restrict(kind, p0, q0);
  e.when(kind.some, [&] {
    terms.emitProducts(p0, q0);
    emitScoreProducts(q0);
    e.when(kind.full, [&] { emitProbabilities(q0, false); }, [&] { emitProbabilities(q0, true); });
    if (keep) {
      emitKeep(e, frame, shape, e.add(e.mul(batchRow, shape.heads), head), p0, q0, keep);
    }
    emitScoreGradients(q0);
    emitProducts(q0);
  });
}

/// Computes products = K Q^T.
void BackwardGenerator::emitScoreProducts(Value q0) {
  Matmul product = makeBlockMatmul(e, shape);
  product.a = {keys, q0, {}};
  product.b = {queryBlocks, factorRow, {}};
  product.sums = sums;
  emitMatmul(e, target, storeInto(e, product, products, e.index(0)));
}

/// Computes probabilities = e^(score region of products - log-sum-exp), 0 outside the mask. A loop
/// over rows has the exponentials of one row; a tile's exponentials, with a mask and without, would
/// be most of the kernel.
void BackwardGenerator::emitProbabilities(Value q0, bool masked) {
  Value h = e.toInteger(head), n = e.toInteger(keyLength);
  e.loop(e.index(0), e.index(shape.keyBlock), 1, [&](Value local) {
    Value q = e.toInteger(e.add(q0, local));
    for (int64_t j = 0; j < shape.queryVectors; ++j) {
      Value offset = e.index(j * e.lanes);
      Value p = emitQueries(e, p0, offset);
      Value score = computeScore(terms, op.getScore(), {e.load(products, {local, offset}), p, q, h},
                                 p0, q0, local, offset);
      Value probability = emitExp(e, e.subf(score, e.load(logSums, {e.add(p0, offset)})));
      if (masked) {
        Value seen = ranges.restrict(emitMask(e, op.getMask(), p, q, n), e.add(p0, offset), q);
        probability = e.select(seen, probability, e.splat(0));
      }
      e.store(probability, probabilities, {local, offset});
    }
  });
}

/// Computes scoreGradients = derivative region of g = P (keep dP - delta), where dP = V dO^T; then
/// probabilities = keep P.
void BackwardGenerator::emitScoreGradients(Value q0) {
  Matmul product = makeBlockMatmul(e, shape);
  product.a = {values, q0, {}};
  product.b = {outputBlocks, factorRow, {}};
  product.sums = sums;
  product.finish = [&](Value row, Value column, Accumulators &tile) {
    Value h = e.toInteger(head);
    for (size_t j = 0; j < tile.front().size(); ++j) {
      Value offset = e.add(column, j * e.lanes);
      Value p = emitQueries(e, p0, offset);
      Value delta = e.load(deltas, {e.add(p0, offset)});
      for (auto [i, line] : llvm::enumerate(tile)) {
        Value local = e.add(row, i);
        Value q = e.toInteger(e.add(q0, local));
        Value probability = e.load(probabilities, {local, offset});
        Value change = line[j];
        if (keep) {
          Value factor = e.load(keep, {local, offset});
          e.store(e.mulf(probability, factor), probabilities, {local, offset});
          change = e.mulf(change, factor);
        }
        Value g = e.mulf(probability, e.subf(change, delta));
        Value score = keepsScores ? e.load(products, {local, offset}) : line[j];
        emitDerivatives(score, g, {p, q, h}, probability, q0, local, offset);
      }
    }
  };
  emitMatmul(e, target, product);
}

/// Applies the derivative region to `g`: computes the gradients of a key's scores and of its terms.
/// Pairs outside the mask get 0, because their scores are undefined and the derivative may be
/// infinite.
void BackwardGenerator::emitDerivatives(Value score, Value g, ArrayRef<Value> place,
                                        Value probability, Value q0, Value key, Value offset) {
  Value product = readsProducts ? terms.computeDotProduct(key, offset) : Value();
  Value bias = readsBiases ? terms.computeBias(p0, q0, key, offset) : Value();
  product = product || !terms.hasRows() ? product : g; // which is unused
  bias = bias || !op.getTerms().bias ? bias : g;
  Values derived = emitAll(e, op.getScoreGradient(),
                           withTerms({score, place[0], place[1], place[2]}, {product, bias, g}));
  Value absent = arith::CmpFOp::create(e.b, arith::CmpFPredicate::OEQ, probability, e.splat(0));
  auto present = [&](Value x) { return e.select(absent, e.splat(0), e.broadcast(x)); };
  e.store(present(derived[0]), scoreGradients, {key, offset});
  if (productGradients != scoreGradients) {
    e.store(present(derived[1]), productGradients, {key, offset});
  }
  if (op.getTerms().bias) {
    terms.addBiasGradient(present(derived.back()), p0, q0, key, offset);
  }
}

/// Computes dV += P^T dO, dK += dS^T Q, dQ^T += K^T dS^T for one pair of blocks.
void BackwardGenerator::emitProducts(Value q0) {
  Value valid = e.min(e.index(shape.keyBlock), e.sub(keyLength, q0));
  Value queryRow = p0, keyRow = q0, depth = valid;
  if (shape.pairs) {
    Value all = e.index(shape.keyBlock);
    emitRoundBlock(e, shape, probabilities, all, {}, roundedProbabilities);
    emitRoundBlock(e, shape, scoreGradients, all, gradientPairs, roundedGradients);
    queryRow = e.floorDiv(p0, 2);
    keyRow = e.floorDiv(q0, 2);
    depth = e.floorDiv(e.add(valid, 1), 2);
  }
  if (shape.tiles) {
    keyRow = e.mul(e.floorDiv(q0, shape.keyBlock), shape.headWidth);
    depth = e.roundUp(depth, tileSide);
  }
  Matmul product;
  product.sums = sums;
  product.rows = shape.keyBlock;
  product.vectors = shape.headVectors;
  product.depth = e.index(shape.getDepth(shape.queryBlock));
  product.a = {roundedProbabilities, {}, {}};
  product.b = {outputPairs, queryRow, {}};
  emitMatmul(e, target, accumulateInto(e, product, valueGradients, q0));
  product.a = {roundedGradients, {}, {}};
  product.b = {queryPairs, queryRow, {}};
  emitMatmul(e, target, accumulateInto(e, product, keyGradients, q0));
  product.rows = shape.head;
  product.vectors = shape.queryVectors;
  product.depth = depth;
  product.a = {keyPairs, keyRow, {}, /*transposed=*/!shape.tiles};
  product.b = {gradientPairs, {}, {}};
  emitMatmul(e, target, accumulateInto(e, product, queryGradients, blockRow));
  terms.emitGradients(productGradients, p0, q0);
}

FailureOr<Kernel> cpu::generateAttentionBackward(dispatch::AttentionBackwardOp op, ModuleOp module,
                                                 StringRef name, const Target &target) {
  if (failed(checkAttention(op)) || failed(checkRegion(op.getScore())) ||
      failed(checkRegion(op.getScoreGradient()))) {
    return failure();
  }
  return BackwardGenerator(op, module, name, target).generate();
}
