// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Base class of devices whose arena is host memory and whose launches finish before they return.
#pragma once

#include "HostLaunch.h"

#include <chrono>
#include <cstring>

namespace sluice::runtime {

class HostDevice : public Device {
public:
  bool sharesMemory() const final { return true; }
  uint8_t *host() final { return arena.get(); }
  void upload(MemoryRange) final {}
  void download(MemoryRange) final {}
  void copy(MemoryRange range, int64_t offset) final {
    std::memcpy(arena.get() + offset, arena.get() + range.offset, static_cast<size_t>(range.bytes));
  }

  void runPart(const std::string &, const std::vector<Launch> &launches, size_t first,
               size_t last) final {
    for (size_t i = first; i < last; ++i) {
      if (isAllowed(plan(), launches[i].guard, arena.get())) {
        launch(launches[i]);
      }
    }
  }

protected:
  using Clock = std::chrono::steady_clock;

  using Device::Device;

  /// Returns the seconds since `start`.
  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  HostMemory arena; ///< set by the constructor of the device, after its checks
};

} // namespace sluice::runtime
