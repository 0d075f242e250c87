// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a score of attention has by the distance p - q of query and key.
#pragma once

#include "mlir/IR/ValueRange.h"

namespace sluice::dispatch {

/// Operands of an attention behind those that each has. Absent ones are null.
struct DistanceTerms {
  mlir::Value query; ///< Qv, rows of heads D columns; there where `rows` is
  mlir::Value rows;  ///< R: row p - q is multiplied by Qv's row p, head by head
  mlir::Value bias;  ///< [M, heads]: row min(p - q, M - 1) is added to what the score region yields

  DistanceTerms(mlir::ValueRange terms, bool hasBias) {
    if (hasBias && !terms.empty()) {
      bias = terms.back();
      terms = terms.drop_back();
    }
    if (terms.size() == 2) {
      query = terms.front();
      rows = terms.back();
    }
  }

  size_t count() const { return (rows ? 2 : 0) + (bias ? 1 : 0); }
};

} // namespace sluice::dispatch
