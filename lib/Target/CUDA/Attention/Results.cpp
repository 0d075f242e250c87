// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stores of attention results: from mma.sync accumulators, where a lane holds pairs of columns, to
// memory.
#include "Results.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

static Type getTensorElementType(const Source &target) {
  return cast<MemRefType>(target.memory.getType()).getElementType();
}

/// Stores adjacent values from `column` of the head; skips columns after the end of the head.
static void storeRowColumns(AttentionFrame &f, Value values, const Source &target, Value position,
                            Value column) {
  Emitter &e = f.e;
  TensorCore &core = f.core;
  const AttentionShape &shape = f.shape;
  auto put = [&] {
    auto type = cast<VectorType>(values.getType());
    int64_t bytes = type.getNumElements() * type.getElementTypeBitWidth() / 8;
    Value row = e.add(target.rows.base, position), at = e.add(target.column, column);
    core.store(values, core.global(target.memory, {row, at}), bytes);
  };
  if (shape.width == shape.head) {
    put();
  } else {
    e.when(e.less(column, target.columns), put);
  }
}

/// Packs pairs of bf16 that are 8 columns apart, of which a quad holds 4 bytes each. Neighbouring
/// lanes exchange one pair, so that a lane has 4 columns and the quad 16, a whole sector. All lanes
/// of the warp must call it.
static Values exchangePairs(AttentionFrame &f, ArrayRef<Value> results) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  TensorCore &core = f.core;
  Value one = e.integer(1);
  Value odd =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                            arith::AndIOp::create(b, e.toInteger(f.quad), one), e.integer(0));
  Values fours;
  for (size_t i = 0; i < results.size(); i += 4) {
    Value low = core.pack(results[i], results[i + 1]),
          high = core.pack(results[i + 2], results[i + 3]);
    Value other =
        NVVM::ShflOp::create(b, b.getI32Type(), e.integer(-1), e.select(odd, low, high), one,
                             e.integer(threadsPerWarp - 1), NVVM::ShflKind::bfly, UnitAttr());
    Value words[2] = {e.select(odd, other, low), e.select(odd, high, other)};
    fours.push_back(vector::FromElementsOp::create(b, VectorType::get({2}, b.getI32Type()), words));
  }
  return fours;
}

/// Stores pairs that start at even columns, with any alignment in memory.
static void storePairs(AttentionFrame &f, ArrayRef<Value> results, const Source &target,
                       Value position) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  Type element = getTensorElementType(target);
  Value first = e.add(f.part, e.mul(f.quad, 2));
  for (size_t i = 0; i < results.size(); i += 2) {
    Value column = e.add(first, int64_t(i / 2) * fragmentColumns);
    Value pair = vector::FromElementsOp::create(b, VectorType::get({2}, b.getF32Type()),
                                                results.slice(i, 2));
    if (element.isBF16()) {
      pair = arith::TruncFOp::create(b, VectorType::get({2}, element), pair);
    }
    if (target.together > 1) {
      storeRowColumns(f, pair, target, position, column);
      continue;
    }
    for (int64_t j : {0, 1}) {
      e.when(e.less(e.add(column, j), target.columns), [&] {
        e.store(vector::ExtractOp::create(b, pair, ArrayRef<int64_t>{j}), target.memory,
                {e.add(target.rows.base, position), e.add(e.add(target.column, column), j)});
      });
    }
  }
}

/// Applies the inverse rotation to the pairs of a row. Angles after the head's columns are
/// arbitrary.
static void rotateBack(AttentionFrame &f, MutableArrayRef<Value> results, const Source &target,
                       Value position) {
  Emitter &e = f.e;
  ImplicitLocOpBuilder &b = f.b;
  TensorCore &core = f.core;
  Value first = e.add(f.part, e.mul(f.quad, 2));
  Value row = e.min(position, e.index(target.rows.positions - 1));
  for (size_t i = 0; i < results.size(); i += 2) {
    Value &x = results[i], &y = results[i + 1];
    Value column = e.min(e.add(first, int64_t(i / 2) * fragmentColumns), e.index(f.shape.head - 2));
    Value angle = core.load(VectorType::get({2}, b.getF32Type()),
                            core.global(target.rotary, {row, column}), 8);
    Value cosine = vector::ExtractOp::create(b, angle, ArrayRef<int64_t>{0}),
          sine = vector::ExtractOp::create(b, angle, ArrayRef<int64_t>{1});
    Value turned = e.fma(x, cosine, e.mulf(y, sine));
    y = e.fma(y, cosine, arith::NegFOp::create(b, e.mulf(x, sine)));
    x = turned;
  }
}

void attention::storeRows(AttentionFrame &f, const Values &sums, ArrayRef<Value> scale,
                          const Source &target, Value first, int64_t fragments, Padding padding) {
  Emitter &e = f.e;
  int64_t columns = int64_t(sums.size()) / fragments / sumsPerFragment;
  int64_t step = target.rows.step;
  Value warpRow = e.add(f.group, e.mul(f.frame.warp, fragments * fragmentRows));
  warpRow = e.add(first, f.scaled(warpRow, step));
  // Even lanes hold the first 8 of the quad's 16 columns.
  auto [pairOfLanes, odd] = f.split(f.quad, 2);
  Value firstFour = e.add(f.part, e.add(e.mul(pairOfLanes, 4), e.mul(odd, fragmentColumns)));
  for (int64_t row = 0; row < 2 * fragments; ++row) {
    Value position = e.add(warpRow, row * fragmentRows / 2 * step);
    Value isValid = e.less(position, target.rows.length);
    Values results;
    for (int64_t i = 0; i < 2 * columns; ++i) {
      Value sum = sums[(row / 2 * columns + i / 2) * sumsPerFragment + row % 2 * 2 + i % 2];
      sum = scale.empty() ? sum : e.mulf(sum, scale[row]);
      results.push_back(padding == Padding::Zeros ? e.select(isValid, sum, f.f32(0)) : sum);
    }
    if (target.rotary) {
      rotateBack(f, results, target, position);
    }
    bool exchanged = target.together == 4 && getTensorElementType(target).isBF16();
    Values fours = exchanged ? exchangePairs(f, results) : Values();
    bool leaves = padding == Padding::Left || target.rows.isPartial;
    Value stored = leaves ? isValid : e.less(position, e.index(target.rows.positions));
    e.when(stored, [&] {
      if (!exchanged) {
        storePairs(f, results, target, position);
      }
      for (auto [i, four] : llvm::enumerate(fours)) {
        storeRowColumns(f, four, target, position, e.add(firstFour, int64_t(i) * fragmentInner));
      }
    });
  }
}
