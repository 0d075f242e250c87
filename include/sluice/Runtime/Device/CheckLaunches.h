// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replays recorded launches on a device, and compares their results.
#pragma once

#include "sluice/Runtime/Device/Recording.h"

namespace sluice::runtime {

/// The result of a recorded launch on another device.
struct LaunchCheck {
  std::string kernel;
  int64_t checked = 0;   ///< numbers with a finite bound
  int64_t unbounded = 0; ///< numbers that may have any value except NaN
  int64_t wrong = 0;     ///< among both kinds
  int64_t differing = 0; ///< elements that differ bitwise from the recording
  std::string first;     ///< the first wrong number: position, expected and found value
};

/// Runs `launch` on `device` with the recorded operands. `goldens`, if given, receives the device's
/// results. Throws UserError if the recording is from another artifact.
LaunchCheck checkLaunch(Device &device, const RecordedLaunch &launch,
                        RecordedLaunch *goldens = nullptr);

} // namespace sluice::runtime
