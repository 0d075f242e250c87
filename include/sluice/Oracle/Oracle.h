// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The oracle of one launch, in float64: the expected results of a dispatch op for its actual
// operands, and the maximum distance of a kernel's results from them. Bounds are derived, never
// tuned: every number carries the error that its roundings can have caused.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/Support/LogicalResult.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::oracle {

/// The expected value of an element of a result or, if `row` is -1, of the sum of a column over all
/// rows.
struct ExpectedElement {
  unsigned result = 0;
  int64_t row = 0, column = 0; ///< position in the stored tensor, viewed as rows
  double value = 0, bound = 0;
};

/// A completed launch. Buffers hold tensors as they are stored (docs/plan-and-artifact.md: rows of
/// rank 3 are padded); operands have the contents from before the launch.
struct OracleLaunch {
  std::vector<const void *> operands, results;
  int64_t length = 0, rows = 0, step = 1, seed = 0, firstStream = 0;
  /// Lengths that replace `length` for a domain on an axis of segments: one per row of the batch.
  const int64_t *lengths = nullptr;
  /// Number of each row of the batch for random numbers; null: its index.
  const int64_t *drawRows = nullptr;
  /// Number of partial sums that a kernel may add at the end of a long sum.
  int64_t splits = 0;
  /// Receives every checked element, correct or not; may be empty.
  std::function<void(const ExpectedElement &)> observe = {};
};

/// An element whose error is larger than rounding can cause.
struct Mismatch {
  unsigned result = 0;
  int64_t row = 0, column = 0; ///< position as in ExpectedElement
  double found = 0, expected = 0, bound = 0;
};

/// The judgement of one result.
struct ResultJudgement {
  int64_t checked = 0;    ///< number of elements
  int64_t mismatches = 0; ///< number of mismatches among them
  int64_t unbounded = 0;  ///< number of elements for which f32 has no error bound
  /// bf16 results whose only error is their last rounding: the number of distinct values, and their
  /// mean error in units of the last place, positive away from zero. The mean error of rounding to
  /// nearest is within 4 * 0.29 / sqrt(n) of zero.
  int64_t rounded = 0;
  double meanSignedUlps = 0;
  bool isBiased() const;
};

struct Judgement {
  std::vector<ResultJudgement> results;
  std::vector<Mismatch> worst; ///< the first mismatches of each result, a few at most
  bool passed() const;
  bool isBiased() const;   ///< true if the roundings of a result are biased
  bool isWrong() const;    ///< true if there is a mismatch
  std::string str() const; ///< describes the failures, one per line
};

/// Judges the results of `dispatch`, any kernel op of the dialect. Ignores elements that a launch
/// need not write (invalid rows), unless they must be zero. Fails with a diagnostic on the op if a
/// body contains an unknown op.
llvm::FailureOr<Judgement> judge(mlir::Operation *dispatch, const OracleLaunch &launch);

} // namespace sluice::oracle
