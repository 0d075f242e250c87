// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bits where a model is unsure of the next token (Pagnoni et al. 2024, section 2.3), or more so
// than before (Nawrot et al. 2023, section 3.1.3).
#include "ImportStages.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::importing;
using namespace sluice::spec;

/// The entropies, and those of the rows up to `count` before. Before the first row they are 0.
SmallVector<Value> StageWriter::withBefore(Value entropies, int64_t count) {
  SmallVector<Value> all = {entropies};
  for (int64_t by = 1; by <= count; ++by) {
    name("entropy.before." + std::to_string(by));
    all.push_back(sluice::ShiftOp::create(b, entropies.getType(), entropies, by));
  }
  return all;
}

/// 1 where an entropy is above that of each of the rows before it, of those that there are
/// (equation 6). What is before the first row counts as 0, below any entropy, and the first row as
/// no spike. Labels in the paper are of token t by the entropy of x_t, that of row t - 1; in the
/// public code by that of row t, and the first one is 1.
Value StageWriter::spikes(const Boundaries &settings, Value entropies) {
  SmallVector<Value> rows = withBefore(entropies, settings.spike);
  name("rule.first");
  rows.push_back(PositionOp::create(b, entropies.getType(), read(firstName(model, *current))));
  name("rule");
  Value bits = map(rows, [&](ArrayRef<Value> v) -> Value {
    Value one = number(1), zero = number(0), bit = one;
    for (Value before : v.drop_front().drop_back()) {
      bit = arith::SelectOp::create(
          b, arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, v[0], before), bit, zero);
    }
    return isAbove(v.back(), number(0.5), settings.asInCode ? one : zero, bit);
  });
  if (settings.hidden == 0 || settings.asInCode) {
    return bits;
  }
  name("rule.before");
  return sluice::ShiftOp::create(b, bits.getType(), bits, 1);
}

/// 1 where the softmax that a loss scores row t by has an entropy above the threshold, or one that
/// rose by more since row t - 1, or a spike. It is of token t + 1, and read from tokens up to t.
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
  Value entropies = EntropyOp::create(b, typeOf(1), logits);
  if (settings.spike > 0) {
    return spikes(settings, entropies);
  }
  SmallVector<Value> compared = withBefore(entropies, settings.isRise ? 1 : 0);
  name("rule");
  return map(compared, [&](ArrayRef<Value> v) -> Value {
    Value asked = settings.isRise ? arith::SubFOp::create(b, v[0], v[1]).getResult() : v[0];
    return isAbove(asked, number(settings.threshold), number(1), number(0));
  });
}

/// Labels that this loss's softmax gives to boundaries before it.
void StageWriter::labelEarlier(const std::string &loss) {
  for (const Unlabelled &learner : unlabelled[loss]) {
    const Primitive *own = std::exchange(current, learner.stage);
    const auto &settings = std::get<Boundaries>(current->settings);
    terms[learner.term].losses = supervise(learner.logits, bitsOfRule(settings), settings.asInCode);
    current = own;
  }
}
