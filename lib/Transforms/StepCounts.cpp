// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules as integer arithmetic in a row kernel.
#include "StepCounts.h"

using namespace mlir;
using namespace sluice;

Value sluice::constant(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}

/// Divides i64, rounding toward minus infinity.
static Value floorDiv(ImplicitLocOpBuilder &b, Value x, int64_t divisor) {
  Value by = constant(b, divisor);
  Value quotient = arith::DivSIOp::create(b, x, by);
  Value rest = arith::SubIOp::create(b, x, arith::MulIOp::create(b, quotient, by));
  Value below = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rest, constant(b, 0));
  Value lower = arith::SubIOp::create(b, quotient, constant(b, 1));
  return arith::SelectOp::create(b, below, lower, quotient);
}

/// Emits a schedule's expression of d0, which consists of sums, multiples, floor divisions and
/// remainders.
static Value emitExpression(ImplicitLocOpBuilder &b, AffineExpr expr, Value d0) {
  if (auto number = dyn_cast<AffineConstantExpr>(expr)) {
    return constant(b, number.getValue());
  }
  if (isa<AffineDimExpr>(expr)) {
    return d0;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value left = emitExpression(b, binary.getLHS(), d0);
  if (expr.getKind() == AffineExprKind::Add) {
    return arith::AddIOp::create(b, left, emitExpression(b, binary.getRHS(), d0));
  }
  int64_t by = cast<AffineConstantExpr>(binary.getRHS()).getValue();
  switch (expr.getKind()) {
  case AffineExprKind::Mul:
    return arith::MulIOp::create(b, left, constant(b, by));
  case AffineExprKind::FloorDiv:
    return floorDiv(b, left, by);
  case AffineExprKind::CeilDiv:
    return floorDiv(b, arith::AddIOp::create(b, left, constant(b, by - 1)), by);
  default:
    return arith::SubIOp::create(b, left,
                                 arith::MulIOp::create(b, floorDiv(b, left, by), constant(b, by)));
  }
}

/// Computes N(t), the number of rows that steps up to t have computed; 0 before the first step.
Value sluice::emitRowCount(ImplicitLocOpBuilder &b, ScheduleOp schedule, Value t) {
  Value count;
  for (AffineExpr expr : schedule.getCount().getResults()) {
    Value one = emitExpression(b, expr, t);
    count = count ? Value(arith::MinSIOp::create(b, count, one)) : one;
  }
  Value zero = constant(b, 0);
  Value before = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, t, zero);
  return arith::SelectOp::create(b, before, zero, arith::MaxSIOp::create(b, count, zero));
}

Value sluice::packRow(RowsBuilder &rows, Value start, Value count, Value length) {
  ImplicitLocOpBuilder &b = rows.body;
  auto row = RankedTensorType::get({3}, b.getI64Type());
  Value column = dispatch::ColumnOp::create(b, row.clone(b.getI32Type()));
  auto isColumn = [&](int32_t number) -> Value {
    Value other =
        arith::ConstantOp::create(b, DenseElementsAttr::get(row.clone(b.getI32Type()), number));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, column, other);
  };
  Value rest =
      arith::SelectOp::create(b, isColumn(1), rows.splat(count, row), rows.splat(length, row));
  return arith::SelectOp::create(b, isColumn(0), rows.splat(start, row), rest);
}
