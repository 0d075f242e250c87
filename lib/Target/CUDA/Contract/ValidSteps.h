// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of a sum over rows of an axis whose sequences have lengths of their own.
#pragma once

#include "../TensorCore/TensorCore.h"

namespace sluice::cuda {

/// Lists the steps that have valid rows, sequence after sequence. A step is `size` rows of one
/// sequence, of which the valid ones come first. Each of `parts` blocks owns an equal share of the
/// list, so that no block has more work where capacity is unused. The share is in shared memory.
class ValidSteps {
public:
  /// `firstByte` is an offset in dynamic shared memory, a multiple of 4.
  ValidSteps(Frame &frame, TensorCore &core, dispatch::DomainAttr domain, int64_t size,
             int64_t parts, int64_t firstByte);

  /// Returns whether a domain has such an axis and a share fits into shared memory.
  static bool apply(dispatch::DomainAttr domain, int64_t size, int64_t parts);

  /// Lists the share of part `part` (index). Returns its number of steps (index). Threads of the
  /// block must not have diverged.
  Value list(Value part);
  Value firstRow(Value number); ///< index: first row of a step of the share
  int64_t bytes() const { return 4 * (domain.getBatch() + share); }

private:
  Value load(Value number, int64_t first);
  void store(Value value, Value number, int64_t first);
  Value countSteps(Value sequence);
  static int64_t mostSteps(dispatch::DomainAttr domain, int64_t size, int64_t parts);

  Frame &frame;
  TensorCore &core;
  Emitter &e;
  dispatch::DomainAttr domain;
  const int64_t size, parts, share, countsByte, stepsByte;
};

} // namespace sluice::cuda
