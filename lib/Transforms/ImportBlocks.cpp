// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages of models that read fixed blocks of tokens (Yu et al. 2023, Ho et al. 2024): rows that
// stand side by side in one of a coarser scale, and rows where blocks start.
#include "ImportStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

/// Row m: W x[k m], ..., W x[k m + k - 1], of 1 / k of the result's columns each.
Value StageWriter::concatenate(const Shorten &settings) {
  Value rows = linear("", stored("rows", streams[current->input]), residualType);
  if (settings.factor == 1) {
    return rows;
  }
  name("fold");
  return FoldOp::create(b, sequence(current->factor, current->width, residualType), rows,
                        settings.factor, /*window=*/0);
}

/// Row p: W times its own part of the columns of row p div k, the (p mod k)-th of k.
Value StageWriter::split(const Upsample &settings) {
  Value x = streams[current->input];
  if (settings.factor > 1) {
    Value groups = stored("groups", x);
    auto type = cast<SequenceType>(x.getType());
    name("unfold");
    x = UnfoldOp::create(
        b, sequence(current->factor, type.getWidth() / settings.factor, type.getElement()), groups,
        settings.factor);
  }
  return linear("", stored("rows", x), residualType);
}

Value StageWriter::stage(const Replace &settings) {
  int64_t missing = settings.start == 0 ? 0 : settings.block - settings.start; // of the first block
  auto whole = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  };
  return map({streams[current->second], streams[current->input]}, [&](ArrayRef<Value> v) -> Value {
    Value row =
        arith::AddIOp::create(b, dispatch::PositionOp::create(b, b.getI32Type()), whole(missing));
    Value isStart =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                              arith::RemSIOp::create(b, row, whole(settings.block)), whole(0));
    return arith::SelectOp::create(b, isStart, v[0], v[1]);
  });
}
