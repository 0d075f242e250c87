// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Products of bf16 in AMX tiles.
#include "Amx.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

static amx::TileType getFactorType(Builder &b) {
  return amx::TileType::get({tileSide, tileDepth}, b.getBF16Type());
}

static amx::TileType getSumsType(Builder &b) {
  return amx::TileType::get({tileSide, tileSide}, b.getF32Type());
}

Value cpu::loadFactor(ImplicitLocOpBuilder &b, Value memory, ValueRange at, Value stride) {
  return amx::TileLoadOp::create(b, getFactorType(b), memory, at, stride);
}

Value cpu::loadSums(ImplicitLocOpBuilder &b, Value memory, ValueRange at) {
  return amx::TileLoadOp::create(b, getSumsType(b), memory, at);
}

void cpu::storeSums(ImplicitLocOpBuilder &b, Value tile, Value memory, ValueRange at) {
  amx::TileStoreOp::create(b, memory, at, tile);
}

/// Computes sums += left(k, row) * right(k, column). Each product follows the load of its last
/// factor, so the first one waits for two loads, not for four.
static void addStep(ImplicitLocOpBuilder &b, int64_t rows, int64_t columns, Value k, LoadLeft left,
                    LoadRight right, SmallVector<Value> &sums) {
  SmallVector<Value> rights;
  for (int64_t row = 0; row < rows; ++row) {
    Value factor = left(k, row);
    for (int64_t column = 0; column < columns; ++column) {
      if (row == 0) {
        rights.push_back(right(k, column));
      }
      Value &sum = sums[row * columns + column];
      sum = amx::TileMulFOp::create(b, sum.getType(), factor, rights[column], sum);
    }
  }
}

SmallVector<Value> cpu::emitTileProducts(ImplicitLocOpBuilder &b, int64_t rows, int64_t columns,
                                         Value pairs, LoadLeft left, LoadRight right,
                                         ArrayRef<Value> initial) {
  SmallVector<Value> sums(initial);
  while (int64_t(sums.size()) < rows * columns) {
    sums.push_back(amx::TileZeroOp::create(b, getSumsType(b)));
  }
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value step = arith::ConstantIndexOp::create(b, tileSide);
  auto loop = scf::ForOp::create(b, zero, pairs, step, sums);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> next(loop.getRegionIterArgs());
  addStep(b, rows, columns, loop.getInductionVar(), left, right, next);
  scf::YieldOp::create(b, next);
  return SmallVector<Value>(loop.getResults());
}
