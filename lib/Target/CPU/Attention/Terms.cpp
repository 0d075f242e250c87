// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Terms by distance: rows packed once per head, products and their adjoints per pair of blocks.
#include "Terms.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

// A band has as many queries as fit with at most one more vector than a block of keys, but at least
// four for an efficient matmul.
Terms::Bands Terms::makeBands() const {
  int64_t common = std::gcd(a, b), lanes = e.lanes;
  Bands s{};
  s.period = b / common;
  s.shift = a / common;
  s.ofClass = llvm::divideCeil(shape.queryBlock, s.period);
  for (s.rows = lanes; s.rows > 4 && (s.rows * s.shift > lanes || s.rows > s.ofClass);) {
    s.rows /= 2;
  }
  s.ofClass = llvm::alignTo(s.ofClass, s.rows);
  s.width = llvm::alignTo(llvm::alignTo(shape.keyBlock, lanes) + s.shift * (s.rows - 1), lanes);
  int64_t lastQuery = allQueries() - shape.queryBlock + s.block() - 1;
  s.top = std::max<int64_t>(llvm::divideFloorSigned(a * lastQuery + c, b),
                            llvm::divideCeil(allDistances(), b));
  // Queries and keys of a pair of blocks have numbers below 0 where the mask excludes them.
  int64_t below = llvm::divideCeil(a * shape.queryBlock, b) + 2;
  s.columns = llvm::alignTo(s.top + 1 + below + s.width, lanes);
  return s;
}

void Terms::allocate(std::optional<unsigned> firstGradient) {
  auto matrix = [&](int64_t rows, int64_t columns) {
    return frame.scratch(MemRefType::get({rows, columns}, e.b.getF32Type()));
  };
  auto vector = [&](int64_t count) {
    return frame.scratch(MemRefType::get({count}, e.b.getF32Type()));
  };
  unsigned operand = firstOperand, gradient = firstGradient.value_or(0);
  keepsQueries = firstGradient.has_value();
  int64_t queries = (keepsQueries ? shape.queryBlocks : 1) * bands.block();
  if (operands.rows) {
    query = frame.buffer(operand++);
    rows = frame.buffer(operand++);
    rowColumns = matrix(b * shape.head, bands.columns);
    queryRows = matrix(queries, shape.headWidth);
    products = matrix(bands.block(), bands.width);
    scoreProducts = matrix(shape.keyBlock, shape.queryBlock);
  }
  if (operands.bias) {
    table = frame.buffer(operand);
    biases = vector(front() + allDistances());
  }
  if (firstGradient && operands.rows) {
    queryGradient = frame.buffer(gradient++);
    rowGradient = frame.buffer(gradient++);
    packedRows = matrix(b * bands.columns, shape.headWidth);
    productGradients = matrix(bands.block(), bands.width);
    queryGradients = matrix(queries, shape.headWidth);
    rowGradients = matrix(b * bands.columns, shape.headWidth);
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
  if (rows) {
    rowBase = e.mul(batchRow, rowCount());
    rowLength = frame.lengths(step, rowCount()).of(batchRow);
    packRows();
  }
  if (table) {
    e.loop(e.index(0), e.index(front() + allDistances()), 1, [&](Value i) {
      Value row = emitDistanceRow(e, e.add(i, -front()), e.index(biasRows()));
      e.store(e.loadScalar(table, {row, head}), biases, {i});
    });
  }
}

void Terms::packRows() {
  Value zero = e.index(0);
  auto packSquare = [&](Value rowClass, Value column, int64_t lane0) {
    Emitter::Values square;
    for (int64_t i = 0; i < e.lanes; ++i) {
      Value at = e.add(column, i);
      Value distance = e.add(e.mul(e.sub(e.index(bands.top), at), b), rowClass);
      Value from = e.add(rowBase, emitDistanceRow(e, distance, rowLength));
      square.push_back(
          e.load(rows, {from, e.add(getFirstColumn(head), lane0)}, shape.head - lane0));
      if (packedRows) {
        e.store(square.back(), packedRows,
                {e.add(getFirstRowOfClass(rowClass), at), e.index(lane0)});
      }
    }
    e.transpose(square);
    Value row = e.add(e.mul(rowClass, shape.head), lane0);
    for (int64_t i = 0; i < std::min(e.lanes, shape.head - lane0); ++i) {
      e.store(square[i], rowColumns, {e.add(row, i), column});
    }
  };
  e.loop(zero, e.index(b), 1, [&](Value rowClass) {
    e.loop(zero, e.index(bands.columns), e.lanes, [&](Value column) {
      for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
        packSquare(rowClass, column, lane0);
      }
    });
  });
}

/// Places after a block's queries repeat some query; their results are unused.
void Terms::packQueries(Value p0) {
  if (!rows) {
    return;
  }
  Value zero = e.index(0), last = e.add(length, -1), row0 = firstQueryRow(p0);
  e.loop(zero, e.index(bands.period), 1, [&](Value first) {
    e.loop(zero, e.index(bands.ofClass), 1, [&](Value i) {
      Value p = e.min(e.add(e.add(p0, first), e.mul(i, bands.period)), last);
      Value to = e.add(row0, e.add(e.mul(first, bands.ofClass), i));
      for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
        Value column = e.add(getFirstColumn(head), lane0);
        Value value = e.load(query, {e.add(base, p), column}, shape.head - lane0);
        e.store(value, queryRows, {to, e.index(lane0)});
      }
    });
  });
}

/// Gradients of products stay zero at positions without a score.
void Terms::clearGradients() {
  if (rows) {
    emitFill(e, productGradients, 0);
    emitFill(e, queryGradients, 0);
    emitFill(e, rowGradients, 0);
  }
  if (table) {
    Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
    e.loop(e.index(0), e.index(front() + allDistances()), 1,
           [&](Value i) { e.store(zero, biasGradients, {i}); });
  }
}

void Terms::eachBand(Value p0, Value q0, llvm::function_ref<void(const Band &)> body) {
  Value zero = e.index(0);
  e.loop(zero, e.index(bands.period), 1, [&](Value first) {
    e.loop(zero, e.index(bands.ofClass), bands.rows, [&](Value i) {
      Value p = e.add(e.add(p0, first), e.mul(i, bands.period));
      Value x = e.add(e.mul(p, a), c), number = e.floorDiv(x, b);
      Value column = e.add(e.sub(q0, number), bands.top - bands.shift * (bands.rows - 1));
      body({e.add(e.mul(first, bands.ofClass), i), e.sub(x, e.mul(number, b)), column});
    });
  });
}

Terms::QueryPlace Terms::computeQueryPlace(Value queryOfBlock) {
  Value i = e.floorDiv(queryOfBlock, bands.period);
  Value first = e.sub(queryOfBlock, e.mul(i, bands.period));
  Value ofBand = e.sub(i, e.mul(e.floorDiv(i, bands.rows), bands.rows));
  Value column = e.mul(e.sub(e.index(bands.rows - 1), ofBand), bands.shift);
  return {e.add(e.mul(first, bands.ofClass), i), column};
}

void Terms::eachSquare(Square body) {
  int64_t whole = shape.keyBlock / e.lanes * e.lanes, rest = shape.keyBlock - whole;
  e.loop(e.index(0), e.index(shape.queryBlock), e.lanes, [&](Value first) {
    SmallVector<QueryPlace> places;
    for (int64_t lane = 0; lane < e.lanes; ++lane) {
      places.push_back(computeQueryPlace(e.add(first, lane)));
    }
    e.loop(e.index(0), e.index(whole), e.lanes,
           [&](Value key) { body(first, key, e.lanes, places); });
    if (rest > 0) {
      body(first, e.index(whole), rest, places);
    }
  });
}

void Terms::emitProducts(Value p0, Value q0) {
  if (!rows) {
    return;
  }
  eachBand(p0, q0, [&](const Band &band) {
    Matmul product;
    product.rows = bands.rows;
    product.vectors = bands.width / e.lanes;
    product.depth = e.index(shape.head);
    product.a = {queryRows, e.add(firstQueryRow(p0), band.row), {}};
    product.b = {rowColumns, e.mul(band.rowClass, shape.head), band.column};
    product.finish = [&](Value row, Value column, Accumulators &tile) {
      for (auto [i, line] : llvm::enumerate(tile)) {
        for (auto [j, value] : llvm::enumerate(line)) {
          Value at = e.add(band.row, e.add(row, i));
          e.store(value, products, {at, e.add(column, j * e.lanes)});
        }
      }
    };
    emitMatmul(e, target, product);
  });
  eachSquare([&](Value first, Value key, int64_t keys, ArrayRef<QueryPlace> places) {
    Emitter::Values square;
    for (const QueryPlace &place : places) {
      square.push_back(e.load(products, {place.row, e.add(place.column, key)}));
    }
    e.transpose(square);
    for (int64_t i = 0; i < keys; ++i) {
      e.store(square[i], scoreProducts, {e.add(key, i), first});
    }
  });
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

/// Gathers elements from `first`, a stride apart.
Value Terms::gather(Value memory, ValueRange first, int64_t stride) {
  return vector::GatherOp::create(e.b, e.floats, memory, first, steps(stride), allLanes(),
                                  e.splat(0));
}

/// Element l of a vector is stored at l times the stride; all addresses are distinct.
void Terms::scatter(Value vector, Value memory, ValueRange first, int64_t stride) {
  vector::ScatterOp::create(e.b, TypeRange(), memory, first, steps(stride), allLanes(), vector,
                            IntegerAttr());
}

Value Terms::computeDotProduct(Value key, Value offset) {
  return rows ? e.load(scoreProducts, {key, offset}) : Value();
}

Value Terms::computeBias(Value p0, Value q0, Value key, Value offset) {
  if (!table) {
    return {};
  }
  Value at = biasIndex(p0, q0, key, offset);
  return a == 1 ? e.load(biases, {at}) : gather(biases, {at}, a);
}

void Terms::addBiasGradient(Value gradient, Value p0, Value q0, Value key, Value offset) {
  Value at = biasIndex(p0, q0, key, offset);
  if (a == 1) {
    e.store(e.addf(e.load(biasGradients, {at}), gradient), biasGradients, {at});
    return;
  }
  scatter(e.addf(gather(biasGradients, {at}, a), gradient), biasGradients, {at}, a);
}

void Terms::emitGradients(Value gradients, Value p0, Value q0) {
  if (!rows) {
    return;
  }
  eachSquare([&](Value first, Value key, int64_t keys, ArrayRef<QueryPlace> places) {
    Emitter::Values square(e.lanes, e.splat(0));
    for (int64_t i = 0; i < keys; ++i) {
      square[i] = e.load(gradients, {e.add(key, i), first});
    }
    e.transpose(square);
    for (auto [place, gradient] : llvm::zip(places, square)) {
      e.store(gradient, productGradients, {place.row, e.add(place.column, key)});
    }
  });
  eachBand(p0, q0, [&](const Band &band) {
    Value queryRow = e.add(firstQueryRow(p0), band.row);
    Value firstRow = e.add(getFirstRowOfClass(band.rowClass), band.column);
    Matmul product;
    product.rows = bands.rows;
    product.vectors = shape.headVectors;
    product.depth = e.index(bands.width);
    product.a = {productGradients, band.row, {}};
    product.b = {packedRows, firstRow, {}};
    emitMatmul(e, target, accumulateInto(e, product, queryGradients, queryRow));
    product.rows = bands.width;
    product.depth = e.index(bands.rows);
    product.a.transposed = true;
    product.b = {queryRows, queryRow, {}};
    emitMatmul(e, target, accumulateInto(e, product, rowGradients, firstRow));
  });
}

void Terms::storeQueries(Value p0) {
  if (!rows) {
    return;
  }
  Value count = e.min(e.index(shape.queryBlock), e.sub(length, p0));
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value row = e.add(firstQueryRow(p0), computeQueryPlace(i).row);
    copyRow(queryGradients, row, queryGradient, e.add(base, e.add(p0, i)));
  });
}

/// Copies the columns of one head from a packed row to a row of a tensor.
void Terms::copyRow(Value from, Value fromRow, Value to, Value toRow) {
  for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
    Value value = e.load(from, {fromRow, e.index(lane0)});
    e.store(value, to, {toRow, e.add(getFirstColumn(head), lane0)}, shape.head - lane0);
  }
}

Value Terms::packedRow(Value distance) {
  Value number = e.floorDiv(distance, b);
  Value rowClass = e.sub(distance, e.mul(number, b));
  return e.add(getFirstRowOfClass(rowClass), e.sub(e.index(bands.top), number));
}

/// Distances beyond the last valid row use that row.
void Terms::foldLastRow() {
  Value last = packedRow(e.add(rowLength, -1));
  e.loop(e.index(0), e.index(c), 1, [&](Value i) {
    Value beyond = packedRow(e.add(rowLength, i));
    for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
      Value lane = e.index(lane0);
      Value sum = e.addf(e.load(rowGradients, {last, lane}), e.load(rowGradients, {beyond, lane}));
      e.store(sum, rowGradients, {last, lane});
    }
  });
}

void Terms::storeHead(Value batchRow) {
  if (rows) {
    if (c > 0) {
      foldLastRow();
    }
    e.loop(e.index(0), rowLength, 1, [&](Value row) {
      copyRow(rowGradients, packedRow(row), rowGradient, e.add(rowBase, row));
    });
  }
  if (!table) {
    return;
  }
  // The last row of the table serves all distances from its own on.
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

void Terms::storeZeros(Value batchRow, Value headOf, Value from, Value to, bool isWhole) {
  if (rows) {
    emitZeroRows(e, shape, queryGradient, e.mul(batchRow, shape.queries), from, to,
                 getFirstColumn(headOf));
    Value fromRow = isWhole ? e.index(0) : frame.lengths(step, rowCount()).of(batchRow);
    emitZeroRows(e, shape, rowGradient, e.mul(batchRow, rowCount()), fromRow, e.index(rowCount()),
                 getFirstColumn(headOf));
  }
  if (table && isWhole) {
    Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
    Value part = e.mul(batchRow, biasRows());
    e.loop(e.index(0), e.index(biasRows()), 1,
           [&](Value i) { e.store(zero, tableGradient, {e.add(part, i), headOf}); });
  }
}
