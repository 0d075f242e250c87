// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relative position terms: rows packed once per head, products and their adjoints per pair of
// blocks.
#include "Terms.h"
#include "../../Common/Storage.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

namespace {

/// A band and a block of keys: the first packed query of the band, its class, and the column of
/// its last query with the first key of the block.
struct Band {
  Value row, rowClass, column;
};
/// Row of a query in its block, and the column of its product with key q0.
struct QueryPlace {
  Value row, column;
};
using Square =
    llvm::function_ref<void(Value query, Value key, int64_t keys, ArrayRef<QueryPlace> places)>;

} // namespace

static Value getFirstRowOfClass(HeadTerms &t, Value rowClass) {
  return t.e.mul(rowClass, t.bands.columns);
}

static Value getFirstColumn(HeadTerms &t, Value head) { return t.e.mul(head, t.shape.head); }

/// Returns the rows of the table's partial gradients.
static int64_t countBiasParts(const HeadTerms &t) {
  return t.operands.isCentered ? t.operands.countDistances(t.shape.queries) : t.biasRows();
}

/// Returns the first row of a head in the gradient of R, and its first column. Parts of a table's
/// gradient follow one another head by head.
static Value getFirstGradientRow(HeadTerms &t, Value batchRow, Value head) {
  Emitter &e = t.e;
  Value part = t.operands.hasRowTable() ? e.add(e.mul(batchRow, t.shape.heads), head) : batchRow;
  return e.mul(part, t.rowCount());
}
static Value getGradientColumn(HeadTerms &t, Value head) {
  return t.operands.hasRowTable() ? t.e.index(0) : getFirstColumn(t, head);
}

static Value biasIndex(HeadTerms &t, Value p0, Value q0, Value key, Value offset) {
  Emitter &e = t.e;
  return e.add(emitDistance(e, t.operands.distance, e.add(p0, offset), e.add(q0, key)), t.front());
}

/// Returns the first packed query of a block.
static Value firstQueryRow(HeadTerms &t, Value p0) {
  Emitter &e = t.e;
  return t.keepsQueries ? e.mul(e.floorDiv(p0, t.shape.queryBlock), t.bands.block()) : e.index(0);
}

// A band has as many queries as fit with at most one more vector than a block of keys, but at least
// four for an efficient matmul.
TermBands HeadTerms::makeBands() const {
  int64_t common = std::gcd(a, b), lanes = e.lanes;
  TermBands s{};
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

void HeadTerms::allocate(std::optional<unsigned> firstGradient) {
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

static void packRows(HeadTerms &t) {
  const AttentionShape &shape = t.shape;
  Emitter &e = t.e;
  const TermBands &bands = t.bands;
  Value zero = e.index(0);
  int64_t rest = shape.head % 4, whole = shape.head - rest;
  auto packColumns = [&](Value rowClass, Value column) {
    SmallVector<Values> places; // of the first column of each row
    for (int64_t i = 0; i < e.lanes; ++i) {
      Value at = e.add(column, i);
      Value distance = e.add(e.mul(e.sub(e.index(bands.top), at), t.b), rowClass);
      Value from, first = zero;
      if (t.operands.hasRowTable()) {
        int64_t rows = HeadTerms::getExtent(t.operands.rows, 0);
        from = emitDistanceRow(e, e.add(distance, -t.operands.firstDistance(rows)), e.index(rows));
      } else {
        from = e.add(t.rowBase, emitDistanceRow(e, distance, t.rowLength));
        first = getFirstColumn(t, t.head);
      }
      places.push_back({from, first});
      for (int64_t lane0 = 0; t.packedRows && lane0 < shape.headWidth; lane0 += e.lanes) {
        Value vector = e.load(t.rows, {from, e.add(first, lane0)}, shape.head - lane0);
        e.store(vector, t.packedRows, {e.add(getFirstRowOfClass(t, rowClass), at), e.index(lane0)});
      }
    }
    auto transpose = [&](Value c, int64_t count) {
      auto place = [&](int64_t i) { return Values{places[i][0], e.add(places[i][1], c)}; };
      Value mask = count < 4 ? emitColumnMask(e.b, 4, c, e.index(shape.head)) : Value();
      Values columns = loadTransposed(e.b, e.lanes, t.rows, place, mask);
      for (int64_t i = 0; i < count; ++i) {
        e.store(columns[i], t.rowColumns,
                {e.add(e.mul(rowClass, shape.head), e.add(c, i)), column});
      }
    };
    e.loop(zero, e.index(whole), 4, [&](Value c) { transpose(c, 4); });
    if (rest != 0) {
      transpose(e.index(whole), rest);
    }
  };
  e.loop(zero, e.index(t.b), 1, [&](Value rowClass) {
    e.loop(zero, e.index(bands.columns), e.lanes,
           [&](Value column) { packColumns(rowClass, column); });
  });
}

void HeadTerms::packHead(Value batchRow, Value lengthOf, Value headOf) {
  base = e.mul(batchRow, shape.queries);
  length = lengthOf;
  head = headOf;
  if (rows) {
    rowBase = getFirstGradientRow(*this, batchRow, head);
    rowLength =
        operands.hasRowTable() ? e.index(rowCount()) : frame.lengths(step, rowCount()).of(batchRow);
    packRows(*this);
  }
  if (table) {
    e.loop(e.index(0), e.index(front() + allDistances()), 1, [&](Value i) {
      int64_t first = front() + operands.firstDistance(biasRows());
      Value row = emitDistanceRow(e, e.add(i, -first), e.index(biasRows()));
      e.store(e.loadScalar(table, {row, head}), biases, {i});
    });
  }
}

/// Rows after a block's queries repeat some query; their results are unused.
void HeadTerms::packQueries(Value p0) {
  if (!rows) {
    return;
  }
  Value zero = e.index(0), last = e.add(length, -1), row0 = firstQueryRow(*this, p0);
  e.loop(zero, e.index(bands.period), 1, [&](Value first) {
    e.loop(zero, e.index(bands.ofClass), 1, [&](Value i) {
      Value p = e.min(e.add(e.add(p0, first), e.mul(i, bands.period)), last);
      Value to = e.add(row0, e.add(e.mul(first, bands.ofClass), i));
      for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
        Value column = e.add(getFirstColumn(*this, head), lane0);
        Value value = e.load(query, {e.add(base, p), column}, shape.head - lane0);
        e.store(value, queryRows, {to, e.index(lane0)});
      }
    });
  });
}

/// Gradients of products stay zero at positions without a score.
void HeadTerms::clearGradients() {
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

static void eachBand(HeadTerms &t, Value p0, Value q0,
                     llvm::function_ref<void(const Band &)> body) {
  Emitter &e = t.e;
  const TermBands &bands = t.bands;
  Value zero = e.index(0);
  e.loop(zero, e.index(bands.period), 1, [&](Value first) {
    e.loop(zero, e.index(bands.ofClass), bands.rows, [&](Value i) {
      Value p = e.add(e.add(p0, first), e.mul(i, bands.period));
      Value x = e.add(e.mul(p, t.a), t.c), number = e.floorDiv(x, t.b);
      Value column = e.add(e.sub(q0, number), bands.top - bands.shift * (bands.rows - 1));
      body({e.add(e.mul(first, bands.ofClass), i), e.sub(x, e.mul(number, t.b)), column});
    });
  });
}

static QueryPlace computeQueryPlace(HeadTerms &t, Value queryOfBlock) {
  Emitter &e = t.e;
  const TermBands &bands = t.bands;
  Value i = e.floorDiv(queryOfBlock, bands.period);
  Value first = e.sub(queryOfBlock, e.mul(i, bands.period));
  Value ofBand = e.sub(i, e.mul(e.floorDiv(i, bands.rows), bands.rows));
  Value column = e.mul(e.sub(e.index(bands.rows - 1), ofBand), bands.shift);
  return {e.add(e.mul(first, bands.ofClass), i), column};
}

static void eachSquare(HeadTerms &t, int64_t most, Square body) {
  const AttentionShape &shape = t.shape;
  Emitter &e = t.e;
  int64_t whole = shape.keyBlock / most * most, rest = shape.keyBlock - whole;
  e.loop(e.index(0), e.index(shape.queryBlock), e.lanes, [&](Value first) {
    SmallVector<QueryPlace> places;
    for (int64_t lane = 0; lane < e.lanes; ++lane) {
      places.push_back(computeQueryPlace(t, e.add(first, lane)));
    }
    e.loop(e.index(0), e.index(whole), most, [&](Value key) { body(first, key, most, places); });
    if (rest > 0) {
      body(first, e.index(whole), rest, places);
    }
  });
}

void HeadTerms::emitProducts(Value p0, Value q0) {
  if (!rows) {
    return;
  }
  eachBand(*this, p0, q0, [&](const Band &band) {
    Matmul product;
    product.rows = bands.rows;
    product.vectors = bands.width / e.lanes;
    product.depth = e.index(shape.head);
    product.a = {queryRows, e.add(firstQueryRow(*this, p0), band.row), {}};
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
  eachSquare(*this, 4, [&](Value first, Value key, int64_t keys, ArrayRef<QueryPlace> places) {
    auto place = [&](int64_t i) { return Values{places[i].row, e.add(places[i].column, key)}; };
    Values columns = loadTransposed(e.b, e.lanes, products, place);
    for (int64_t i = 0; i < keys; ++i) {
      e.store(columns[i], scoreProducts, {e.add(key, i), first});
    }
  });
}

static Value steps(HeadTerms &t, int64_t stride) {
  Emitter &e = t.e;
  SmallVector<int32_t> numbers;
  for (int64_t lane = 0; lane < e.lanes; ++lane) {
    numbers.push_back(static_cast<int32_t>(lane * stride));
  }
  return arith::ConstantOp::create(e.b,
                                   DenseElementsAttr::get(e.integers, ArrayRef<int32_t>(numbers)));
}

static Value allLanes(HeadTerms &t) {
  Emitter &e = t.e;
  auto masks = VectorType::get({e.lanes}, e.b.getI1Type());
  return arith::ConstantOp::create(e.b, DenseElementsAttr::get(masks, true));
}

/// Gathers elements from `first`, a stride apart.
static Value gather(HeadTerms &t, Value memory, ValueRange first, int64_t stride) {
  Emitter &e = t.e;
  return vector::GatherOp::create(e.b, e.floats, memory, first, steps(t, stride), allLanes(t),
                                  e.splat(0));
}

/// Element l of a vector is stored at l times the stride; all addresses are distinct.
static void scatter(HeadTerms &t, Value vector, Value memory, ValueRange first, int64_t stride) {
  vector::ScatterOp::create(t.e.b, TypeRange(), memory, first, steps(t, stride), allLanes(t),
                            vector, IntegerAttr());
}

Value HeadTerms::computeDotProduct(Value key, Value offset) {
  return rows ? e.load(scoreProducts, {key, offset}) : Value();
}

Value HeadTerms::computeBias(Value p0, Value q0, Value key, Value offset) {
  if (!table) {
    return {};
  }
  Value at = biasIndex(*this, p0, q0, key, offset);
  return a == 1 ? e.load(biases, {at}) : gather(*this, biases, {at}, a);
}

Value attention::computeScore(HeadTerms &terms, Region &region, ValueRange arguments, Value p0,
                              Value q0, Value key, Value offset) {
  Value others[] = {terms.computeDotProduct(key, offset), terms.computeBias(p0, q0, key, offset)};
  return terms.e.broadcast(emitRegion(terms.e, region, withTerms(arguments, others)));
}

void HeadTerms::addBiasGradient(Value gradient, Value p0, Value q0, Value key, Value offset) {
  Value at = biasIndex(*this, p0, q0, key, offset);
  if (a == 1) {
    e.store(e.addf(e.load(biasGradients, {at}), gradient), biasGradients, {at});
    return;
  }
  scatter(*this, e.addf(gather(*this, biasGradients, {at}, a), gradient), biasGradients, {at}, a);
}

void HeadTerms::emitGradients(Value gradients, Value p0, Value q0) {
  if (!rows) {
    return;
  }
  auto type = VectorType::get({4}, e.b.getF32Type());
  Value none = arith::ConstantOp::create(e.b, e.b.getZeroAttr(type));
  eachSquare(
      *this, e.lanes, [&](Value first, Value key, int64_t keys, ArrayRef<QueryPlace> places) {
        for (int64_t query = 0; query < e.lanes; query += 4) {
          auto load = [&](int64_t i) {
            return i < keys ? loadVector(e.b, 4, gradients, {e.add(key, i), e.add(first, query)})
                            : none;
          };
          for (auto [i, row] : llvm::enumerate(emitTransposedColumns(e.b, e.lanes, load))) {
            const QueryPlace &place = places[query + int64_t(i)];
            e.store(row, productGradients, {place.row, e.add(place.column, key)});
          }
        }
      });
  eachBand(*this, p0, q0, [&](const Band &band) {
    Value queryRow = e.add(firstQueryRow(*this, p0), band.row);
    Value firstRow = e.add(getFirstRowOfClass(*this, band.rowClass), band.column);
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

/// Copies a packed row to a row of a tensor, from column `toColumn` on.
static void copyRow(HeadTerms &t, Value from, Value fromRow, Value to, Value toRow,
                    Value toColumn) {
  const AttentionShape &shape = t.shape;
  Emitter &e = t.e;
  for (int64_t lane0 = 0; lane0 < shape.headWidth; lane0 += e.lanes) {
    Value value = e.load(from, {fromRow, e.index(lane0)});
    e.store(value, to, {toRow, e.add(toColumn, lane0)}, shape.head - lane0);
  }
}

void HeadTerms::storeQueries(Value p0) {
  if (!rows) {
    return;
  }
  Value count = e.min(e.index(shape.queryBlock), e.sub(length, p0));
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value row = e.add(firstQueryRow(*this, p0), computeQueryPlace(*this, i).row);
    copyRow(*this, queryGradients, row, queryGradient, e.add(base, e.add(p0, i)),
            getFirstColumn(*this, head));
  });
}

static Value packedRow(HeadTerms &t, Value distance) {
  Emitter &e = t.e;
  Value number = e.floorDiv(distance, t.b);
  Value rowClass = e.sub(distance, e.mul(number, t.b));
  return e.add(getFirstRowOfClass(t, rowClass), e.sub(e.index(t.bands.top), number));
}

/// Distances beyond the last valid row use that row.
static void foldLastRow(HeadTerms &t) {
  Emitter &e = t.e;
  Value last = packedRow(t, e.add(t.rowLength, -1));
  e.loop(e.index(0), e.index(t.c), 1, [&](Value i) {
    Value beyond = packedRow(t, e.add(t.rowLength, i));
    for (int64_t lane0 = 0; lane0 < t.shape.headWidth; lane0 += e.lanes) {
      Value lane = e.index(lane0);
      Value sum =
          e.addf(e.load(t.rowGradients, {last, lane}), e.load(t.rowGradients, {beyond, lane}));
      e.store(sum, t.rowGradients, {last, lane});
    }
  });
}

void HeadTerms::storeHead(Value batchRow) {
  if (rows) {
    if (c > 0 && !operands.hasRowTable()) {
      foldLastRow(*this);
    }
    Value column = getGradientColumn(*this, head);
    e.loop(e.index(0), rowLength, 1, [&](Value row) {
      copyRow(*this, rowGradients, packedRow(*this, row), rowGradient, e.add(rowBase, row), column);
    });
  }
  if (!table) {
    return;
  }
  // The last row of the table serves its own distance and all greater ones; parts of a centered
  // table have a row for each distance.
  Value part = e.mul(batchRow, countBiasParts(*this));
  Value last = e.index(countBiasParts(*this) - (operands.isCentered ? 0 : 1));
  e.loop(e.index(0), last, 1, [&](Value i) {
    e.store(e.loadScalar(biasGradients, {e.add(i, front())}), tableGradient,
            {e.add(part, i), head});
  });
  if (operands.isCentered) {
    return;
  }
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  auto rest = e.loop(last, e.index(allDistances()), 1, zero, [&](Value i, ValueRange so) {
    return Values{e.addf(so.front(), e.loadScalar(biasGradients, {e.add(i, front())}))};
  });
  e.store(rest.front(), tableGradient, {e.add(part, last), head});
}

void HeadTerms::storeZeros(Value batchRow, Value headOf, Value from, Value to, bool isWhole) {
  if (rows) {
    emitZeroRows(e, shape, queryGradient, e.mul(batchRow, shape.queries), from, to,
                 getFirstColumn(*this, headOf));
    Value end = e.index(rowCount()), fromRow = e.index(0);
    if (!isWhole) {
      fromRow = operands.hasRowTable() ? end : frame.lengths(step, rowCount()).of(batchRow);
    }
    emitZeroRows(e, shape, rowGradient, getFirstGradientRow(*this, batchRow, headOf), fromRow, end,
                 getGradientColumn(*this, headOf));
  }
  if (table && isWhole) {
    Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
    Value part = e.mul(batchRow, countBiasParts(*this));
    e.loop(e.index(0), e.index(countBiasParts(*this)), 1,
           [&](Value i) { e.store(zero, tableGradient, {e.add(part, i), headOf}); });
  }
}
