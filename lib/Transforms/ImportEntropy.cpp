// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bits where a model is unsure of the next token (Pagnoni et al. 2024, section 2.3).
#include "ImportStages.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

/// 1 where the softmax that a loss scores row t by has an entropy above the threshold, or one that
/// rose by more since row t - 1. It is of token t + 1, and read from tokens up to t.
Value StageWriter::entropyBits(const Boundaries &settings) {
  const Asked &of = asked.at(settings.loss);
  Value rows = stored("rows", of.rows);
  auto scale = cast<SequenceType>(rows.getType()).getScale();
  auto typeOf = [&](int64_t width) {
    return SequenceType::get(b.getContext(), scale, width, b.getF32Type());
  };
  Value weight = readWeight(of.weight), bias = read(of.bias);
  name("logits");
  Value logits = LinearOp::create(b, typeOf(model.vocabulary), rows, weight, bias);
  name("entropy");
  SmallVector<Value> entropies = {EntropyOp::create(b, typeOf(1), logits)};
  if (settings.isRise) {
    name("entropy.before");
    entropies.push_back(sluice::ShiftOp::create(b, typeOf(1), entropies[0], 1));
  }
  name("rule");
  return map(entropies, [&](ArrayRef<Value> v) -> Value {
    Value asked = settings.isRise ? arith::SubFOp::create(b, v[0], v[1]).getResult() : v[0];
    Value above =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, asked, number(settings.threshold));
    return arith::SelectOp::create(b, above, number(1), number(0));
  });
}
