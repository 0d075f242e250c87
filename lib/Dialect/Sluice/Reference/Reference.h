// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Ties an op's one templated evaluation to its two interface methods.
#pragma once

#include "sluice/Dialect/Sluice/Reference.h"

/// The file must define `template <typename T> static void evaluate(OP op, Evaluator<T>
/// &evaluator)`.
#define SLUICE_REFERENCE(OP)                                                                       \
  void sluice::OP::evaluateDouble(sluice::reference::Evaluator<double> &evaluator) {               \
    evaluate(*this, evaluator);                                                                    \
  }                                                                                                \
  void sluice::OP::evaluateFloat(sluice::reference::Evaluator<float> &evaluator) {                 \
    evaluate(*this, evaluator);                                                                    \
  }
