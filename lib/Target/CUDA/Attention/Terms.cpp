// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bands: products with their lines, and the shuffles between lines and scores.
#include "Terms.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

// Along a row, the line of column 2q + e is at r = g + 7 - 2q - e from the first line of a
// fragment; along a column, at 2q + e + 7 - g. Both are in [0, 14]. A lane sends its line to
// exactly one other lane, so along a column, where lanes need different registers, the sender
// chooses the register.
Band::Band(AttentionFrame &f, int64_t streamed, Slope slope)
    : f(f), e(f.e), b(f.b), streamed(streamed), slope(slope) {
  Value g = e.toInteger(f.group), q = e.toInteger(f.quad);
  auto low = [&](Value x) -> Value { return arith::AndIOp::create(b, x, e.integer(7)); };
  odd = arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                              arith::AndIOp::create(b, g, e.integer(1)), e.integer(0));
  for (int64_t element : {0, 1}) {
    Value column = e.add(e.mul(q, 2), element);
    if (slope == Slope::FixedMinusStreamed) {
      Value line = e.sub(e.add(g, 7), column);
      Value inQuad = arith::ShRUIOp::create(b, low(line), e.integer(1));
      lane[element] = e.add(e.mul(g, 4), inQuad);
      later[element] = atLeast(line, 8);
    } else {
      lane[element] = e.add(e.mul(low(e.sub(e.add(column, 7), g)), 4), q);
      later[element] = atLeast(e.sub(column, g), 1);
    }
  }
}

Value Band::atLeast(Value x, int64_t bound) { return e.atLeast(x, e.integer(bound)); }

Value Band::firstDistance(Value p0, Value q0) {
  return e.add(emitDistance(e, f.shape.distance, p0, q0), -linesBefore() * f.shape.stride());
}

/// All lanes of the warp must call it.
Value Band::exchange(Value x, Value from) {
  return NVVM::ShflOp::create(b, b.getF32Type(), e.integer(-1), x, from,
                              e.integer(threadsPerWarp - 1), NVVM::ShflKind::idx, UnitAttr());
}

/// result[i][c] = from[i][i + streamed - 1 - c], or 0 if there is no such column. Maps lines to
/// scores and, as its own inverse, scores to lines.
Values Band::reversed(const Values &from, int64_t columns) {
  int64_t blocks = int64_t(from.size()) / sumsPerFragment;
  Value zero = f.f32(0);
  auto block = [&](int64_t number, int64_t half, int64_t element) {
    if (number < 0 || number >= blocks) {
      return zero;
    }
    Value first = from[number * sumsPerFragment + 2 * half],
          second = from[number * sumsPerFragment + 2 * half + 1];
    Value given = element == 0 ? e.select(odd, first, second) : e.select(odd, second, first);
    return exchange(given, lane[element]);
  };
  Values result(size_t(columns / fragmentColumns * sumsPerFragment));
  for (int64_t half : {0, 1}) {
    for (int64_t element : {0, 1}) {
      int64_t number = streamed / fragmentColumns + half;
      Value second = block(number, half, element);
      for (int64_t n = 0; n < columns / fragmentColumns; ++n) {
        Value first = block(--number, half, element);
        result[n * sumsPerFragment + 2 * half + element] =
            first == second ? first : e.select(later[element], second, first);
        second = first;
      }
    }
  }
  return result;
}

Values Band::multiplyFixed(const Fixed &fixed, const Tile &band, Value offset) {
  assert(slope == Slope::FixedMinusStreamed);
  Value own = e.add(offset, computeWarpOffset(f, band, 1));
  Values products;
  for (int64_t line = 0; line < streamed + fragmentRows; line += fragmentRows) {
    Tile part{fragmentRows, band.columns, band.byte + line * band.lineBytes()};
    products.append(multiplyByRows(f, fixed, 1, part, own));
  }
  return reversed(products, streamed);
}

// Processes 16 columns at a time, which need at most 32 lines. Warps of later rows use earlier
// lines.
Values Band::multiplyStreamed(const Tile &band, const Tile &streamedRows, Value offset) {
  assert(slope == Slope::StreamedMinusFixed);
  Value before = e.sub(e.index(warps - 1), f.frame.warp);
  Value own = e.add(offset, e.mul(before, fragmentRows * band.lineBytes()));
  Values scores;
  for (int64_t j = 0; j < streamed; j += fragmentRows) {
    Tile lines{2 * fragmentRows, band.columns, band.byte + j * band.lineBytes()};
    Tile rows{fragmentRows, band.columns, streamedRows.byte + j * streamedRows.lineBytes()};
    Values products = multiplyByRows(f, {lines, {}, own}, 2, rows, offset);
    auto product = [&](int64_t eight, int64_t column, int64_t element) {
      return products[(eight / 2 * 2 + column) * sumsPerFragment + eight % 2 * 2 + element];
    };
    for (int64_t column : {0, 1}) {
      for (int64_t half : {0, 1}) {
        for (int64_t element : {0, 1}) {
          int64_t eight = column + 1 - half;
          Value given = e.select(later[element], product(eight + 1, column, element),
                                 product(eight, column, element));
          scores.push_back(exchange(given, lane[element]));
        }
      }
    }
  }
  return scores;
}

Values Band::multiplyWeights(const Values &weights, const Tile &band, Value offset, Values sums) {
  Tile own{streamed + fragmentRows, band.columns, band.byte};
  Value at = e.add(e.add(offset, computeWarpOffset(f, band, 1)), e.mul(f.part, 2));
  return accumulateProduct(f, reversed(weights, own.rows), 1, own, at, f.shape.partWidth,
                           std::move(sums));
}

Value attention::emitBiasRow(AttentionFrame &f, Value distance) {
  const AttentionShape::TermTable &table = f.shape.biasTable;
  distance = table.first == 0 ? distance : f.e.add(distance, -table.first);
  return emitDistanceRow(f.e, distance, f.e.index(table.rows));
}

void Band::loadBiases(int64_t byte, Value offset, Value table, Value head, Value first) {
  auto copy = [&] {
    Value distance = e.add(first, f.scaled(f.thread, f.shape.stride()));
    distance = emitBiasRow(f, distance);
    f.core.copy(f.core.shared(e.add(offset, e.mul(f.thread, 4)), byte),
                f.core.global(table, {distance, head}), 4);
  };
  if (lines() == threadsPerBlock) {
    copy();
  } else {
    e.when(e.less(f.thread, e.index(lines())), copy);
  }
}

Value Band::bias(int64_t byte, Value offset, const ElementPlace &at) {
  bool behind = slope == Slope::FixedMinusStreamed;
  Value row = e.add(e.mul(f.frame.warp, fragmentRows), f.group), column = e.mul(f.quad, 2);
  Value line = behind ? e.sub(row, column) : e.sub(column, row);
  int64_t further = at.row() * fragmentRows / 2 - (at.column * fragmentColumns + at.part % 2);
  further = behind ? further + streamed - 1 : fixedRows - 1 - further;
  Value place = e.add(offset, e.mul(e.add(line, further), 4));
  return f.core.load(b.getF32Type(), f.core.shared(place, byte), 4);
}

Products attention::computeProducts(AttentionFrame &f, Values raw, Values byDistance) {
  if (!f.shape.scoreFactor || byDistance.empty()) {
    return {std::move(raw), std::move(byDistance)};
  }
  for (auto [to, more] : llvm::zip_equal(raw, byDistance)) {
    to = f.e.addf(to, more);
  }
  return {std::move(raw), {}};
}

Source attention::sourceOfTerm(AttentionFrame &f, unsigned term, Value headIndex) {
  Source source{term == 0 ? f.queries : f.distances, f.frame.buffer(f.shape.firstTerm + term),
                f.e.mul(headIndex, f.shape.head), f.e.index(f.shape.head),
                f.shape.head % chunkElements == 0};
  source.before = true;
  source.repeatsLast = term == 1 && f.shape.hasFarther();
  if (term == 1 && f.shape.rowTable) {
    source.rows.positions = f.shape.rowTable->rows;
    source.rows.base = source.column = f.e.index(0);
    source.rows.length = f.e.index(f.shape.rowTable->rows);
    source.firstDistance = f.shape.rowTable->first;
  }
  return source;
}
