// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of a range that are drawn, for the row emitters of both targets.
#pragma once

#include "RowScalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "sluice/Target/Common/Random.h"

namespace sluice::target {

/// Returns true (i1) if row `q` (index) of a range is drawn; null if the range has all rows.
template <typename RowEmitter>
mlir::Value isDrawnRow(RowEmitter &emitter, unsigned argument, mlir::Value q, PhiloxWord word) {
  mlir::ImplicitLocOpBuilder &b = emitter.b;
  auto access = mlir::cast<dispatch::AccessAttr>(emitter.op.getAccesses()[argument]);
  if (!access.isDrawn()) {
    return {};
  }
  mlir::Value own = getIndexValue(emitter.op, emitter.scalars, access.getDrawn()),
              other = emitter.addresses.drawNumber(argument, emitter.at, q);
  mlir::Value isSame = mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::eq, own, other);
  mlir::Value isPair = emitPairDraw(b, own, emitter.at.position, q, word);
  return mlir::arith::AndIOp::create(b, isSame, isPair);
}

/// Returns the number of rows of a range that are drawn, an i32. `loop(initial, add)` carries
/// values over the range; `add` returns those after row q.
template <typename RowEmitter, typename RangeLoop>
mlir::Value countDrawnRows(RowEmitter &emitter, unsigned argument, PhiloxWord word,
                           RangeLoop loop) {
  mlir::ImplicitLocOpBuilder &b = emitter.b;
  mlir::Value zero = mlir::arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  auto add = [&](mlir::Value q, mlir::ValueRange counts) -> llvm::SmallVector<mlir::Value> {
    mlir::Value isDrawn = isDrawnRow(emitter, argument, q, word);
    mlir::Value one = mlir::arith::ExtUIOp::create(b, b.getI32Type(), isDrawn);
    return {mlir::arith::AddIOp::create(b, counts.front(), one)};
  };
  return loop(zero, add).front();
}

} // namespace sluice::target
