// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the cost of the accesses of a warp: sectors of global memory, passes over the banks of
// shared memory.
#pragma once

#include "Program.h"

namespace sluice::emulator {

/// Collects the accesses of a warp's lanes between two points where the lanes meet, because lanes
/// run one after the other here.
class Traffic {
public:
  Traffic(const Program &program, Counters &counters);
  void start(unsigned threads);
  void record(unsigned thread, uint32_t site, uint64_t address, uint32_t bytes, bool shared);
  void flush(unsigned warp);
  /// Adds the counts of all sites to the counters.
  void finish();

private:
  struct Request {
    uint64_t address;
    uint32_t site, bytes : 31, shared : 1;
  };
  void count(uint32_t site, llvm::ArrayRef<Request> lanes);

  const Program &program;
  Counters &counters;
  std::vector<std::vector<Request>> queues; ///< requests of each thread
  std::vector<SiteTraffic> sites;
};

} // namespace sluice::emulator
