// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention dropout: the factors of one block of scores.
#include "Attention.h"

#include "sluice/Target/Common/Random.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

namespace {

/// Vectors of i64, one element per query.
struct Wide {
  Emitter &e;
  VectorType type;

  explicit Wide(Emitter &e) : e(e), type(VectorType::get({e.lanes}, e.b.getI64Type())) {}
  Value splat(Value index) {
    Value scalar = arith::IndexCastOp::create(e.b, e.b.getI64Type(), index);
    return vector::BroadcastOp::create(e.b, type, scalar);
  }
  /// (0, 1, ...) * step
  Value ramp(int64_t step) {
    SmallVector<int64_t> values;
    for (int64_t i = 0; i < e.lanes; ++i) {
      values.push_back(i * step);
    }
    return arith::ConstantOp::create(e.b, DenseElementsAttr::get(type, ArrayRef<int64_t>(values)));
  }
};

} // namespace

static Value computeDropoutFactor(Emitter &e, const AttentionShape &shape, Value uniform) {
  Value kept =
      arith::CmpFOp::create(e.b, arith::CmpFPredicate::OGE, uniform, e.splat(shape.dropout));
  return e.select(kept, e.splat(1.0f / (1.0f - shape.dropout)), e.splat(0));
}

// The element number is ((b heads + h) T + p) T' + q, where b is the number of the batch row for
// draws, and T and T' the positions of queries and keys, extended by draw_parts. Four consecutive
// elements share one evaluation of Philox. If T' is a multiple of 4, one evaluation serves four
// keys; otherwise each key needs its own, at four times the cost.
void attention::emitKeep(Emitter &e, Frame &frame, const AttentionShape &shape, Value head,
                         Value p0, Value q0, Value keep) {
  Wide wide(e);
  int64_t keys = shape.drawnKeys % 4 == 0 ? 4 : 1;
  Value step = frame.step(), seed = frame.seed(), firstStream = frame.firstStream();
  head = emitDrawnRow(e.b, head, frame.drawRows(), shape.heads, /*parts=*/1);
  Value row = e.mul(e.add(e.mul(head, shape.drawnQueries), p0), shape.drawnKeys);
  e.loop(e.index(0), e.index(shape.keyBlock), keys, [&](Value q) {
    for (int64_t j = 0; j < shape.queryVectors; ++j) {
      Value offset = e.index(j * e.lanes);
      Value first = e.add(row, e.add(e.mul(offset, shape.drawnKeys), e.add(q0, q)));
      Value start = wide.splat(keys == 4 ? e.floorDiv(first, 4) : first);
      Value elements = e.add(start, wide.ramp(shape.drawnKeys / keys));
      if (keys == 4) {
        for (auto [i, uniform] : llvm::enumerate(
                 emitUniformBlocks(e.b, elements, shape.randomId, firstStream, step, seed))) {
          e.store(computeDropoutFactor(e, shape, uniform), keep, {e.add(q, i), offset});
        }
      } else {
        Value uniform = emitUniform(e.b, elements, shape.randomId, firstStream, step, seed);
        e.store(computeDropoutFactor(e, shape, uniform), keep, {q, offset});
      }
    }
  });
}
