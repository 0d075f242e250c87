// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Evaluates ops that move between positions and scales. Shift, upsample and unfold are functions on
// all integers.
#include "Reference.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// Returns p mod k, in [0, k).
static int64_t modulo(int64_t p, int64_t k) { return p - llvm::divideFloorSigned(p, k) * k; }

/// y[p] = x[p - by]
template <typename T> static void evaluate(ShiftOp op, Evaluator<T> &evaluator) {
  Value input = op.getInput();
  int64_t by = op.getBy();
  evaluator.defineLazy(op.getResult(),
                       [&evaluator, input, by](int64_t b, int64_t p, int64_t c, T null) {
                         return evaluator.at(input, b, p - by, c, null);
                       });
}

/// y[p] = x[p div k]
template <typename T> static void evaluate(UpsampleOp op, Evaluator<T> &evaluator) {
  Value input = op.getInput();
  int64_t k = op.getFactor();
  evaluator.defineLazy(op.getResult(),
                       [&evaluator, input, k](int64_t b, int64_t p, int64_t c, T null) {
                         return evaluator.at(input, b, llvm::divideFloorSigned(p, k), c, null);
                       });
}

/// y[m] = x[k m + k - w], x[k m + k - w + 1], ... concatenated
template <typename T> static void evaluate(FoldOp op, Evaluator<T> &evaluator) {
  RowGroup group = op.getRowGroup();
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    std::vector<T> y;
    for (int64_t i = 0; i < group.window; ++i) {
      std::vector<T> x = evaluator.rowAt(op.getInput(), b, group.factor * m + group.first + i);
      y.insert(y.end(), x.begin(), x.end());
    }
    return y;
  });
}

/// y[p, c] = x[p div k, (p mod k) d + c]
template <typename T> static void evaluate(UnfoldOp op, Evaluator<T> &evaluator) {
  Value input = op.getInput();
  int64_t k = op.getFactor(), width = reference::getColumns(op.getResult());
  evaluator.defineLazy(op.getResult(), [&evaluator, input, k, width](int64_t b, int64_t p,
                                                                     int64_t c, T null) {
    return evaluator.at(input, b, llvm::divideFloorSigned(p, k), modulo(p, k) * width + c, null);
  });
}

/// y[0] = x[n - 1]
template <typename T> static void evaluate(LastOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t) {
    return evaluator.rowAt(op.getInput(), b, evaluator.getPositions(op.getInput()) - 1);
  });
}

SLUICE_REFERENCE(ShiftOp)
SLUICE_REFERENCE(UpsampleOp)
SLUICE_REFERENCE(FoldOp)
SLUICE_REFERENCE(UnfoldOp)
SLUICE_REFERENCE(LastOp)
