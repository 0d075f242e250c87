// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads the code of a plan on a GPU, and captures entries as CUDA graphs.
#pragma once

#include "CudaDriver.h"
#include "CudaLanes.h"
#include "sluice/Runtime/Device.h"

#include <array>
#include <functional>

namespace sluice::runtime::cuda {

/// The loaded functions of every kernel's stages.
class Code {
public:
  /// Loads cubins if `takesCubin`. Otherwise, and for cubins that the driver rejects, the driver
  /// compiles PTX, which `notice` reports. Throws UserError.
  Code(const Driver &driver, const Artifact &artifact, const std::string &target, bool takesCubin,
       int64_t mostSharedBytes);

  /// Returns a message to show to the user once; empty: none.
  std::string notice() const;

  /// Runs all stages of a launch, in order, on `stream`.
  void launch(const Launch &launch, Address arena, Address arguments, Stream stream) const;

private:
  struct Loaded {
    const Stage *stage = nullptr;
    Function function = nullptr;
  };
  /// Cubins that the driver rejected, and the cost of the replacement.
  struct Refusal {
    int64_t count = 0;
    std::string why;    // the driver's message for the first
    double seconds = 0; // time to compile PTX in their place
  };
  Owned<Module> loadModule(const std::string &name, bool takesCubin);
  Module compilePtx(const std::string &name) const;
  void reserveShared(const Kernel &kernel, const Stage &stage, Function function,
                     int64_t mostSharedBytes) const;

  const Driver &driver;
  const Artifact &artifact;
  const std::string target;
  Refusal refusal;
  std::vector<Owned<Module>> modules;
  std::vector<std::vector<Loaded>> kernels; // by kernel and stage
};

/// Joins two notices, either of which may be empty.
std::string joinNotices(const std::string &first, const std::string &second);

/// Consecutive launches between which the host need not read a scalar.
struct Segment {
  std::optional<Guard> guard;
  size_t first = 0, last = 0; // launches of the entry, half-open
  bool writesScalars = false; // writes scalars that the host reads
  std::vector<Lane> lanes;    // by launch
  /// Graphs, captured at the first run: with only generated kernels, and with library calls for
  /// full length and batch.
  std::array<Owned<GraphExec>, 2> graphs;
};

/// Cuts an entry where a guard begins or ends, and where its scalar may have been written; the
/// entry of a bucket also after each launch in `Plan::countsIn`. Guards on `due.N` are ignored: the
/// kernels check these scalars themselves.
std::vector<Segment> cutSegments(const Plan &plan, const std::string &entry,
                                 const std::vector<Launch> &launches);

/// Captures a segment as a graph. Calls `launch` for each launch in order with its stream, and
/// records the events for which streams wait.
Owned<GraphExec> captureGraph(const Driver &driver, const Segment &segment, Stream main,
                              Stream side,
                              const std::function<void(size_t index, Stream stream)> &launch);

} // namespace sluice::runtime::cuda
