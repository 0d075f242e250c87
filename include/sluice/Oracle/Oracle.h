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
  int64_t row = 0, column = 0; ///< of the stored tensor, seen as rows
  double value = 0, bound = 0;
};

/// A launch that ran. Buffers hold tensors as they are stored (docs/plan-and-artifact.md: rows of
/// rank 3 are padded); operands have their contents before the launch.
struct OracleLaunch {
  std::vector<const void *> operands, results;
  int64_t length = 0, rows = 0, step = 1, seed = 0, firstStream = 0;
  /// For a domain on an axis of segments, instead of `length`: one per row of the batch.
  const int64_t *lengths = nullptr;
  int64_t firstRow = 0; ///< of the batch in its update, where the dispatch draws by that
  /// Number of partial sums that a kernel may add at the end of a long sum.
  int64_t splits = 0;
  /// Receives every judged element, whether or not it is correct; may be empty.
  std::function<void(const ExpectedElement &)> observe = {};
};

/// An element that is farther from its value than rounding explains.
struct Mismatch {
  unsigned result = 0;
  int64_t row = 0, column = 0; ///< as an Expectation's
  double found = 0, expected = 0, bound = 0;
};

/// The judgement of one result.
struct ResultJudgement {
  int64_t checked = 0;    ///< elements
  int64_t mismatches = 0; ///< of them
  int64_t unbounded = 0;  ///< of them, those that f32 cannot be held to any bound for
  /// bf16 results whose only error is their last rounding: the number of different values, and
  /// their mean error in units of the last place, positive away from zero. Rounding to nearest
  /// keeps it within 4 * 0.29 / sqrt(n) of zero.
  int64_t rounded = 0;
  double meanSignedUlps = 0;
  bool isBiased() const;
};

struct Judgement {
  std::vector<ResultJudgement> results;
  std::vector<Mismatch> worst; ///< the first of each result, at most a few
  bool passed() const;
  bool isBiased() const;   ///< any result's roundings are
  bool isWrong() const;    ///< any element is a mismatch
  std::string str() const; ///< what failed, one line each
};

/// Judges the results of `dispatch`, any kernel op of the dialect. Elements that a launch may leave
/// alone (rows that are not valid) are not judged, unless they must be zero. Fails with a
/// diagnostic on the op where a body holds something unknown.
llvm::FailureOr<Judgement> judge(mlir::Operation *dispatch, const OracleLaunch &launch);

} // namespace sluice::oracle
