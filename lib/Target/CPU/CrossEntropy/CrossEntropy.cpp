// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks, packing and matmuls of output head and cross-entropy.
#include "CrossEntropy.h"
#include "../../Common/Storage.h"
#include "../Contract/Tile.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::cross_entropy;

static ArrayRef<int64_t> getTensorShape(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

// 48 lanes: three vectors of 16 by nine rows, or two of 8 by six at a time, fill the register file,
// and every loaded element of the streamed factor is used in 96 operations of a matmul (at 118
// Gflop/s, 5 GB/s). The block is narrower if it would leave fewer than eight items. 128 streamed
// rows of scores (24 KB) stay in L1 while the second matmul reads them.
LossShape::LossShape(Value input, Value weight, dispatch::DomainAttr domain, int64_t held,
                     const Target &target)
    : batch(domain.getBatch()), positions(domain.getPositions()), width(getTensorShape(input)[2]),
      vocabulary(getTensorShape(weight)[0]) {
  constexpr int64_t wantedItems = 8, widest = 48, narrowest = 16;
  block = widest;
  while (block > narrowest && llvm::divideCeil(held, block) < wantedItems) {
    block -= 16;
  }
  vectors = block / target.lanes;
  tileRows = attention::tileRows(target, vectors);
  steps = 132 / tileRows * tileRows;
  factorBytes = cast<RankedTensorType>(weight.getType()).getElementTypeBitWidth() / 8;
}

LossGenerator::LossGenerator(Operation *op, Value input, Value weight, Value tokens,
                             const Scoring &scoring, int64_t held, ModuleOp module, StringRef name,
                             const Target &target)
    : target(target), shape(input, weight, scoring.domain, held, target), scoring(scoring),
      frame(op, module, name, target), e(frame.builder(), target.lanes), input(frame.buffer(0)),
      weight(frame.buffer(1)), tokens(frame.buffer(2)) {
  int64_t columns = llvm::divideCeil(shape.width, e.lanes) * e.lanes;
  this->held = frame.scratch(numbers({columns, shape.block}));
  sums = frame.scratch(numbers({columns, shape.block}));
  staging = frame.scratch(numbers({shape.block, columns}));
  if (isHalfMemory(this->weight)) {
    streamed = frame.scratch(numbers({shape.steps, dispatch::paddedWidth(shape.width)}));
  }
  lengths = frame.lengths(scoring.domain.getFactor(), shape.positions);
  validLength = scoring.domain.getAxis() ? Value() : lengths.ofAll();
  validRows = e.index(shape.batch);
  if (scoring.domain.getFactor() != 0) { // the domain may have the first rows of the batch alone
    bool isPart = shape.batch < getTensorShape(input)[0];
    validRows = isPart ? e.min(frame.rows(), validRows) : frame.rows();
  }
}

Value LossGenerator::isValid(Value row) {
  Value sequence = e.floorDiv(row, shape.positions);
  Value position = e.sub(row, e.mul(sequence, shape.positions));
  return e.both(e.less(sequence, validRows), e.less(position, lengths.of(sequence)));
}

Value LossGenerator::isScored(Value row) {
  Value valid = isValid(row);
  if (scoring.first == 0) {
    return valid;
  }
  Value position = e.sub(row, e.mul(e.floorDiv(row, shape.positions), shape.positions));
  return e.both(valid, e.atLeast(position, e.index(scoring.first)));
}

Value LossGenerator::incoming(Value row) {
  Value sequence = e.floorDiv(row, shape.positions);
  Value position = e.sub(row, e.mul(sequence, shape.positions));
  Value zero = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(0));
  Value given = rowGradient ? e.loadScalar(rowGradient, {sequence, position}) : share();
  return scoring.first == 0 ? given
                            : e.select(e.atLeast(position, e.index(scoring.first)), given, zero);
}

Value LossGenerator::getTargetToken(Value row) {
  Value sequence = e.floorDiv(row, shape.positions);
  Value at = e.add(e.sub(row, e.mul(sequence, shape.positions)), scoring.offset);
  int64_t last = cast<MemRefType>(tokens.getType()).getDimSize(1) - 1;
  auto clamp = [&](Value x, int64_t limit) { return e.max(e.index(0), e.min(x, e.index(limit))); };
  Value clamped = clamp(at, last);
  Value token = arith::IndexCastOp::create(e.b, e.b.getIndexType(),
                                           e.loadScalar(tokens, {sequence, clamped}));
  Value inside = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, at, clamped);
  // Keeps accesses within buffers for any tokens of invalid rows.
  return e.select(inside, clamp(token, shape.vocabulary - 1), e.index(0));
}

Value LossGenerator::loadIndex(Value memory, Value i) {
  return arith::IndexCastOp::create(e.b, e.b.getIndexType(), e.loadScalar(memory, {i}));
}

Value LossGenerator::share() {
  Value length = validLength;
  if (!length) { // verified: rows of such a domain have incoming gradients, or no gradient is
                 // computed
    return arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(scoring.factor));
  }
  if (scoring.first > 0) {
    length = e.max(e.sub(length, e.index(scoring.first)), e.index(1));
  }
  Value count = arith::IndexCastOp::create(e.b, e.b.getI64Type(), e.mul(length, validRows));
  Value factor = arith::ConstantOp::create(e.b, e.b.getF32FloatAttr(scoring.factor));
  return arith::DivFOp::create(e.b, factor, arith::SIToFPOp::create(e.b, e.b.getF32Type(), count));
}

Value LossGenerator::loadBelow(Value memory, ValueRange indices, Value column, Value limit) {
  return loadVector(e.b, e.lanes, memory, indices, emitColumnMask(e.b, e.lanes, column, limit));
}

void LossGenerator::storeBelow(Value value, Value memory, ValueRange indices, Value column,
                               Value limit) {
  storeVector(e.b, value, memory, indices, emitColumnMask(e.b, e.lanes, column, limit));
}

void LossGenerator::packHeld(Value source, function_ref<Value(Value)> row) {
  int64_t rest = shape.width % 4, whole = shape.width - rest;
  e.loop(e.index(0), e.index(shape.block), e.lanes, [&](Value i) {
    Values rows;
    for (int64_t lane = 0; lane < e.lanes; ++lane) {
      rows.push_back(row(e.add(i, lane)));
    }
    auto emitColumns = [&](Value column, int64_t count) {
      auto place = [&](int64_t lane) { return Values{rows[lane], column}; };
      Value mask = count < 4 ? emitColumnMask(e.b, 4, column, e.index(shape.width)) : Value();
      Values columns = loadTransposed(e.b, e.lanes, source, place, mask);
      for (int64_t c = 0; c < count; ++c) {
        e.store(columns[c], held, {e.add(column, c), i});
      }
    };
    e.loop(e.index(0), e.index(whole), 4, [&](Value column) { emitColumns(column, 4); });
    if (rest != 0) {
      emitColumns(e.index(whole), rest);
    }
  });
}

LossGenerator::RowStream LossGenerator::stream(Value source, bool isPadded, Value first,
                                               Value count) {
  if (!streamed) {
    return {source, first};
  }
  int64_t whole = isPadded ? shape.width : shape.width / e.lanes * e.lanes;
  e.loop(e.index(0), count, 1, [&](Value i) {
    Value row = e.add(first, i);
    e.loop(e.index(0), e.index(whole), e.lanes,
           [&](Value column) { e.store(e.load(source, {row, column}), streamed, {i, column}); });
    if (whole < shape.width) {
      Value column = e.index(whole);
      e.store(e.load(source, {row, column}, shape.width - whole), streamed, {i, column});
    }
  });
  return {streamed, e.index(0)};
}

/// Returns a register tile of scores, `rows` rows from `first` + `row`.
static attention::Matmul
computeScores(Emitter &e, const LossShape &shape, const attention::Matrix &source, Value held,
              Value row, int64_t rows,
              const std::function<void(Value, Value, attention::Accumulators &)> &finish) {
  attention::Matmul product;
  product.rows = rows;
  product.vectors = shape.vectors;
  product.depth = e.index(shape.width);
  product.a = {source.memory, source.row ? e.add(source.row, row) : row, {}};
  product.b = {held, {}, {}};
  // Distributes over the steps of the tile prefetches of the next rows, which come from memory or
  // L3.
  product.step = [&e, product](Value, Value k) {
    Value next = e.add(product.a.row, product.rows);
    emitPrefetch(e.b, product.a.memory, {next, e.mul(k, product.rows)}, CacheLevel::L2);
  };
  product.finish = [&e, row, finish](Value inTile, Value column, attention::Accumulators &tile) {
    finish(e.add(row, inTile), column, tile);
  };
  return product;
}

// Rows after the last whole tile are processed one by one: `count` is a multiple of the tile except
// for the last rows of a sequence.
void LossGenerator::emitScores(const RowStream &stream, Value count, const Finish &finish) {
  Value whole = e.mul(e.floorDiv(count, shape.tileRows), shape.tileRows);
  auto run = [&](Value row, int64_t rows) {
    attention::Matrix source{stream.memory, stream.first, {}};
    attention::emitMatmul(e, target, computeScores(e, shape, source, held, row, rows, finish));
  };
  e.loop(e.index(0), whole, shape.tileRows, [&](Value row) { run(row, shape.tileRows); });
  e.loop(whole, count, 1, [&](Value row) { run(row, 1); });
}

void LossGenerator::emitScores(Value source, int64_t count, const Finish &finish) {
  int64_t rest = count % shape.tileRows, whole = count - rest;
  auto run = [&](Value row, int64_t rows) {
    attention::Matrix all{source, {}, {}};
    attention::emitMatmul(e, target, computeScores(e, shape, all, held, row, rows, finish));
  };
  e.loop(e.index(0), e.index(whole), shape.tileRows, [&](Value row) { run(row, shape.tileRows); });
  if (rest != 0) {
    run(e.index(whole), rest);
  }
}

void LossGenerator::emitProducts(const RowStream &rows, Value count, Value scores, Value scoreRow) {
  attention::Matmul product;
  product.rows = shape.width;
  product.vectors = shape.vectors;
  product.depth = count;
  product.a = {rows.memory, rows.first, {}, /*transposed=*/true};
  product.b = {scores, scoreRow, {}};
  // Prefetches the same columns of the next block.
  product.step = [&](Value row, Value k) {
    Value next = e.add(rows.first, e.add(k, shape.steps));
    emitPrefetch(e.b, rows.memory, {next, row}, CacheLevel::L2);
  };
  attention::emitMatmul(e, target, attention::accumulateInto(e, product, sums, e.index(0)));
}

// Rows of `sums` from d on are undefined; they become columns that are unused.
void LossGenerator::unpackSums(Value scale) {
  e.loop(e.index(0), e.index(shape.block), 4, [&](Value i) {
    eachColumn([&](Value column) {
      auto place = [&](int64_t lane) { return Values{e.add(column, lane), i}; };
      for (auto [at, row] : llvm::enumerate(loadTransposed(e.b, e.lanes, sums, place))) {
        e.store(scale ? e.mulf(row, scale) : row, staging, {e.add(i, int64_t(at)), column});
      }
    });
  });
}
