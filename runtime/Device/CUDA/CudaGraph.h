// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Captures the launches of an entry as CUDA graphs.
#pragma once

#include "CudaDriver.h"
#include "CudaLanes.h"

#include <array>
#include <functional>

namespace sluice::runtime::cuda {

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

/// An event that each run of a graph records after the launches before `position`.
struct Mark {
  size_t position; // in the entry
  Event event;
};

/// The streams that take part in a capture.
struct CaptureStreams {
  Stream main, side;
  Stream marks; // of marks alone, so that no launch waits for them
};

/// Captures a segment as a graph. Calls `launch` for each launch in order with its stream, and
/// records the events for which streams wait. `marks` are in the order of their positions, which
/// are after the first launch.
Owned<GraphExec> captureGraph(const Driver &driver, const Segment &segment,
                              const CaptureStreams &streams, const std::vector<Mark> &marks,
                              const std::function<void(size_t index, Stream stream)> &launch);

} // namespace sluice::runtime::cuda
