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

/// 1 where the softmax that a loss scores row t by has an entropy above the threshold. It is of
/// token t + 1, and read from tokens up to t.
Value StageWriter::entropyBits(const Boundaries &settings) {
  const Asked &of = asked.at(settings.loss);
  Value rows = stored("rows", of.rows);
  auto scale = cast<SequenceType>(rows.getType()).getScale();
  auto typeOf = [&](int64_t width) {
    return SequenceType::get(b.getContext(), scale, width, b.getF32Type());
  };
  Value weight = readWeight(of.head.tied ? embedding : of.prefix + ".weight");
  Value bias = of.head.bias ? read(of.prefix + ".bias") : Value();
  name("logits");
  Value logits = LinearOp::create(b, typeOf(model.vocabulary), rows, weight, bias);
  name("entropy");
  Value entropy = EntropyOp::create(b, typeOf(1), logits);
  name("rule");
  return map(entropy, [&](ArrayRef<Value> v) -> Value {
    Value above =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, v[0], number(settings.threshold));
    return arith::SelectOp::create(b, above, number(1), number(0));
  });
}
