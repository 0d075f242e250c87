// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Register tiles of contractions.
#include "Tile.h"
#include "../../Common/Storage.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

Value cpu::emitMultiplyAdd(ImplicitLocOpBuilder &b, Value x, Value y, Value sum) {
  auto type = cast<VectorType>(sum.getType());
  if (getElementTypeOrSelf(x.getType()).isF32()) {
    return vector::FMAOp::create(b, x, y, sum);
  }
  auto pairs = VectorType::get({2 * type.getDimSize(0)}, b.getBF16Type());
  SmallVector<Value> operands{sum, vector::BitCastOp::create(b, pairs, x),
                              vector::BitCastOp::create(b, pairs, y)};
  return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                                       operands)
      .getResult(0);
}

int64_t cpu::lineElements(Value memory) { return 64 / (isHalfMemory(memory) ? 2 : 4); }

void cpu::emitPrefetch(ImplicitLocOpBuilder &b, Value memory, ValueRange at, CacheLevel level) {
  memref::PrefetchOp::create(b, memory, at, /*isWrite=*/false,
                             /*localityHint=*/level == CacheLevel::L1 ? 3 : 2,
                             /*isDataCache=*/true);
}

/// Computes sums += left(k, row) * right(k, vector), one step of K.
static void addStep(ImplicitLocOpBuilder &b, const RegisterTile &tile, Value k, LoadLeft left,
                    LoadRight right, SmallVector<Value> &sums) {
  SmallVector<Value> rights;
  for (int64_t v = 0; v < tile.vectors; ++v) {
    rights.push_back(right(k, v));
  }
  for (int64_t row = 0; row < tile.rows; ++row) {
    Value factor = vector::BroadcastOp::create(b, rights.front().getType(), left(k, row));
    for (int64_t v = 0; v < tile.vectors; ++v) {
      Value &sum = sums[row * tile.vectors + v];
      sum = emitMultiplyAdd(b, factor, rights[v], sum);
    }
  }
}

/// Emits steps first, first + 1, ... below last, `unroll` of them per iteration; their number is a
/// multiple of `unroll`.
static SmallVector<Value> addSteps(ImplicitLocOpBuilder &b, const RegisterTile &tile, Value first,
                                   Value last, int64_t unroll, LoadLeft left, LoadRight right,
                                   ValueRange initial, const TilePrefetches &prefetches) {
  Value stride = arith::ConstantIndexOp::create(b, unroll);
  auto loop = scf::ForOp::create(b, first, last, stride, initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> sums(loop.getRegionIterArgs());
  for (int64_t i = 0; i < unroll; ++i) {
    Value k = addIndex(b, loop.getInductionVar(), arith::ConstantIndexOp::create(b, i));
    if (prefetches.step) {
      prefetches.step(k);
    }
    addStep(b, tile, k, left, right, sums);
  }
  scf::YieldOp::create(b, sums);
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> cpu::emitOuterProducts(ImplicitLocOpBuilder &b, const RegisterTile &tile,
                                          Value steps, LoadLeft left, LoadRight right,
                                          ArrayRef<Value> initial,
                                          const TilePrefetches &prefetches) {
  SmallVector<Value> sums(initial);
  if (sums.empty()) {
    sums.assign(tile.rows * tile.vectors,
                arith::ConstantOp::create(b, b.getZeroAttr(tile.type(b))));
  }
  // A step of narrow vectors takes a few cycles (two multiply-adds per cycle), and loop overhead
  // would take issue slots from them: two steps per iteration, then the odd one.
  int64_t unroll = tile.lanes >= 16 ? 1 : 2;
  Value zero = arith::ConstantIndexOp::create(b, 0);
  std::optional<int64_t> known = getConstantIntValue(steps);
  bool hasRest = unroll > 1 && !(known && *known % unroll == 0);
  Value end = steps;
  if (hasRest) {
    end = arith::AndIOp::create(b, steps, arith::ConstantIndexOp::create(b, -unroll));
  }
  if (prefetches.line) {
    constexpr int64_t count = TilePrefetches::lineSteps;
    Value stride = arith::ConstantIndexOp::create(b, count);
    auto lines = scf::ForOp::create(b, zero, end, stride, sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(lines.getBody());
    Value first = lines.getInductionVar();
    prefetches.line(first);
    Value last = addIndex(b, first, stride);
    last = known && *known % count == 0 ? last : minIndex(b, last, end);
    ValueRange carried = lines.getRegionIterArgs();
    scf::YieldOp::create(b,
                         addSteps(b, tile, first, last, unroll, left, right, carried, prefetches));
    sums = lines.getResults();
  } else {
    sums = addSteps(b, tile, zero, end, unroll, left, right, sums, prefetches);
  }
  return hasRest ? addSteps(b, tile, end, steps, 1, left, right, sums, prefetches) : sums;
}

Value cpu::emitPairs(ImplicitLocOpBuilder &b, Value low, Value high) {
  auto word = cast<VectorType>(low.getType()).clone(b.getI32Type());
  Value shift = arith::ConstantOp::create(b, SplatElementsAttr::get(word, b.getI32IntegerAttr(16)));
  Value upper = arith::ShLIOp::create(b, arith::ExtUIOp::create(b, word, high), shift);
  return arith::OrIOp::create(b, arith::ExtUIOp::create(b, word, low), upper);
}

std::pair<Value, Value> cpu::emitSplitPairs(ImplicitLocOpBuilder &b, Value pairs) {
  auto words = cast<VectorType>(pairs.getType());
  auto splat = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, SplatElementsAttr::get(words, b.getI32IntegerAttr(value)));
  };
  auto numbers = words.clone(b.getF32Type());
  Value low = arith::ShLIOp::create(b, pairs, splat(16));
  Value high = arith::AndIOp::create(b, pairs, splat(int32_t(0xffff0000)));
  return {arith::BitcastOp::create(b, numbers, low), arith::BitcastOp::create(b, numbers, high)};
}

/// Returns lanes `select(i)` of the two vectors; lanes of the second are counted from `lanes`.
static Value shuffle(ImplicitLocOpBuilder &b, Value first, Value second,
                     function_ref<int64_t(int64_t)> select) {
  SmallVector<int64_t> mask;
  for (int64_t i = 0; i < cast<VectorType>(first.getType()).getDimSize(0); ++i) {
    mask.push_back(select(i));
  }
  return vector::ShuffleOp::create(b, first, second, mask);
}

/// Transposes 4 x 4 elements within each 128-bit lane of four vectors: unpacks pairs of rows, then
/// pairs of pairs. Each is one instruction.
static void transposeLanes(ImplicitLocOpBuilder &b, MutableArrayRef<Value> rows) {
  int64_t n = cast<VectorType>(rows.front().getType()).getDimSize(0);
  auto unpack = [&](Value x, Value y, int64_t width, bool high) {
    return shuffle(b, x, y, [&](int64_t i) {
      int64_t lane = i / 4 * 4, within = i % 4;
      int64_t source = within / (2 * width) * width + within % width + (high ? 2 : 0);
      return lane + source + (within / width % 2 ? n : 0);
    });
  };
  Value low01 = unpack(rows[0], rows[1], 1, false), high01 = unpack(rows[0], rows[1], 1, true);
  Value low23 = unpack(rows[2], rows[3], 1, false), high23 = unpack(rows[2], rows[3], 1, true);
  rows[0] = unpack(low01, low23, 2, false);
  rows[1] = unpack(low01, low23, 2, true);
  rows[2] = unpack(high01, high23, 2, false);
  rows[3] = unpack(high01, high23, 2, true);
}

SmallVector<Value> cpu::emitTransposedColumns(ImplicitLocOpBuilder &b, int64_t lanes,
                                              function_ref<Value(int64_t row)> load,
                                              function_ref<Value(Value)> convert) {
  SmallVector<Value> columns;
  for (int64_t first = 0; first < 4; ++first) {
    SmallVector<Value> parts; // of rows first, first + 4, ...
    for (int64_t row = first; row < lanes; row += 4) {
      parts.push_back(load(row));
    }
    while (parts.size() > 1) {
      SmallVector<int64_t> all(2 * cast<VectorType>(parts.front().getType()).getDimSize(0));
      std::iota(all.begin(), all.end(), 0);
      for (size_t i = 0; i < parts.size() / 2; ++i) {
        parts[i] = vector::ShuffleOp::create(b, parts[2 * i], parts[2 * i + 1], all);
      }
      parts.resize(parts.size() / 2);
    }
    columns.push_back(convert ? convert(parts.front()) : parts.front());
  }
  transposeLanes(b, columns);
  return columns;
}

SmallVector<Value> cpu::loadTransposed(ImplicitLocOpBuilder &b, int64_t lanes, Value memory,
                                       function_ref<SmallVector<Value>(int64_t)> place,
                                       Value mask) {
  if (isHalfMemory(memory)) {
    return emitTransposedColumns(
        b, lanes, [&](int64_t row) { return loadBits(b, 4, memory, place(row), mask); },
        [&](Value bits) { return emitExtend(b, bits); });
  }
  return emitTransposedColumns(
      b, lanes, [&](int64_t row) { return loadVector(b, 4, memory, place(row), mask); });
}

SmallVector<Value> cpu::emitTranspose(ImplicitLocOpBuilder &b, SmallVector<Value> rows) {
  int64_t n = rows.size();
  for (int64_t g = 0; g < n; g += 4) {
    transposeLanes(b, MutableArrayRef(rows).slice(g, 4));
  }
  // Then exchanges 128-bit lanes: row g + j holds, in lane q, rows g ... g + 3 of column 4 q + j.
  for (int64_t s = 4; s < n; s *= 2) {
    for (int64_t i = 0; i < n; ++i) {
      if (i & s) {
        continue;
      }
      Value x = rows[i], y = rows[i + s];
      rows[i] = shuffle(b, x, y, [&](int64_t e) { return e & s ? n + e - s : e; });
      rows[i + s] = shuffle(b, x, y, [&](int64_t e) { return e & s ? n + e : e + s; });
    }
  }
  return rows;
}

Value cpu::emitColumnMask(ImplicitLocOpBuilder &b, int64_t lanes, Value first, Value limit) {
  Value left = arith::SubIOp::create(b, limit, first);
  left = arith::MaxSIOp::create(b, left, arith::ConstantIndexOp::create(b, 0));
  return vector::CreateMaskOp::create(b, VectorType::get({lanes}, b.getI1Type()), left);
}

void cpu::emitLoop(ImplicitLocOpBuilder &b, Value first, Value last, Value step,
                   function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, first, last, step);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void cpu::emitIf(ImplicitLocOpBuilder &b, Value condition, function_ref<void()> body) {
  auto op = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  body();
}

Value cpu::addIndex(ImplicitLocOpBuilder &b, Value x, Value y) {
  return arith::AddIOp::create(b, x, y, arith::IntegerOverflowFlags::nsw);
}

Value cpu::mulIndex(ImplicitLocOpBuilder &b, Value x, int64_t y) {
  return arith::MulIOp::create(b, x, arith::ConstantIndexOp::create(b, y),
                               arith::IntegerOverflowFlags::nsw);
}

Value cpu::minIndex(ImplicitLocOpBuilder &b, Value x, Value y) {
  return arith::MinSIOp::create(b, x, y);
}

Value cpu::emitAnyValid(ImplicitLocOpBuilder &b, dispatch::DomainAttr domain,
                        const Lengths &lengths, Value rows, Value first, Value count) {
  if (domain.getFactor() == 0) {
    return arith::ConstantIntOp::create(b, b.getI1Type(), 1);
  }
  Value positions = arith::ConstantIndexOp::create(b, domain.getPositions());
  Value sequence = arith::DivUIOp::create(b, first, positions);
  Value position = arith::RemUIOp::create(b, first, positions);
  Value next = addIndex(b, sequence, arith::ConstantIndexOp::create(b, 1));
  auto below = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
  };
  // Either the first row is valid, or the run reaches the first row of the next sequence.
  Value here =
      arith::AndIOp::create(b, below(position, lengths.of(sequence)), below(sequence, rows));
  Value reaches = below(mulIndex(b, next, domain.getPositions()), addIndex(b, first, count));
  return arith::OrIOp::create(b, here, arith::AndIOp::create(b, reaches, below(next, rows)));
}
