// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The code of a plan on a GPU, and its entries as CUDA graphs.
#pragma once

#include "CudaDriver.h"
#include "CudaLanes.h"
#include "sluice/Runtime/Device.h"

#include <array>
#include <functional>

namespace sluice::runtime::cuda {

/// Functions of every kernel's stages, loaded.
class Code {
public:
  /// From the cubin where `takesCubin`, else, or where the driver refuses it, from PTX, which the
  /// driver compiles; `notice` then says so. Throws UserError.
  Code(const Driver &driver, const Artifact &artifact, const std::string &target, bool takesCubin,
       int64_t mostSharedBytes);

  /// What to tell the user once, empty: nothing.
  std::string notice() const;

  /// All stages of a launch, in order, on `stream`.
  void launch(const Launch &launch, Address arena, Address arguments, Stream stream) const;

private:
  struct Loaded {
    const Stage *stage = nullptr;
    Function function = nullptr;
  };
  /// Cubins that the driver refused, and what that cost.
  struct Refusal {
    int64_t count = 0;
    std::string why;    // the driver's words of the first
    double seconds = 0; // that it took to compile PTX in their place
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

/// Two notices, either of which may be empty, as one.
std::string joinNotices(const std::string &first, const std::string &second);

/// Launches in a row that need no look at a scalar between them.
struct Segment {
  std::optional<Guard> guard;
  size_t first = 0, last = 0; // launches of the entry, half open
  bool writesScalars = false; // any that the host reads
  std::vector<Lane> lanes;    // of its launches
  /// Captured when first run: of generated kernels alone, and, for full length and batch, with
  /// what a library does.
  std::array<Owned<GraphExec>, 2> graphs;
};

/// Cuts an entry where a guard begins or ends, or where its scalar may have been written, and one
/// of a bucket behind each launch that `Plan::countsIn` has. Guards of `due.N` are none here.
std::vector<Segment> cutSegments(const Plan &plan, const std::string &entry,
                                 const std::vector<Launch> &launches);

/// A segment as a graph: `launch` is called for each launch in order, with the stream of its lane,
/// between the events that its lane waits for and is waited for by.
Owned<GraphExec> captureGraph(const Driver &driver, const Segment &segment, Stream main,
                              Stream side,
                              const std::function<void(size_t index, Stream stream)> &launch);

} // namespace sluice::runtime::cuda
