// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Epilogue.h"

#include "../../Common/Storage.h"
#include "Tile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

/// The table repeats for every head. It is read in runs whose length is the greatest common divisor
/// of the head size and `grain`.
Value cpu::emitColumnRotation(ImplicitLocOpBuilder &b, Value vector, Value table,
                              llvm::function_ref<Value()> position, Value column, int64_t rotated,
                              int64_t grain) {
  auto type = cast<VectorType>(vector.getType());
  auto index = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(b, value); };
  int64_t width = type.getDimSize(0);
  int64_t head = cast<MemRefType>(table.getType()).getDimSize(1);
  int64_t run = std::gcd(std::gcd(head, grain), width);
  Value begins = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, column, index(rotated));
  auto branch = scf::IfOp::create(b, TypeRange(type), begins, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  Value row = position();
  Value angles = arith::ConstantOp::create(b, b.getZeroAttr(type));
  for (int64_t i = 0; i < width; i += run) {
    Value at = arith::RemUIOp::create(b, addIndex(b, column, index(i)), index(head));
    Value some = loadVector(b, run, table, {row, at});
    angles = vector::InsertStridedSliceOp::create(b, some, angles, ArrayRef<int64_t>{i},
                                                  ArrayRef<int64_t>{1});
  }
  Value turned = emitRotation(b, vector, angles, /*back=*/false);
  if (rotated % width != 0) {
    turned = arith::SelectOp::create(b, emitColumnMask(b, width, column, index(rotated)), turned,
                                     vector);
  }
  scf::YieldOp::create(b, turned);
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, vector);
  return branch.getResult(0);
}

Epilogue cpu::makeEpilogue(dispatch::ContractOp op, Frame &frame) {
  bool draws = false;
  op.getEpilogue().walk([&](dispatch::RandomOp) { draws = true; });
  if (!draws) {
    return {op, frame.builder(), {}};
  }
  return {op,
          frame.builder(),
          {frame.step(), frame.seed(), frame.firstStream(), PhiloxWord::Wide, frame.drawRows()}};
}
