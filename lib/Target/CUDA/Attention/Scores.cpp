// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's scores in registers: masks, dropout, reductions along rows.
#include "Attention.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "sluice/Target/Common/Random.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

Value AttentionFrame::f32(float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

/// One instruction; the lowering of arith's op has four.
Value AttentionFrame::larger(Value x, Value y) { return LLVM::MaxNumOp::create(b, x, y); }

Value AttentionFrame::score(Region &region, ValueRange arguments) {
  return shape.scoreFactor ? arguments[0] : emitRegion(e, region, arguments);
}

Value AttentionFrame::exactScore(Value score) {
  return shape.scoreFactor.value_or(1) == 1 ? score : e.mulf(score, f32(*shape.scoreFactor));
}

Value AttentionFrame::isLarger(Value x, float bound) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, math::AbsFOp::create(b, x),
                               f32(bound));
}

/// One instruction; 0 if x is -inf or the result would be subnormal.
Value AttentionFrame::exp2(Value x) {
  return LLVM::CallIntrinsicOp::create(
             b, b.getF32Type(), b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"), ValueRange(x))
      .getResult(0);
}

Value AttentionFrame::acrossQuad(Value x, llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t distance : {1, 2}) {
    Value other =
        NVVM::ShflOp::create(b, b.getF32Type(), e.integer(-1), x, e.integer(distance),
                             e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
    x = combine(x, other);
  }
  return x;
}

Values AttentionFrame::rowNumbers(Value first, int64_t fragments, int64_t step) {
  Value row = e.add(group, e.mul(frame.warp, fragments * fragmentRows));
  row = e.add(first, scaled(row, step));
  Values rows;
  for (int64_t i = 0; i < 2 * fragments; ++i) {
    rows.push_back(e.add(e.toInteger(row), i * fragmentRows / 2 * step));
  }
  return rows;
}

Values AttentionFrame::columnNumbers(Value first, int64_t columns, int64_t step) {
  Value column = e.toInteger(e.add(first, e.mul(quad, 2 * step)));
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

Values AttentionFrame::each(const Values &scores, int64_t columns,
                            llvm::function_ref<Value(Value, const ElementPlace &)> f) {
  Values results;
  for (auto [i, score] : llvm::enumerate(scores)) {
    results.push_back(f(score, placeAt(i, columns)));
  }
  return results;
}

Values AttentionFrame::either(Value condition, size_t count, llvm::function_ref<Values()> where,
                              llvm::function_ref<Values()> elsewhere) {
  SmallVector<Type> types(count, b.getF32Type());
  auto test = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(test.thenBlock());
  scf::YieldOp::create(b, where());
  b.setInsertionPointToStart(test.elseBlock());
  scf::YieldOp::create(b, elsewhere());
  return Values(test.getResults());
}

Values AttentionFrame::masked(const Values &scores, int64_t columns, Value full, float otherwise,
                              llvm::function_ref<Value(const ElementPlace &)> holds) {
  Value absent = f32(otherwise);
  return either(
      full, scores.size(), [&] { return scores; },
      [&] {
        return each(scores, columns, [&](Value score, const ElementPlace &place) {
          return e.select(holds(place), score, absent);
        });
      });
}

Value AttentionFrame::holds(Value p, Value q, bool bounded) {
  return emitRelation(e, shape.mask, p, q, validKeys, bounded);
}

BlockClass AttentionFrame::classify(Value p0, int64_t rows, Value q0, int64_t columns) {
  auto result = classifyBlock(e, shape.mask, p0, (rows - 1) * queries.step + 1, q0,
                              (columns - 1) * keys.step + 1, {queries.length, keys.length});
  result.some = e.both(result.some, e.less(p0, queries.length));
  return result;
}

Value AttentionFrame::elementNumber(Value head, Value p, Value q) {
  auto wide = [&](Value position) -> Value {
    return arith::ExtUIOp::create(b, b.getI64Type(), position);
  };
  Value text = emitDrawnRow(b, batchRow, frame.firstRow, 1);
  Value row = e.mul(e.add(e.mul(text, shape.heads), head), shape.queries);
  Value first = arith::IndexCastOp::create(b, b.getI64Type(), row);
  return e.add(e.mul(e.add(first, wide(p)), shape.keys), wide(q));
}

// One Philox call gives numbers for four elements. Two consecutive elements share a call if the
// first is even, which holds if rows have an even length.
std::pair<Value, Value> AttentionFrame::keptPair(Value first, Value second, bool adjacent) {
  Value rate = f32(shape.dropout);
  auto isKept = [&](Value uniform) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, uniform, rate);
  };
  auto draw = [&](Value element) {
    return isKept(emitUniform(b, element, shape.randomId, frame.firstStream, frame.step, frame.seed,
                              PhiloxWord::Narrow));
  };
  if (!adjacent || shape.keys % 2 != 0) {
    return {draw(first), draw(second)};
  }
  Value two = e.constantLike(first, 2);
  Value four = arith::ShRUIOp::create(b, first, two);
  auto numbers = emitUniformBlocks(b, four, shape.randomId, frame.firstStream, frame.step,
                                   frame.seed, PhiloxWord::Narrow);
  Value later = arith::CmpIOp::create(
      b, arith::CmpIPredicate::ne, arith::AndIOp::create(b, first, two), e.constantLike(first, 0));
  return {isKept(e.select(later, numbers[2], numbers[0])),
          isKept(e.select(later, numbers[3], numbers[1]))};
}

// One Philox call covers four keys of a query, which are in two lanes (columns are keys) or in four
// (rows are keys). Lanes share the work: each evaluates one call and sends the decisions to the
// others as a bit mask.
std::array<Value, 4> AttentionFrame::keptTogether(ArrayRef<Value> elements, bool adjacent) {
  Value lane = e.toInteger(frame.lane), one = e.integer(1);
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
  auto numbers = emitUniformBlocks(b, four, shape.randomId, frame.firstStream, frame.step,
                                   frame.seed, PhiloxWord::Narrow);
  Value mask = e.integer(0);
  for (auto [i, number] : llvm::enumerate(numbers)) {
    Value isKept = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, number, f32(shape.dropout));
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

Values AttentionFrame::marked(Values values, int64_t columns, Keys keys,
                              llvm::function_ref<Value(const ElementPlace &)> computeElement) {
  keys = this->keys.step == 1 ? keys : Keys::Neither;
  bool adjacent = keys == Keys::Columns;
  for (size_t i = 0; i < values.size(); i += sumsPerFragment) {
    std::array<Value, 4> elements, kept;
    for (size_t j = 0; j < 4; ++j) {
      elements[j] = computeElement(placeAt(i + j, columns));
    }
    if (shape.keys % 4 == 0 && keys != Keys::Neither) {
      kept = keptTogether(elements, adjacent);
    } else {
      std::tie(kept[0], kept[1]) = keptPair(elements[0], elements[1], adjacent);
      std::tie(kept[2], kept[3]) = keptPair(elements[2], elements[3], adjacent);
    }
    for (size_t j = 0; j < 4; ++j) {
      Value &value = values[i + j];
      value = e.select(kept[j], value, arith::NegFOp::create(b, value));
    }
  }
  return values;
}

Values AttentionFrame::positive(Values values) {
  for (Value &value : values) {
    value = larger(value, f32(0));
  }
  return values;
}
