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
    packedRows = matrix(packedCount(), shape.headWidth);
    products = matrix(distancesOfPair(), shape.queryBlock);
    queryBlocks = matrix(transposed, shape.queryBlock);
  }
  if (operands.bias) {
    table = frame.buffer(operand);
    biases = vector(front() + allDistances());
  }
  if (firstGradient && operands.rows) {
    queryGradient = frame.buffer(gradient++);
    rowGradient = frame.buffer(gradient++);
    queryRows = matrix(allQueries(), shape.headWidth);
    queryGradients = matrix(transposed, shape.queryBlock);
    rowGradients = matrix(packedCount(), shape.headWidth);
  }
  if (firstGradient && operands.bias) {
    tableGradient = frame.buffer(gradient);
    biasGradients = vector(front() + allDistances());
  }
}

void Terms::packHead(Value batchRow, Value lengthOf, Value headOf) {
  base = e.mul(batchRow, shape.queries);
  length = lengthOf;
  head = headOf;
  Value zero = e.index(0);
  if (rows) {
    rowBase = e.mul(batchRow, rowCount());
    rowLength = frame.validLength(step, rowCount());
    e.loop(zero, e.index(packedCount()), 1, [&](Value i) {
      Value row0 = e.add(rowBase, emitDistanceRow(e, e.add(i, -front()), rowLength));
      for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
        Value row = e.load(rows, {row0, e.add(columnOf(head), lane0)}, shape.head - lane0);
        e.store(row, packedRows, {i, e.index(lane0)});
      }
    });
  }
  if (table) {
    e.loop(zero, e.index(front() + allDistances()), 1, [&](Value i) {
      Value row = emitDistanceRow(e, e.add(i, -front()), e.index(biasRows()));
      e.store(e.loadScalar(table, {row, head}), biases, {i});
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

void Terms::packAllQueries() {
  if (rows) {
    Value count = e.roundUp(length, shape.queryBlock);
    emitPack(e, shape, query, {base, e.index(0), count, length}, columnOf(head), queryRows);
    emitFill(e, queryGradients, 0);
    emitFill(e, rowGradients, 0);
  }
  if (table) {
    Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
    e.loop(e.index(0), e.index(front() + allDistances()), 1,
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

Value Terms::steps(int64_t stride) {
  SmallVector<int32_t> numbers;
  for (int64_t lane = 0; lane < e.lanes; ++lane) {
    numbers.push_back(static_cast<int32_t>(lane * stride));
  }
  return arith::ConstantOp::create(e.b,
                                   DenseElementsAttr::get(e.integers, ArrayRef<int32_t>(numbers)));
}

Value Terms::allLanes() {
  auto masks = VectorType::get({e.lanes}, e.b.getI1Type());
  return arith::ConstantOp::create(e.b, DenseElementsAttr::get(masks, true));
}

/// Elements of memory from `first` on, a stride apart.
Value Terms::gather(Value memory, ValueRange first, int64_t stride) {
  return vector::GatherOp::create(e.b, e.floats, memory, first, steps(stride), allLanes(),
                                  e.splat(0));
}

/// Element l of a vector goes a stride from that of l - 1, none to the place of another.
void Terms::scatter(Value vector, Value memory, ValueRange first, int64_t stride) {
  vector::ScatterOp::create(e.b, TypeRange(), memory, first, steps(stride), allLanes(), vector,
                            IntegerAttr());
}

Value Terms::addProduct(Value raw, Value key, Value offset) {
  if (!rows) {
    return raw;
  }
  return e.addf(raw, gather(products, {productRow(key, offset), offset}, diagonal()));
}

Value Terms::addBias(Value score, Value p0, Value q0, Value key, Value offset) {
  if (!table) {
    return score;
  }
  Value at = biasIndex(p0, q0, key, offset);
  return e.addf(score, a == 1 ? e.load(biases, {at}) : gather(biases, {at}, a));
}

void Terms::addBiasGradient(Value gradient, Value p0, Value q0, Value key, Value offset) {
  if (!table) {
    return;
  }
  Value at = biasIndex(p0, q0, key, offset);
  if (a == 1) {
    e.store(e.addf(e.load(biasGradients, {at}), gradient), biasGradients, {at});
    return;
  }
  scatter(e.addf(gather(biasGradients, {at}, a), gradient), biasGradients, {at}, a);
}

/// The products' gradient: that of each score along its diagonal, 0 where no key of the block has
/// the distance.
void Terms::emitProductGradients(Value scoreGradients) {
  emitFill(e, products, 0);
  e.loop(e.index(0), e.index(shape.keyBlock), 1, [&](Value key) {
    for (int64_t j = 0; j < shape.queryVectors; ++j) {
      Value offset = e.index(j * e.lanes);
      scatter(e.load(scoreGradients, {key, offset}), products, {productRow(key, offset), offset},
              diagonal());
    }
  });
}

void Terms::emitGradients(Value scoreGradients, Value p0, Value q0, Value row0) {
  if (!rows) {
    return;
  }
  emitProductGradients(scoreGradients);
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

/// Distances beyond the last valid row have that row.
void Terms::foldLastRow() {
  Value last = e.add(rowLength, front() - 1);
  e.loop(e.index(0), e.index(c), 1, [&](Value i) {
    for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
      Value lane = e.index(lane0);
      Value beyond = e.load(rowGradients, {e.add(e.add(last, 1), i), lane});
      e.store(e.addf(e.load(rowGradients, {last, lane}), beyond), rowGradients, {last, lane});
    }
  });
}

void Terms::storeHead(Value batchRow) {
  if (rows) {
    if (c > 0) {
      foldLastRow();
    }
    emitUnpack(e, shape, rowGradients, e.index(front()), e.index(0), rowLength, {}, rowGradient,
               rowBase, columnOf(head));
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
  auto rest = e.loop(last, e.index(allDistances()), 1, zero, [&](Value i, ValueRange so) {
    return Emitter::Values{e.addf(so.front(), e.loadScalar(biasGradients, {e.add(i, front())}))};
  });
  e.store(rest.front(), tableGradient, {e.add(part, last), head});
}

void Terms::storeZeros(Value batchRow, Value headOf, Value from, bool isWhole) {
  if (rows) {
    emitZeroRows(e, shape, queryGradient, e.mul(batchRow, shape.queries), from,
                 e.index(shape.queries), columnOf(headOf));
    Value fromRow = isWhole ? e.index(0) : frame.validLength(step, rowCount());
    emitZeroRows(e, shape, rowGradient, e.mul(batchRow, rowCount()), fromRow, e.index(rowCount()),
                 columnOf(headOf));
  }
  if (table && isWhole) {
    Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
    Value part = e.mul(batchRow, biasRows());
    e.loop(e.index(0), e.index(biasRows()), 1,
           [&](Value i) { e.store(zero, tableGradient, {e.add(part, i), headOf}); });
  }
}
