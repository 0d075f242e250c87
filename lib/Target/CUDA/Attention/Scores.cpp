// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's scores in registers: masks, dropout, reductions along rows.
#include "Scores.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "sluice/Target/Common/Random.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

/// One instruction; the lowering of arith's op has four.
Value attention::emitMax(AttentionFrame &f, Value x, Value y) {
  return LLVM::MaxNumOp::create(f.b, x, y);
}

Value attention::emitScore(AttentionFrame &f, Region &region, ValueRange arguments) {
  return f.shape.scoreFactor ? arguments[0] : emitRegion(f.e, region, arguments);
}

Value attention::emitExactScore(AttentionFrame &f, Value score) {
  const AttentionShape &shape = f.shape;
  return shape.scoreFactor.value_or(1) == 1 ? score : f.e.mulf(score, f.f32(*shape.scoreFactor));
}

Value attention::isLarger(AttentionFrame &f, Value x, float bound) {
  ImplicitLocOpBuilder &b = f.b;
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, x),
                               f.f32(bound));
}

/// One instruction; 0 if x is -inf or the result would be subnormal.
Value attention::emitExp2(AttentionFrame &f, Value x) {
  ImplicitLocOpBuilder &b = f.b;
  return LLVM::CallIntrinsicOp::create(
             b, b.getF32Type(), b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"), ValueRange(x))
      .getResult(0);
}

Value attention::reduceAcrossQuad(AttentionFrame &f, Value x,
                                  llvm::function_ref<Value(Value, Value)> combine) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  for (int64_t distance : {1, 2}) {
    Value other =
        NVVM::ShflOp::create(b, b.getF32Type(), e.integer(-1), x, e.integer(distance),
                             e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
    x = combine(x, other);
  }
  return x;
}

Values attention::computeRowNumbers(AttentionFrame &f, Value first, int64_t fragments,
                                    int64_t step) {
  Emitter &e = f.e;
  Value row = e.add(f.group, e.mul(f.frame.warp, fragments * fragmentRows));
  row = e.add(first, f.scaled(row, step));
  Values rows;
  for (int64_t i = 0; i < 2 * fragments; ++i) {
    rows.push_back(e.add(e.toInteger(row), i * fragmentRows / 2 * step));
  }
  return rows;
}

Values attention::computeColumnNumbers(AttentionFrame &f, Value first, int64_t columns,
                                       int64_t step) {
  Emitter &e = f.e;
  Value column = e.toInteger(e.add(first, e.mul(f.quad, 2 * step)));
  Values numbers;
  for (int64_t i = 0; i < columns; i += fragmentColumns) {
    numbers.append({e.add(column, i * step), e.add(column, (i + 1) * step)});
  }
  return numbers;
}

static ElementPlace placeAt(size_t i, int64_t columns) {
  int64_t number = int64_t(i), perFragment = columns / fragmentColumns * sumsPerFragment;
  return {number / perFragment, number % perFragment / sumsPerFragment, number % sumsPerFragment};
}

Values attention::mapScores(const Values &scores, int64_t columns,
                            llvm::function_ref<Value(Value, const ElementPlace &)> map) {
  Values results;
  for (auto [i, score] : llvm::enumerate(scores)) {
    results.push_back(map(score, placeAt(i, columns)));
  }
  return results;
}

Values attention::emitEither(AttentionFrame &f, Value condition, size_t count,
                             llvm::function_ref<Values()> where,
                             llvm::function_ref<Values()> elsewhere) {
  ImplicitLocOpBuilder &b = f.b;
  SmallVector<Type> types(count, b.getF32Type());
  auto test = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(test.thenBlock());
  scf::YieldOp::create(b, where());
  b.setInsertionPointToStart(test.elseBlock());
  scf::YieldOp::create(b, elsewhere());
  return Values(test.getResults());
}

Values attention::maskScores(AttentionFrame &f, const Values &scores, int64_t columns, Value full,
                             float otherwise,
                             llvm::function_ref<Value(const ElementPlace &)> holds) {
  Value absent = f.f32(otherwise);
  return emitEither(
      f, full, scores.size(), [&] { return scores; },
      [&] {
        return mapScores(scores, columns, [&](Value score, const ElementPlace &place) {
          return f.e.select(holds(place), score, absent);
        });
      });
}

/// Loads the first key of query `p` (index) or, with `end` 1, the key after its last one: i32.
static Value loadRangeEnd(AttentionFrame &f, unsigned end, Value p) {
  return f.e.loadScalar(f.frame.buffer(*f.shape.range + end),
                        {f.batchRow, f.existingRow(f.queries, p)});
}

Value attention::emitMaskAt(AttentionFrame &f, Value p, Value q, bool bounded) {
  Value holds = emitRelation(f.e, f.shape.mask, p, q, f.validKeys, bounded);
  for (unsigned end = 0; f.shape.range && end < 2; ++end) {
    Value row = arith::IndexCastOp::create(f.b, f.b.getIndexType(), p);
    auto predicate = end == 0 ? arith::CmpIPredicate::sge : arith::CmpIPredicate::slt;
    Value inside = arith::CmpIOp::create(f.b, predicate, q, loadRangeEnd(f, end, row));
    holds = holds ? f.e.both(holds, inside) : inside;
  }
  return holds;
}

BlockClass attention::classifyTile(AttentionFrame &f, Value p0, int64_t rows, Value q0,
                                   int64_t columns) {
  Emitter &e = f.e;
  auto result = classifyBlock(e, f.shape.mask, p0, (rows - 1) * f.queries.step + 1, q0,
                              (columns - 1) * f.keys.step + 1, {f.queries.length, f.keys.length});
  result.some = e.both(result.some, e.less(p0, f.queries.length));
  if (f.shape.range) { // both ends rise with the query
    Value lastQuery = e.add(p0, (rows - 1) * f.queries.step),
          lastKey = e.toInteger(e.add(q0, (columns - 1) * f.keys.step));
    result.some = e.both(result.some, e.atLeast(lastKey, loadRangeEnd(f, 0, p0)));
    result.some = e.both(result.some, e.less(e.toInteger(q0), loadRangeEnd(f, 1, lastQuery)));
    result.full = arith::ConstantOp::create(f.b, f.b.getBoolAttr(false));
  }
  return result;
}

Value attention::computeElementNumber(AttentionFrame &f, Value head, Value p, Value q) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  const AttentionShape &shape = f.shape;
  auto wide = [&](Value position) -> Value {
    return arith::ExtUIOp::create(b, b.getI64Type(), position);
  };
  Value text = emitDrawnRow(b, f.batchRow, f.frame.drawRows, /*rowsOfText=*/1, /*parts=*/1);
  Value row = e.mul(e.add(e.mul(text, shape.heads), head), shape.drawnQueries);
  Value first = arith::IndexCastOp::create(b, b.getI64Type(), row);
  return e.add(e.mul(e.add(first, wide(p)), shape.drawnKeys), wide(q));
}

// One Philox call gives numbers for four elements. Two consecutive elements share a call if the
// first is even, which holds if rows have an even length.
static std::pair<Value, Value> drawKeptPair(AttentionFrame &f, Value first, Value second,
                                            bool adjacent) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  const AttentionShape &shape = f.shape;
  Value rate = f.f32(shape.dropout);
  auto isKept = [&](Value uniform) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, uniform, rate);
  };
  auto draw = [&](Value element) {
    return isKept(emitUniform(b, element, shape.randomId, f.frame.firstStream, f.frame.step,
                              f.frame.seed, PhiloxWord::Narrow));
  };
  if (!adjacent || shape.drawnKeys % 2 != 0) {
    return {draw(first), draw(second)};
  }
  Value two = e.constantLike(first, 2);
  Value four = arith::ShRUIOp::create(b, first, two);
  auto numbers = emitUniformBlocks(b, four, shape.randomId, f.frame.firstStream, f.frame.step,
                                   f.frame.seed, PhiloxWord::Narrow);
  Value later = arith::CmpIOp::create(
      b, arith::CmpIPredicate::ne, arith::AndIOp::create(b, first, two), e.constantLike(first, 0));
  return {isKept(e.select(later, numbers[2], numbers[0])),
          isKept(e.select(later, numbers[3], numbers[1]))};
}

// One Philox call covers four keys of a query, which are in two lanes (columns are keys) or in four
// (rows are keys). Lanes share the work: each evaluates one call and sends the decisions to the
// others as a bit mask.
static std::array<Value, 4> drawKeptFour(AttentionFrame &f, ArrayRef<Value> elements,
                                         bool adjacent) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  const AttentionShape &shape = f.shape;
  Value lane = e.toInteger(f.frame.lane), one = e.integer(1);
  auto bits = [&](Value x, int64_t mask) -> Value {
    return arith::AndIOp::create(b, x, e.integer(mask));
  };
  auto isNot0 = [&](Value x) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, x, e.integer(0));
  };
  int64_t sharing = adjacent ? 1 : 12; // bits of the lane number
  Value mine;
  if (adjacent) {
    mine = e.select(isNot0(bits(lane, 1)), elements[2], elements[0]);
  } else {
    Value second = isNot0(bits(lane, 4));
    mine = e.select(isNot0(bits(lane, 8)), e.select(second, elements[3], elements[2]),
                    e.select(second, elements[1], elements[0]));
  }
  Value four = arith::ShRUIOp::create(b, mine, e.constantLike(mine, 2));
  auto numbers = emitUniformBlocks(b, four, shape.randomId, f.frame.firstStream, f.frame.step,
                                   f.frame.seed, PhiloxWord::Narrow);
  Value mask = e.integer(0);
  for (auto [i, number] : llvm::enumerate(numbers)) {
    Value isKept =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, number, f.f32(shape.dropout));
    mask =
        arith::OrIOp::create(b, mask, e.select(isKept, e.integer(int64_t(1) << i), e.integer(0)));
  }
  Value firstLane = bits(lane, ~sharing & 31);
  Value bit = adjacent ? e.mul(bits(lane, 1), 2)
                       : Value(arith::ShRUIOp::create(b, bits(lane, 12), e.integer(2)));
  std::array<Value, 4> kept;
  for (int64_t i = 0; i < 4; ++i) {
    Value from = e.add(firstLane, adjacent ? i / 2 : i * 4);
    Value theirs =
        NVVM::ShflOp::create(b, b.getI32Type(), e.integer(-1), mask, from,
                             e.integer(threadsPerWarp - 1), NVVM::ShflKind::idx, UnitAttr());
    Value at = arith::ShLIOp::create(b, one, adjacent ? e.add(bit, i % 2) : bit);
    kept[i] = isNot0(arith::AndIOp::create(b, theirs, at));
  }
  return kept;
}

Values attention::markDropped(AttentionFrame &f, Values values, int64_t columns, KeyDimension keys,
                              llvm::function_ref<Value(const ElementPlace &)> computeElement) {
  keys = f.keys.step == 1 ? keys : KeyDimension::Neither;
  bool adjacent = keys == KeyDimension::Columns;
  for (size_t i = 0; i < values.size(); i += sumsPerFragment) {
    std::array<Value, 4> elements, kept;
    for (size_t j = 0; j < 4; ++j) {
      elements[j] = computeElement(placeAt(i + j, columns));
    }
    if (f.shape.drawnKeys % 4 == 0 && keys != KeyDimension::Neither) {
      kept = drawKeptFour(f, elements, adjacent);
    } else {
      std::tie(kept[0], kept[1]) = drawKeptPair(f, elements[0], elements[1], adjacent);
      std::tie(kept[2], kept[3]) = drawKeptPair(f, elements[2], elements[3], adjacent);
    }
    for (size_t j = 0; j < 4; ++j) {
      Value &value = values[i + j];
      value = f.e.select(kept[j], value, arith::NegFOp::create(f.b, value));
    }
  }
  return values;
}

Values attention::clearDropped(AttentionFrame &f, Values values) {
  for (Value &value : values) {
    value = emitMax(f, value, f.f32(0));
  }
  return values;
}
