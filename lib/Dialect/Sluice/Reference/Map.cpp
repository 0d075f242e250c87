// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Scalar code over every element.
#include "Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// y[p, c] = body(x0[p, c], x1[p, c], ...)
template <typename T> static void evaluate(MapOp op, Evaluator<T> &evaluator) {
  const Setting &setting = evaluator.getSetting();
  int64_t columns = evaluator.getColumns(op.getResult());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> row(columns);
    for (int64_t c = 0; c < columns; ++c) {
      SmallVector<Scalar<T>> arguments;
      for (Value input : op.getInputs()) {
        arguments.push_back({.real = evaluator.at(input, b, p, c)});
      }
      ScalarPlace place{setting.seed, setting.step, p, c,
                        b * evaluator.getCapacity(op.getResult()) + p};
      row[c] = evaluateScalar<T>(op.getBody(), arguments, place).front().real;
    }
    return row;
  });
}

SLUICE_REFERENCE(MapOp)
