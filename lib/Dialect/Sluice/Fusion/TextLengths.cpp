// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores the number of rows of each text that kernels of an axis run over, if the host specifies
// it.
#include "sluice/Dialect/Sluice/TextLengths.h"

#include "RowPass.h"
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Plan/Plan.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::lowering;

void sluice::storeTextLengths(StringRef axis, SequenceType type, DispatchEmitter &emitter) {
  Operation *scope = emitter.getScope();
  bool isOfTokens = !isGiven(scope, type);
  int64_t batch = getBatch(scope), rows = getPositions(scope, type);
  RowPass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Type i64 = b.getI64Type();
  std::string place = givenPlace(scope, countsName(isOfTokens ? "tokens" : axis));
  Value count = pass.element(emitter.bind(place, RankedTensorType::get({batch}, i64)),
                             dispatch::AccessKind::Flat);
  Value limit = isOfTokens
                    ? pass.element(emitter.bind("scalar:length", RankedTensorType::get({}, i64)),
                                   dispatch::AccessKind::Scalar)
                    : Value(arith::ConstantOp::create(b, b.getI64IntegerAttr(rows)));
  Value stored =
      pass.finish(arith::MinSIOp::create(b, count, limit), RankedTensorType::get({batch, 1}, i64),
                  dispatch::DomainAttr::get(b.getContext(), batch, 1, 0));
  stored.getDefiningOp<dispatch::RowsOp>().setLabel("lengths");
  plan::StoreOp::create(emitter.b, "scalar:" + plan::lengthName(axis), stored);
}
