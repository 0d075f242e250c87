// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry `update` as processes with a sharded state of the optimizer run it.
#pragma once

#include "sluice/Runtime/Device/Device.h"

#include <string>
#include <vector>

namespace sluice::runtime {

/// Each process runs the launches over the flat gradients for its own rows, and stores the
/// optimizer's state of these rows alone. Other launches, of scalars, run on every process.
struct UpdateDivision {
  struct Part {
    bool isDivided = false;
    /// Buffers with results of the launch that all processes need, complete ones. Row i of n has
    /// the i-th n-th of the bytes.
    std::vector<MemoryRange> gathered;
  };
  std::vector<Part> launches; ///< of the entry `update`
  int64_t rows = 0;           ///< of the flat gradients; a range of a process has complete ones
  std::vector<MemoryRange> states; ///< the optimizer's state of all rows, without the weights
  /// The weights have compute copies, which the entry `prepare` writes.
  bool hasCopies = false;

  /// Derives the division from the operands of the launches. Throws UserError, with the artifact's
  /// path, if the plan's update cannot be divided.
  static UpdateDivision derive(const Plan &plan, const std::string &path);
};

} // namespace sluice::runtime
