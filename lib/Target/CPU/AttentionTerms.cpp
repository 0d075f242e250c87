// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Terms by distance: rows packed once a head, products and their adjoints a pair of blocks.
#include "AttentionTerms.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

void Terms::allocate(std::optional<unsigned> firstGradient) {
  auto matrix = [&](int64_t rows, int64_t columns) {
    return frame.scratch(MemRefType::get({rows, columns}, e.b.getF32Type()));
  };
  auto vector = [&](int64_t count) {
    return frame.scratch(MemRefType::get({count}, e.b.getF32Type()));
  };
  unsigned operand = firstOperand, gradient = firstGradient.value_or(0);
  int64_t transposed = (firstGradient ? shape.queryBlocks : 1) * shape.head;
  if (operands.rows) {
    query = frame.buffer(operand++);
    rows = frame.buffer(operand++);
    packedRows = matrix(front() + allQueries() + 1, shape.headWidth);
    products = matrix(distancesOfPair(), shape.queryBlock);
    queryBlocks = matrix(transposed, shape.queryBlock);
  }
  if (operands.bias) {
    table = frame.buffer(operand);
    biases = vector(front() + allQueries());
  }
  if (firstGradient && operands.rows) {
    queryGradient = frame.buffer(gradient++);
    rowGradient = frame.buffer(gradient++);
    queryRows = matrix(allQueries(), shape.headWidth);
    queryGradients = matrix(transposed, shape.queryBlock);
    rowGradients = matrix(front() + allQueries() + 1, shape.headWidth);
  }
  if (firstGradient && operands.bias) {
    tableGradient = frame.buffer(gradient);
    biasGradients = vector(front() + allQueries());
  }
}

void Terms::packHead(Value baseOf, Value lengthOf, Value headOf) {
  base = baseOf;
  length = lengthOf;
  head = headOf;
  Value last = e.add(length, -1), zero = e.index(0);
  if (rows) {
    e.loop(zero, e.index(front() + allQueries() + 1), 1, [&](Value i) {
      Value distance = e.max(e.min(e.add(i, -front()), last), zero);
      for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
        Value row =
            e.load(rows, {e.add(base, distance), e.add(columnOf(head), lane0)}, shape.head - lane0);
        e.store(row, packedRows, {i, e.index(lane0)});
      }
    });
  }
  if (table) {
    Value most = e.index(biasRows() - 1);
    e.loop(zero, e.index(front() + allQueries()), 1, [&](Value i) {
      Value distance = e.max(e.min(e.add(i, -front()), most), zero);
      e.store(e.loadScalar(table, {distance, head}), biases, {i});
    });
  }
}

void Terms::packQueries(Value p0, Value rowsOfBlock) {
  if (rows) {
    emitPack(e, shape, query, {base, p0, e.index(shape.queryBlock), length}, columnOf(head),
             rowsOfBlock);
    emitTransposeBlock(e, shape, rowsOfBlock, e.index(0), queryBlocks, e.index(0));
  }
}

void Terms::packAllQueries(Value baseOf, Value lengthOf, Value headOf) {
  if (rows) {
    Value count = e.roundUp(lengthOf, shape.queryBlock);
    emitPack(e, shape, query, {baseOf, e.index(0), count, lengthOf}, columnOf(headOf), queryRows);
    emitFill(e, queryGradients, 0);
    emitFill(e, rowGradients, 0);
  }
  if (table) {
    Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
    e.loop(e.index(0), e.index(front() + allQueries()), 1,
           [&](Value i) { e.store(zero, biasGradients, {i}); });
  }
}

void Terms::transposeBlock(Value p0, Value row0) {
  if (rows) {
    emitTransposeBlock(e, shape, queryRows, p0, queryBlocks, row0);
  }
}

void Terms::emitProducts(Value p0, Value q0, Value row0) {
  if (!rows) {
    return;
  }
  Matmul product;
  product.rows = distancesOfPair();
  product.vectors = shape.queryVectors;
  product.depth = e.index(shape.head);
  product.a = {packedRows, firstRow(p0, q0), {}};
  product.b = {queryBlocks, row0, {}};
  product.finish = [&](Value row, Value column, Accumulators &tile) {
    for (auto [i, line] : llvm::enumerate(tile)) {
      for (auto [j, value] : llvm::enumerate(line)) {
        e.store(value, products, {e.add(row, i), e.add(column, j * e.lanes)});
      }
    }
  };
  emitMatmul(e, target, product);
}

/// memory[row + l][column + l] in lane l, of rows of queryBlock numbers.
Value Terms::diagonal(Value memory, Value row, Value column) {
  SmallVector<int32_t> steps;
  for (int64_t lane = 0; lane < e.lanes; ++lane) {
    steps.push_back(static_cast<int32_t>(lane * (shape.queryBlock + 1)));
  }
  Value indices =
      arith::ConstantOp::create(e.b, DenseElementsAttr::get(e.integers, ArrayRef<int32_t>(steps)));
  auto masks = VectorType::get({e.lanes}, e.b.getI1Type());
  Value all = arith::ConstantOp::create(e.b, DenseElementsAttr::get(masks, true));
  return vector::GatherOp::create(e.b, e.floats, memory, ValueRange{row, column}, indices, all,
                                  e.splat(0));
}

Value Terms::addProduct(Value raw, Value key, Value offset) {
  if (!rows) {
    return raw;
  }
  Value row = e.add(e.sub(offset, key), shape.keyBlock - 1);
  return e.addf(raw, diagonal(products, row, offset));
}

Value Terms::addBias(Value score, Value p0, Value q0, Value key, Value offset) {
  return table ? e.addf(score, e.load(biases, {biasIndex(p0, q0, key, offset)})) : score;
}

void Terms::addBiasGradient(Value gradient, Value p0, Value q0, Value key, Value offset) {
  if (table) {
    Value at = biasIndex(p0, q0, key, offset);
    e.store(e.addf(e.load(biasGradients, {at}), gradient), biasGradients, {at});
  }
}

void Terms::emitGradients(Value scoreGradients, Value p0, Value q0, Value row0) {
  if (!rows) {
    return;
  }
  // What the products' gradient is where no key of the block has the distance: the padding's zeros.
  e.loop(e.index(0), e.index(distancesOfPair()), 1, [&](Value i) {
    for (int64_t j = 0; j < shape.queryVectors; ++j) {
      Value column = e.index(j * e.lanes);
      Value row = e.sub(e.add(column, padding() + shape.keyBlock - 1), i);
      e.store(diagonal(scoreGradients, row, column), products, {i, column});
    }
  });
  Value first = firstRow(p0, q0);
  Matmul product;
  product.rows = shape.head;
  product.vectors = shape.queryVectors;
  product.depth = e.index(distancesOfPair());
  product.a = {packedRows, first, {}, /*transposed=*/true};
  product.b = {products, {}, {}};
  emitMatmul(e, target, accumulateInto(e, product, queryGradients, row0));
  product.rows = distancesOfPair();
  product.vectors = shape.headVectors;
  product.depth = e.index(shape.queryBlock);
  product.a = {products, {}, {}};
  product.b = {queryRows, p0, {}};
  emitMatmul(e, target, accumulateInto(e, product, rowGradients, first));
}

void Terms::storeQueries(Value p0, Value row0, Value rowsOfBlock) {
  if (!rows) {
    return;
  }
  emitTransposeBack(e, shape, queryGradients, row0, {}, rowsOfBlock);
  Value count = e.min(e.index(shape.queryBlock), e.sub(length, p0));
  emitUnpack(e, shape, rowsOfBlock, e.index(0), p0, count, {}, queryGradient, base, columnOf(head));
}

void Terms::storeHead(Value batchRow) {
  if (rows) {
    emitUnpack(e, shape, rowGradients, e.index(front()), e.index(0), length, {}, rowGradient, base,
               columnOf(head));
  }
  if (!table) {
    return;
  }
  // The table's last row stands for all distances from its own on.
  Value part = e.mul(batchRow, biasRows()), last = e.index(biasRows() - 1);
  e.loop(e.index(0), last, 1, [&](Value i) {
    e.store(e.loadScalar(biasGradients, {e.add(i, front())}), tableGradient,
            {e.add(part, i), head});
  });
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  auto rest = e.loop(last, e.index(allQueries()), 1, zero, [&](Value i, ValueRange so) {
    return Emitter::Values{e.addf(so.front(), e.loadScalar(biasGradients, {e.add(i, front())}))};
  });
  e.store(rest.front(), tableGradient, {e.add(part, last), head});
}

void Terms::storeZeros(Value batchRow, Value headOf, Value from, bool noBiases) {
  if (rows) {
    Value to = e.index(shape.queries), first = e.mul(batchRow, shape.queries);
    emitZeroRows(e, shape, queryGradient, first, from, to, columnOf(headOf));
    emitZeroRows(e, shape, rowGradient, first, from, to, columnOf(headOf));
  }
  if (table && noBiases) {
    Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
    Value part = e.mul(batchRow, biasRows());
    e.loop(e.index(0), e.index(biasRows()), 1,
           [&](Value i) { e.store(zero, tableGradient, {e.add(part, i), headOf}); });
  }
}
